"""Report what the process around a watch is doing, and keep the watch's own errors out of the job."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
