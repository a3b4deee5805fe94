"""Steps as the job reports them, and what a window of them comes to."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NamedTuple

from sightline.watching import machine

MOST_BEHIND: Final = 100_000
"""Steps that wait to be read at most, if nobody reads them."""
LOW, HIGH = 0.1, 0.9
"""Quantiles that the spread of a window goes between."""


class Reported(NamedTuple):
    """What a call of ``step`` leaves behind: raw values, which another thread reads."""

    end_s: float
    wait_s: float
    tokens: Any
    sequence_length: Any
    loss: Any
    parts: Mapping[str, float] | None
    mark: Any
    """What the device reaches when it has done the step; None where the host waits for it anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One optimizer step."""

    number: int
    """From 1."""
    time_s: float
    """From the end of the step before to its own."""
    wait_s: float = 0.0
    """Of that, waiting for input, as far as the job tells."""
    tokens: float | None = None
    """That this process worked on."""
    sequence_length: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds of parts that the job named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What some steps came to."""

    steps: int
    step_time_s: float
    """Median."""
    spread_s: tuple[float, float]
    """The range that eight of ten steps are in."""
    wait_s: float
    tokens: float | None
    sequence_length: float | None
    parts: Mapping[str, float]


def number_of(value: Any) -> float | None:
    """Return a figure that a job reports - a number, an array or a tensor of one - as a float; None for no figure."""
    if value is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if isfinite(found) else None


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile of sorted numbers, between neighbors linearly."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def median(values: Iterable[float]) -> float:
    """Return the median of one number or more."""
    return quantile(sorted(values), 0.5)


def median_or_none(values: Iterable[float | None]) -> float | None:
    """Return the median of those that are known; None where none is."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def window_of(steps: Sequence[Step]) -> Window:
    """Return what one step or more came to."""
    times = sorted(step.time_s for step in steps)
    names = dict.fromkeys(name for step in steps for name in step.parts)
    return Window(
        steps=len(steps),
        step_time_s=quantile(times, 0.5),
        spread_s=(quantile(times, LOW), quantile(times, HIGH)),
        wait_s=median(step.wait_s for step in steps),
        tokens=median_or_none(step.tokens for step in steps),
        sequence_length=median_or_none(step.sequence_length for step in steps),
        parts={name: median(step.parts.get(name, 0.0) for step in steps) for name in names},
    )


class StepReader:
    """Makes steps of what the job reports, once its device has done them too."""

    def __init__(self) -> None:
        self.reported: deque[Reported] = deque(maxlen=MOST_BEHIND)
        """What the job's own thread has left here."""
        self.number = 0
        """Of the last step."""
        self.loss: float | None = None
        """The last one."""
        self._end_s, self._mark = 0.0, None  # type: float, Any

    def begin(self, now_s: float, mark: Any) -> None:
        """Count the first step from here on."""
        self._end_s, self._mark = now_s, mark

    def read(self, samples: float | None = None, *, last: bool = False) -> list[Step]:
        """Return the steps since the last call.

        Args:
            samples: Of a step on one replica, by which its tokens tell the length of a sample.
            last: Take also those that the device has not done yet.
        """
        found, loss = [], None
        while self.reported:
            one = self.reported[0]
            if not machine.has_passed(one.mark) and not last:
                break
            self.reported.popleft()
            found.append(self._step(one, samples))
            loss = loss if one.loss is None else one.loss
        # Reading a tensor takes a copy from the device: once in a while, not for every step.
        self.loss = self.loss if loss is None else number_of(loss)
        return found

    def _step(self, one: Reported, samples: float | None) -> Step:
        self.number += 1
        device_s = machine.seconds_between(self._mark, one.mark)
        host_s, self._end_s, self._mark = one.end_s - self._end_s, one.end_s, one.mark
        tokens = number_of(one.tokens)
        return Step(
            number=self.number,
            time_s=host_s if device_s is None else device_s,
            wait_s=one.wait_s,
            tokens=tokens,
            sequence_length=number_of(one.sequence_length) or (tokens / samples if tokens and samples else None),
            parts=one.parts or {},
        )
