"""What a job and the process around it report: steps, memory, marks of the device, and what a window of steps is.

The watch's own errors stay out of the job.
"""

import logging
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple


def _torch() -> Any:
    """PyTorch where the job uses it; nothing is imported for the sake of the watch."""
    return sys.modules.get("torch")


def _distributed() -> Any:
    torch = _torch()
    group = getattr(torch, "distributed", None)
    return group if group is not None and group.is_available() and group.is_initialized() else None


def rank() -> int:
    """Return the rank of this process, as its group of processes or its launcher says; 0 for one alone."""
    group = _distributed()
    return int(group.get_rank()) if group is not None else _number("RANK") or 0


def world_size() -> int | None:
    """Return how many processes work together; None where nobody says."""
    group = _distributed()
    return int(group.get_world_size()) if group is not None else _number("WORLD_SIZE")


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else None


def _cuda() -> Any:
    cuda = getattr(_torch(), "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def memory_bytes() -> tuple[float | None, float | None]:
    """Return the most bytes that the job has held and those that there are: of the device, else of this process.

    Of a device those that tensors took: what the allocator keeps for later is no need.
    """
    cuda = _cuda()
    if cuda is not None:
        total = cuda.get_device_properties(cuda.current_device()).total_memory
        return float(cuda.max_memory_allocated()), float(total)
    return _resident_bytes(), _machine_bytes()


def _resident_bytes() -> float | None:
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return None


def _machine_bytes() -> float | None:
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (OSError, ValueError, AttributeError):
        return None


def mark() -> Any:
    """Return what the device reaches once it has done all that was asked of it until now; None without a device.

    Nobody waits: it is read when the device has passed it.
    """
    cuda = _cuda()
    if cuda is None:
        return None
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def has_passed(passed: Any) -> bool:
    """Return whether the device has done what was asked of it before a mark; nobody waits for it."""
    try:
        return passed is None or bool(passed.query())
    except RuntimeError:
        # The device's error is the job's to hear of.
        return True


def seconds_between(before: Any, after: Any) -> float | None:
    """Return the device's seconds between two marks that it has passed; None where there are none."""
    if before is None or after is None:
        return None
    try:
        return float(before.elapsed_time(after)) / 1e3
    except (RuntimeError, ValueError):
        return None


LOGGER = logging.getLogger("sightline.watching")
"""Warnings of a job may be errors; a line of a log is none."""


class Quiet:
    """Catches what goes wrong in a part of the watch, and says it the first time."""

    def __init__(self) -> None:
        self.failed: set[str] = set()
        """Parts that went wrong."""

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Go on after an error; interrupts of the user and the end of the process pass."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
            if part not in self.failed:
                self.failed.add(part)
                said = " ".join(str(error).split()) or type(error).__name__
                LOGGER.warning("sightline.watch: %s failed: %s; the job continues without it", part, said)


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
            if not has_passed(one.mark) and not last:
                break
            self.reported.popleft()
            found.append(self._step(one, samples))
            loss = loss if one.loss is None else one.loss
        # Reading a tensor takes a copy from the device: once in a while, not for every step.
        self.loss = self.loss if loss is None else number_of(loss)
        return found

    def _step(self, one: Reported, samples: float | None) -> Step:
        self.number += 1
        device_s = seconds_between(self._mark, one.mark)
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
