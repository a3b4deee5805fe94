"""Why a scenario, a run or a trace takes its time: what limits it, how far each limit is, and what would help most."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.errors import InputError
from sightline.explanation.advice import said_of, try_changes
from sightline.explanation.answer import Advice, Explanation
from sightline.explanation.limits import (
    BUBBLE,
    HOST,
    exposed_communication_s,
    limits_of,
)
from sightline.explanation.reading import answer
from sightline.explanation.subject import Explained, Question, Subject, TraceFiles, subject_of
from sightline.loading import load, to_mapping
from sightline.profile import Profile, overlapped_s
from sightline.progress import SILENT, Progress
from sightline.runs import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.anchors.sources import Given
    from sightline.prediction.anchoring import Anchored


def explain(
    asked: Explained,
    *,
    scenario: "Question | str | Path | Mapping[str, Any] | None" = None,
    settings: Sequence[str] | Mapping[str, Any] = (),
    anchor: "Anchored | Iterable[Given] | Given" = (),
    store: str | None = None,
    progress: Progress = SILENT,
) -> Explanation:
    """Explain where the time of a scenario, a run or a trace goes, what limits it, and which changes would help most.

    A scenario is predicted, a load simulated. Of a measured run its own table is explained next to its prediction, and
    changes are predicted with the run as an anchor. A trace is a file of PyTorch's profiler or of Chrome's trace
    format, or a list of those of a job's ranks.

        found = sl.explain("examples/llama-2-7b-zero2-8xa800.yaml")
        found.limits[0].limit, found.limits[0].share
        found.advice[0].sentence, found.advice[0].set, found.advice[0].gain_s

    Args:
        asked: A scenario or its mapping, a profile, a run or how its id begins, ``latest``, a file of a scenario or of
            results, a trace, or the traces of several ranks.
        scenario: What a trace is of: it names its layers, and changes are predicted for it.
        settings: Of a file or mapping: values of keys in place of its own, as ``--set`` has them.
        anchor: Runs of one's own cluster that correct what is predicted, as in `predict`.
        store: Where runs are looked for; default: ``SIGHTLINE_RUNS``.
        progress: Counts changes that are tried; cancelled, it leaves out the rest of them.

    Raises:
        InputError: What is asked for cannot be found, is of several scenarios, or an anchor teaches nothing.
    """
    from sightline.anchors.corrected import anchored

    known = anchored(anchor, store) if anchor else None
    of_trace = scenario is not None
    subject = subject_of(asked, () if of_trace else settings, open_store(store))
    if isinstance(subject, TraceFiles):
        from sightline.explanation.traced.traced_step import explain_trace

        traced = _scenario(scenario, settings)
        return explain_trace(subject.paths, scenario=traced, known=known, progress=progress)
    if of_trace:
        raise InputError(f"--scenario applies to traces; '{subject.name or 'this input'}' is not a trace")
    if subject.measured is not None:
        from sightline.explanation.measured import explain_measured, explain_watched, is_watched

        if is_watched(subject):
            return explain_watched(subject, known, progress)
        return explain_measured(subject, known, progress)
    return explain_prediction(subject, known, progress)


def _scenario(
    given: "Question | str | Path | Mapping[str, Any] | None", settings: Sequence[str] | Mapping[str, Any]
) -> Any:
    """The scenario of a trace, loaded where it is a file or a mapping."""
    if given is None and settings:
        raise InputError("--set needs a scenario; add --scenario FILE for a trace")
    if given is None:
        return None
    source: Any = given
    if hasattr(source, "workload") and settings:
        source = to_mapping(source)
    if hasattr(source, "workload"):
        return source
    found = load(source, settings)
    if isinstance(found, list):
        raise InputError(f"--scenario needs one scenario; '{given}' has {len(found)}")
    return found


def explain_prediction(subject: Subject, known: "Anchored | None" = None, progress: Progress = SILENT) -> Explanation:
    """Return the explanation of what is predicted for a scenario."""
    own = subject.profile or answer(subject.scenario, known)
    tries = try_changes(own, subject, known, progress)
    return Explanation(
        title=title_of(own),
        source=own.source,
        whole=own.task.whole,
        whole_s=float(own.whole_s or 0.0),
        phases={name: float(value) for name, value in own.phases.items() if float(value) > 0},
        limits=limits_of(own) if own.whole_s else [],
        rows=list(own.rows),
        advice=tries.advice,
        exposed_communication_s=exposed_communication_s(own),
        hidden_communication_s=overlapped_s(own.rows),
        bubble_s=float(own.phases.get(BUBBLE, 0.0)),
        launch_bound_s=float(own.phases.get(HOST, 0.0)),
        sentences=said_of(own, tries, known),
        warnings=list(dict.fromkeys((*own.scenario.warnings, *own.warnings))),
        scenario=to_mapping(own.scenario),
        answer=own,
    )


def changes_of(
    profile: Profile,
    words: Sequence[str] = (),
    known: "Anchored | None" = None,
    progress: Progress = SILENT,
) -> list[Advice]:
    """Return the changes of a predicted scenario that `explain` advises, best first, three at most.

    A measurement has none here, as `explain` predicts changes of it with the measurement as an anchor. Nor has a
    profile of many plans, or one that anchors corrected which are not given: its changes would not be corrected.

    Args:
        profile: The answer; a load's changes are simulated, which takes seconds.
        words: What was typed to ask for the scenario, its file and options, for the commands of the changes.
        known: The anchors that corrected the answer.
        progress: Counts changes that are tried; cancelled, it leaves out the rest of them.
    """
    is_corrected = bool(profile.anchor) and known is None
    if profile.source != "predicted" or np.ndim(profile.whole_s) or is_corrected:
        return []
    subject = Subject(scenario=profile.scenario, words=words or ("FILE",))
    return try_changes(profile, subject, known, progress).advice


def title_of(profile: Profile) -> str:
    """Return the scenario's name, or the model and what it runs on."""
    scenario = profile.scenario
    if scenario.name:
        return str(scenario.name)
    what = scenario.model.name if hasattr(scenario, "model") else scenario.workload.operator
    return f"{what} on {scenario.cluster.in_words}"
