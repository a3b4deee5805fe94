"""How a measured case may end, and within which limits it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sightline.errors import SightlineError

Status = Literal["ok", "out_of_memory", "timeout", "crashed", "unsupported", "interrupted"]
STATUSES: tuple[Status, ...] = get_args(Status)

FINISHED: tuple[Status, ...] = ("ok", "out_of_memory", "timeout", "unsupported")
"""Ends that say something about the case; after the others a rerun tries again."""


class UnsupportedCaseError(SightlineError):
    """Raised inside a case: this machine or this framework cannot do what is asked; the message says why."""


class OutOfMemoryError(SightlineError, MemoryError):
    """Raised inside a case when one of its processes ran out of memory; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a case may take; beyond it, all its processes are ended."""

    time_s: float = 600.0
    memory_bytes: float | None = None
    """Host memory of all the case's processes together, pages they share counted once; None leaves it to the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a case ended."""

    status: Status
    reason: str = ""
    """One sentence; empty when ok."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """What the case returned; empty unless ok."""
    seconds: float = 0.0
    """From the start of the case's process to the end of its last one."""
    peak_memory_bytes: float = 0.0
    """Most host memory its processes held together when looked at, ten times a second."""
    cpu_s: float = 0.0
    """CPU time of all its processes."""
    others_cpu_fraction: float = 0.0
    """Share of the machine's CPU time that went to processes outside the case, or that a hypervisor took."""
    output: str = ""
    """The end of what the case wrote to stdout and stderr."""
