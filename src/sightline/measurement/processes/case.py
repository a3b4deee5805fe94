"""A measured case: within which limits it runs, how it may end, and what runs inside its own process."""

import faulthandler
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

from sightline.errors import InputError, SightlineError
from sightline.on_demand import named

Status = Literal["ok", "out_of_memory", "timeout", "crashed", "unsupported", "interrupted"]

FINISHED: tuple[Status, ...] = ("ok", "out_of_memory", "timeout", "unsupported")
"""Ends that say something about the case; after the others a rerun tries again."""


FORCED = "--force runs it anyway"
"""End of a sentence that says why something predicted not to fit was not run."""


def was_refused(reason: str) -> bool:
    """Whether that is why a run ended: it was predicted not to fit."""
    return reason.endswith(FORCED)


class UnsupportedCaseError(SightlineError):
    """Raised inside a case: this machine or this framework cannot do what is asked; the message says why."""


class OutOfMemoryError(SightlineError, MemoryError):
    """Raised inside a case when one of its processes ran out of memory; the message says which."""


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


Emit = Callable[[Mapping[str, Any]], None]
Entry = Callable[[Mapping[str, Any], Emit], Mapping[str, Any] | None]
"""A case: gets its arguments and a function that takes a sample away; returns its result."""


def run_entry(request: Mapping[str, Any], messages: int) -> NoReturn:
    """Call the request's entry, send its samples and its end as lines of JSON, and leave the process."""
    lock = threading.Lock()

    def send(message: Mapping[str, Any]) -> None:
        data = json.dumps(message, default=_plain).encode() + b"\n"
        with lock:
            while data:
                data = data[os.write(messages, data) :]

    faulthandler.enable()
    sys.path[:] = request["path"]
    try:
        entry: Entry = named(request["entry"])
        result = entry(request["arguments"], lambda sample: send({"sample": sample}))
        send({"status": "ok", "result": result or {}})
    except BaseException as error:  # noqa: BLE001 - whatever ends a case is its outcome
        traceback.print_exc()
        send({"status": _status(error), "reason": _reason(error)})
    # Threads, exit handlers and groups of processes may hang here; there is nothing left that they could be good for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _status(error: BaseException) -> str:
    # What the request asks for and the machine or a library cannot do.
    if isinstance(error, UnsupportedCaseError | InputError | NotImplementedError):
        return "unsupported"
    text = str(error).lower()
    # PyTorch's allocators: an error type of its own on devices, a bare RuntimeError on the host.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        return "out_of_memory"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "crashed"


def _reason(error: BaseException) -> str:
    if isinstance(error, InputError):
        return "; ".join(error.problems)
    lines = str(error).strip().splitlines()
    first = lines[0] if lines else ""
    if isinstance(error, SightlineError):
        return first
    name = type(error).__name__
    return f"{name}: {first}" if first else name


def _plain(value: Any) -> Any:
    """Return numbers and arrays of NumPy and PyTorch as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)
