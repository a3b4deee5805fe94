"""A trace as an anchor: the step that PyTorch's profiler recorded, of a scenario that is named next to it."""

from pathlib import Path

from sightline.errors import InputError
from sightline.loading import load
from sightline.prediction.anchoring.anchor import Anchor, anchor_of
from sightline.scenario import Scenario

SEPARATOR = "@"
"""Between a trace and the scenario that it is of: a trace itself does not say what ran."""


def is_traced(word: str | Path) -> bool:
    """Return whether a word names a trace, with a scenario or without."""
    from sightline.traces.files import looks_like_trace

    name, at, _ = str(word).rpartition(SEPARATOR)
    place = Path(name if at else word)
    # Neither a saved name nor a run is a path that exists.
    return place.exists() and looks_like_trace(place)


def anchor_of_trace(word: str | Path) -> Anchor:
    """Return the anchor of ``TRACE@SCENARIO``: its mean step, over the steps and ranks that count.

    Raises:
        InputError: The scenario is missing, is of several or of no training, or the trace cannot be read or has no
            steps.
    """
    trace, _, question = str(word).rpartition(SEPARATOR)
    if not trace:
        raise InputError(
            f"--anchor: '{word}' is a trace, which does not say what ran; write {word}{SEPARATOR}SCENARIO.yaml"
        )
    found = load(Path(question))
    scenarios = found if isinstance(found, list) else [found]
    if len(scenarios) != 1 or not isinstance(scenarios[0], Scenario):
        raise InputError(f"--anchor: '{question}' has to hold one scenario of training, which '{trace}' is a trace of")
    return anchor_of(scenarios[0], {"step_time_s": _step_time_s(trace)}, str(word))


def _step_time_s(trace: str) -> float:
    from sightline.traces.job import read_job

    ranks = read_job([trace]).ranks
    if not all(rank.steps.are_named for rank in ranks):
        raise InputError(f"'{trace}' has no steps to learn from; call profiler.step() after each step of the job")
    return sum(rank.whole_ns for rank in ranks) / len(ranks) / 1e9
