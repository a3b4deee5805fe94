"""What a job departs from: the causes, the part of a step that explains one, and the sentences about them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from sightline.quantities import SECONDS, format_quantity, percent
from sightline.watching.steps import Window, median

EXPLAINS: Final = 0.5
"""Share of what steps take longer that a part of theirs must take longer to be the cause."""
COMMUNICATION: Final = frozenset((
    *("reduce", "allreduce", "gather", "allgather", "scatter", "all_to_all", "alltoall", "send", "recv", "broadcast"),
    *("comm", "comms", "communication", "sync", "synchronize", "synchronization", "nccl", "rccl", "gloo", "mpi"),
))  # fmt: skip
"""Words in the name of a part by which it is the link's."""
NO_LINK: Final = frozenset(
    ("lr", "log", "logs", "logging", "plot", "plots", "metric", "metrics", "checkpoint", "loss", "head")
)
"""Words by which it is not: ``reduce_lr`` and ``scatter_plot`` are no collectives."""
INPUT: Final = "input"
RARE: Final = 0.75
"""Share of the steps from which on one says steps, and below which one says how many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What has changed, in a sentence, and what a search of plans has to know of it."""

    cause: str
    """devices, sequences, link, input, part, growing, slower, assumption, recovered or memory."""
    sentence: str
    step: int
    """The last step when it was found."""
    measured_s: float | None = None
    """What a step takes now; None before any was measured."""
    was_s: float | None = None
    """What one took before."""
    devices: int | None = None
    """Those that there are, where that is known."""
    sequence_length: float | None = None
    """Tokens of a sample now, where the job tells."""
    part: str = ""
    """The part that explains it."""
    factor: float = 1.0
    """How many times what it was: the step's time, the part's, or of memory the share in use."""

    @property
    def can_replan(self) -> bool:
        """Whether another plan may be the answer."""
        return self.cause not in (INPUT, "recovered")


class Cause(NamedTuple):
    """Why steps take longer."""

    cause: str
    part: str = ""
    factor: float = 1.0
    """How many times what it was the part takes, or the step."""


def is_link(part: str) -> bool:
    """Return whether the name of a part, such as ``all_reduce`` or ``gradientSync``, is that of communication."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", part)]
    pairs = {"_".join(words[at : at + 3]) for at in range(len(words))}
    return bool(COMMUNICATION & {*words, *pairs}) and not NO_LINK & set(words)


def cause_of(before: Window, now: Window, medians: Sequence[float]) -> Cause:
    """Return why steps take longer than before.

    Args:
        before: The steady steps.
        now: The slow ones.
        medians: Seconds of a step in equal numbers of steps in between, one after another.
    """
    more_s = now.step_time_s - before.step_time_s
    was = {**before.parts, INPUT: before.wait_s}
    grown = {name: seconds - was.get(name, 0.0) for name, seconds in {**now.parts, INPUT: now.wait_s}.items()}
    part = max(grown, key=lambda name: grown[name])
    if grown[part] >= EXPLAINS * more_s:
        seconds = was.get(part, 0.0) + grown[part]
        factor = seconds / was[part] if was.get(part) else float("inf")
        return Cause(INPUT if part == INPUT else "link" if is_link(part) else "part", part, factor)
    return Cause("growing" if grows(medians) else "slower", factor=now.step_time_s / before.step_time_s)


def grows(medians: Sequence[float]) -> bool:
    """Return whether time grew bit by bit: no single jump between neighbors makes half of the whole rise."""
    jumps = [after - before for before, after in pairwise(medians)]
    rise = medians[-1] - medians[0] if jumps else 0.0
    return len(jumps) >= 3 and rise > 0 and max(jumps) < 0.5 * rise


def of_slower(found: Cause, before: Window, now: Window, share: float) -> str:
    """Return what is said of steps of which this share has become slower."""
    ratio = now.step_time_s / before.step_time_s
    took = f"{_time(now.step_time_s)}, {ratio:.2g} x the {_time(before.step_time_s)} of before"
    one = "a step" if share >= RARE else f"{percent(share)} of the steps take"
    takes = f"{one} {took}" if share < RARE else f"one takes {took}"
    of = f"it takes {found.factor:.2g} x as long as it did"
    match found.cause:
        case "link":
            return f"slower link: {found.part} takes {found.factor:.2g} x as long as it did, and a step {took}"
        case "input":
            return f"slower input: the step waits {_time(now.wait_s)} for it and takes {took}"
        case "part":
            return f"slower {found.part}: {of}, and a step {took}"
        case "growing":
            return f"steps take longer and longer: now {took}"
        case _:
            return f"slower steps: {takes}"


def of_assumption(steady_s: float, predicted_s: float, interval: tuple[float, float]) -> str:
    """Return what is said of a job that is slower than its prediction from the start."""
    low, high = map(_time, interval)
    return (
        f"slower than predicted from the start: a steady step takes {_time(steady_s)}, "
        f"{steady_s / predicted_s:.2g} x the predicted {_time(predicted_s)} (80 %: {low} to {high}); "
        "a slower link or fewer devices than the scenario says may be why"
    )


def of_recovered(now_s: float, slow_s: float) -> str:
    """Return what is said of steps that are as fast again as they were."""
    return f"recovered: a step takes {_time(now_s)} again, not {_time(slow_s)}"


def of_sequences(lengths: Sequence[float], expected: float, *, longer: bool) -> str:
    """Return what is said of samples that have become longer or shorter."""
    return f"{'longer' if longer else 'shorter'} sequences: {median(lengths):,.0f} tokens a sample, not {expected:,.0f}"


def of_devices(count: int, before: int) -> str:
    """Return what is said of another number of devices."""
    if count < before:
        return f"fewer devices: {count} of {before} devices work"
    return f"more devices: {count} devices work, not {before}"


def figures_of(departure: Departure) -> Mapping[str, object]:
    """Return what is known of a departure, as events have it."""
    names = ("cause", "step", "measured_s", "was_s", "devices", "sequence_length", "part", "factor")
    return {name: getattr(departure, name) for name in names if getattr(departure, name) is not None}


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)
