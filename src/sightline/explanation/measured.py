"""A measured run or a watched job explained next to its prediction: where it is slower, what limits it, what helps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.content import sums
from sightline.errors import InputError
from sightline.explanation.advice import NOTHING_HELPS, Tries, memory_sentences, try_changes
from sightline.explanation.answer import Explanation, Limit
from sightline.explanation.compared import Side
from sightline.explanation.comparison import FASTER, SLOWER, Difference, compare_sides
from sightline.explanation.limits import BUBBLE, HOST, alone_s, limits_of
from sightline.explanation.reading import answer, side_of_profile
from sightline.explanation.subject import Subject
from sightline.prediction.changes import LIMIT_NAMES, WHOLE_NAMES, seconds
from sightline.profile import COMMUNICATION, Profile, Row
from sightline.profile.metrics import BOUNDS, OPERATOR
from sightline.progress import SILENT, Progress
from sightline.quantities import percent
from sightline.runs import Run

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

UNMATCHED = "unmatched"
"""Measured seconds of which no table says what bounds them."""
_MOST = 3
"""Phases and modules that are named as slower than predicted."""
_ALIKE = 1.2
"""Times as long as the whole that steps which measure modules may take: hooks cost them some per cent."""
_SLOWED = (
    "Modules were measured in separate steps, which took {}, probably because the machine was busy; they are not "
    "compared with the prediction."
)
_OF_PHASES = {**dict.fromkeys(COMMUNICATION, "network"), BUBBLE: "bubble", HOST: "host"}


def explain_measured(subject: Subject, known: "Anchored | None" = None, progress: Progress = SILENT) -> Explanation:
    """Return the explanation of a measured run: its own seconds, compared with its prediction.

    Changes are predicted with the run itself as an anchor, so that gains are those of the machine it ran on.
    """
    side = subject.measured
    assert side is not None  # noqa: S101 - explain asks for measured subjects only
    whole = side.figures[side.kind.whole]
    predicted = None if subject.scenario is None else answer(subject.scenario, known)
    own, tries, remarks = predicted, Tries(advice=[]), list[str]()
    if own is not None:
        anchor, remarks = _joined(subject, known)
        if anchor is not None and anchor is not known:
            own, remarks = _anchored(subject, own, anchor)
            subject = replace(subject, words=(*subject.words, "--anchor", subject.words[0]))
        tries = try_changes(own, subject, anchor, progress)
    whole_of_rows_s = sum(float(row.exposed_s) for row in subject.rows)
    are_alike = whole_of_rows_s <= _ALIKE * whole
    limits = measured_limits(side, subject.rows, predicted)
    return Explanation(
        title=side.title or side.name,
        source=side.source,
        whole=side.kind.whole,
        whole_s=whole,
        phases=dict(side.phases),
        limits=limits,
        rows=list(subject.rows),
        advice=tries.advice,
        exposed_communication_s=sum(side.phases.get(name, 0.0) for name in COMMUNICATION),
        bubble_s=side.phases.get(BUBBLE, 0.0),
        launch_bound_s=side.phases.get(HOST, 0.0),
        unmatched_s=sum(one.time_s for one in limits if one.limit == UNMATCHED),
        sentences=[
            *_limits(side, limits),
            *(() if predicted is None else _slower(side, predicted, ("phase", "module") if are_alike else ("phase",))),
            *(() if are_alike else [_SLOWED.format(seconds(whole_of_rows_s))]),
            *(() if own is None else memory_sentences(own, tries.single)),
            *([NOTHING_HELPS] if own is not None and not tries.advice and own.task is not OPERATOR else ()),
        ],
        warnings=[*side.warnings, *remarks],
        scenario=dict(side.scenario),
        answer=own,
    )


def _anchored(subject: Subject, predicted: Profile, with_run: "Anchored") -> tuple[Profile, list[str]]:
    """The prediction with the run as an anchor, or without where that cannot be, which a remark says."""
    try:
        return answer(subject.scenario, with_run), []
    except InputError as error:
        return predicted, [f"gains are from the uncorrected prediction: {error.problems[0]}"]


def _joined(subject: Subject, known: "Anchored | None") -> "tuple[Anchored | None, list[str]]":
    """What the run teaches; what other anchors taught where some were given, or where it teaches nothing."""
    if known is not None:
        return known, []
    from sightline.anchors.corrected import anchored

    try:
        return anchored([subject.given]), []
    except InputError as error:
        return None, [f"gains are from the uncorrected prediction: {error.problems[0]}"]


def measured_limits(side: Side, rows: Sequence[Row], predicted: Profile | None) -> list[Limit]:
    """Return the seconds of a measurement by what limits them, largest first; they sum to the whole.

    Phases of communication and of waiting are limited by what they are called. The seconds of another phase are split
    as its measured rows are bound, or as its predicted ones where none was measured; of what is left nothing is known.
    """
    whole = side.figures[side.kind.whole]
    found: dict[str, float] = {}
    for phase, took in side.phases.items():
        for limit, share in _shares(phase, rows, predicted).items():
            found[limit] = found.get(limit, 0.0) + share * took
    left = whole - sum(found.values())
    if left > 1e-9 * whole:
        found[UNMATCHED] = found.get(UNMATCHED, 0.0) + left
    alone = {} if predicted is None else alone_s(predicted)
    limits = [
        Limit(limit=name, time_s=value, share=value / whole, alone_s=alone.get(name))
        for name, value in found.items()
        if value > 0
    ]
    return sorted(limits, key=lambda one: -one.time_s)


def _shares(phase: str, rows: Sequence[Row], predicted: Profile | None) -> Mapping[str, float]:
    if phase in _OF_PHASES:
        return {_OF_PHASES[phase]: 1.0}
    for table in (rows, () if predicted is None else predicted.rows):
        if shares := _bounds(row for row in table if row.phase == phase):
            return shares
    return {UNMATCHED: 1.0}


def _bounds(rows: Iterable[Row]) -> dict[str, float]:
    by = sums((row.bound, float(row.exposed_s)) for row in rows if row.bound in BOUNDS)
    total = sum(by.values())
    return {name: value / total for name, value in by.items()} if total > 0 else {}


def _limits(side: Side, limits: Sequence[Limit]) -> Iterator[str]:
    whole = side.figures[side.kind.whole]
    if limits:
        first = limits[0]
        name = LIMIT_NAMES.get(first.limit, first.limit)
        yield (
            f"{name[:1].upper()}{name[1:]} takes {seconds(first.time_s)} of the measured {seconds(whole)} "
            f"({percent(first.share)})."
        )


def _slower(side: Side, predicted: Profile, levels: Sequence[str]) -> Iterator[str]:
    """Yield how the whole compares with its prediction, then what is slower at each level, longest first."""
    found = compare_sides(side_of_profile(predicted, "predicted"), side, ("step", "phase", "module"))
    whole = next((row for row in found.rows if row.level == "step" and row.quantity == side.kind.whole), None)
    if whole is not None and whole.ratio:
        name = WHOLE_NAMES.get(side.kind.whole, "it")
        yield f"Measured, {name} takes {_ratio(whole)}."
    for level in levels:
        slower = [row for row in found.rows if row.level == level and row.verdict == SLOWER and row.a and row.b]
        slower.sort(key=lambda row: (row.a or 0.0) - (row.b or 0.0))
        if slower:
            named = "; ".join(f"{_place(row)} takes {_ratio(row)}" for row in slower[:_MOST])
            yield f"Slower than predicted by {level}: {named}."


def _place(row: Difference) -> str:
    phase = (row.phase or "").replace("_", " ")
    return f"{phase}: {row.module}" if row.module else phase


def _ratio(row: Difference) -> str:
    """Both times with their ratio and its interval."""
    a, b, ratio = float(row.a or 0.0), float(row.b or 0.0), float(row.ratio or 0.0)
    span = "" if row.interval is None else f" ({row.interval[0]:.2f} to {row.interval[1]:.2f})"
    verdict = {SLOWER: ", which is slower", FASTER: ", which is faster"}.get(row.verdict, ", no difference found")
    return f"{seconds(b)}, predicted {seconds(a)}: {ratio:.2f} x{span}" + (verdict if row.level == "step" else "")


SUITE = "watch"
"""Of runs that are watches."""
_MOST_PARTS = 4
"""Parts, and sentences about departures, that are told."""


def is_watched(subject: Subject) -> bool:
    """Return whether a measured run is a watch, which has no table of what the step goes to."""
    return isinstance(subject.given, Run) and subject.given.suite == SUITE and not subject.rows


def explain_watched(subject: Subject, known: "Anchored | None" = None, progress: Progress = SILENT) -> Explanation:
    """Return the explanation of a watched job.

    Waits for input are measured. Limits of the rest of the step are those of its scenario's prediction, scaled to it;
    without a scenario they are unmatched.
    """
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
            *_watched_step(measured, whole, waits),
            *_parts(measured, whole),
            *list(subject.given.result.get("warnings") or ())[-_MOST_PARTS:],
            *_rest(limits),
            # The first sentence of a measurement is about its table.
            *(plain.sentences[1:] if subject.scenario is not None else ()),
        ],
    )


def _scaled(subject: Subject, known: "Anchored | None", rest: float) -> tuple[dict[str, float], dict[str, float]]:
    """Limits and phases of what is left of the step besides waits for input."""
    predicted = None if subject.scenario is None else answer(subject.scenario, known)
    if predicted is None or not predicted.whole_s:
        return {UNMATCHED: rest}, {UNMATCHED: rest}
    factor = rest / float(predicted.whole_s)
    limits = {one.limit: factor * one.time_s for one in limits_of(predicted)}
    return limits, {name: factor * float(time_s) for name, time_s in predicted.phases.items()}


def _watched_step(measured: Mapping[str, Any], whole: float, waits: float) -> Iterator[str]:
    spread = measured.get("spread_s") or {}
    between = f", from {seconds(spread['p10'])} to {seconds(spread['p90'])} (p10 to p90)" if spread else ""
    count = f" over {measured['steps']:,} steps" if measured.get("steps") else ""
    yield f"A step of the watched job takes {seconds(whole)}{count}{between}."
    if waits > 0:
        yield f"It waits {seconds(waits)} ({percent(waits / whole)}) for its input."


def _parts(measured: Mapping[str, Any], whole: float) -> Iterator[str]:
    parts = sorted((measured.get("parts") or {}).items(), key=lambda item: -item[1])[:_MOST_PARTS]
    if parts:
        listed = ", ".join(f"{name} {seconds(took)} ({percent(took / whole)})" for name, took in parts)
        yield f"Named parts of the job: {listed}."


def _rest(limits: Mapping[str, float]) -> Iterator[str]:
    if UNMATCHED in limits:
        yield (
            "The watch has no scenario, so the limits of the rest of the step are unknown. Watch the job with "
            "its scenario, or explain a torch.profiler trace."
        )
    else:
        yield "The limits of the rest of the step are predicted from the scenario and scaled to the measured step."
