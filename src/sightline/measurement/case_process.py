"""What runs inside a case's own process: import the entry, call it, say how it went."""

import faulthandler
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from sightline.errors import SightlineError
from sightline.measurement.outcome import UnsupportedCaseError

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
        entry: Entry = _named(request["entry"])
        result = entry(request["arguments"], lambda sample: send({"sample": sample}))
        send({"status": "ok", "result": result or {}})
    except BaseException as error:  # noqa: BLE001 - whatever ends a case is its outcome
        traceback.print_exc()
        send({"status": _status(error), "reason": _reason(error)})
    # Threads, exit handlers and groups of processes may hang here; there is nothing left that they could be good for.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _named(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)


def _status(error: BaseException) -> str:
    if isinstance(error, UnsupportedCaseError | NotImplementedError):
        return "unsupported"
    text = str(error).lower()
    # PyTorch's allocators: an error type of its own on devices, a bare RuntimeError on the host.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text:
        return "out_of_memory"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "crashed"


def _reason(error: BaseException) -> str:
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
