"""A watched job explained: its measured step, waits for input and named parts; what limits the rest is predicted."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.explanation.answer import Explanation, Limit
from sightline.explanation.subject import Subject
from sightline.prediction.changes import seconds
from sightline.progress import SILENT, Progress
from sightline.quantities import percent
from sightline.runs import Run

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

SUITE = "watch"
"""Of runs that are watches."""
UNMATCHED = "unmatched"
_MOST = 4
"""Parts, and sentences about departures, that are told."""


def is_watched(subject: Subject) -> bool:
    """Return whether a measured run is a watch, which has no table of what the step goes to."""
    return isinstance(subject.given, Run) and subject.given.suite == SUITE and not subject.rows


def explain_watched(subject: Subject, known: "Anchored | None" = None, progress: Progress = SILENT) -> Explanation:
    """Return the explanation of a watched job.

    Waits for input are measured. Limits of the rest of the step are those of its scenario's prediction, scaled to it;
    without a scenario they are unmatched.
    """
    from sightline.explanation.measured import explain_measured

    plain = explain_measured(subject, known, progress)
    measured: Mapping[str, Any] = subject.given.result.get("measurement") or {}
    whole = plain.whole_s
    waits = min(float(measured.get("input_wait_s") or 0.0), whole)
    limits, phases = _scaled(subject, known, whole - waits)
    found = {"input": waits, **limits}
    ordered = sorted(((name, time_s) for name, time_s in found.items() if time_s > 0), key=lambda item: -item[1])
    return replace(
        plain,
        phases={name: time_s for name, time_s in {"input": waits, **phases}.items() if time_s > 0},
        limits=[Limit(limit=name, time_s=time_s, share=time_s / whole) for name, time_s in ordered],
        input_wait_s=waits,
        unmatched_s=found.get(UNMATCHED, 0.0),
        bubble_s=found.get("bubble", 0.0),
        exposed_communication_s=found.get("network", 0.0),
        sentences=[
            *_step(measured, whole, waits),
            *_parts(measured, whole),
            *list(subject.given.result.get("warnings") or ())[-_MOST:],
            *_rest(limits),
            # The first sentence of a measurement is about its table.
            *(plain.sentences[1:] if subject.scenario is not None else ()),
        ],
    )


def _scaled(subject: Subject, known: "Anchored | None", rest: float) -> tuple[dict[str, float], dict[str, float]]:
    """Limits and phases of what is left of the step besides waits for input."""
    from sightline.explanation.advice import answer
    from sightline.explanation.limits import limits_of

    predicted = None if subject.scenario is None else answer(subject.scenario, known)
    if predicted is None or not predicted.whole_s:
        return {UNMATCHED: rest}, {UNMATCHED: rest}
    factor = rest / float(predicted.whole_s)
    limits = {one.limit: factor * one.time_s for one in limits_of(predicted)}
    return limits, {name: factor * float(time_s) for name, time_s in predicted.phases.items()}


def _step(measured: Mapping[str, Any], whole: float, waits: float) -> Iterator[str]:
    spread = measured.get("spread_s") or {}
    between = f", from {seconds(spread['p10'])} to {seconds(spread['p90'])} (p10 to p90)" if spread else ""
    count = f" over {measured['steps']:,} steps" if measured.get("steps") else ""
    yield f"A step of the watched job takes {seconds(whole)}{count}{between}."
    if waits > 0:
        yield f"It waits {seconds(waits)} ({percent(waits / whole)}) for its input."


def _parts(measured: Mapping[str, Any], whole: float) -> Iterator[str]:
    parts = sorted((measured.get("parts") or {}).items(), key=lambda item: -item[1])[:_MOST]
    if parts:
        listed = ", ".join(f"{name} {seconds(took)} ({percent(took / whole)})" for name, took in parts)
        yield f"Of the parts that the job names, {listed}."


def _rest(limits: Mapping[str, float]) -> Iterator[str]:
    if UNMATCHED in limits:
        yield (
            "The watch knows no scenario, so what limits the rest of the step is unknown: watch it with its scenario, "
            "or record a trace by torch.profiler and explain that."
        )
    else:
        yield "What limits the rest of the step is predicted from its scenario, and scaled to the measured step."
