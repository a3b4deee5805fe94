"""What a run says of itself: the content of its ``run.json``."""

import json
import math
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

RUNNING, INTERRUPTED = "running", "interrupted"
FORMAT = 1
"""Of the folder; it rises when an old reader would misread a new run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, measured or predicted."""

    id: str
    name: str
    created: str
    """ISO 8601, UTC."""
    ended: str = ""
    """Empty while it runs."""
    status: str = RUNNING
    """running, or how it ended: ok, out_of_memory, timeout, crashed, unsupported, interrupted."""
    reason: str = ""
    """One sentence when it is not ok."""
    suite: str = ""
    key: str = ""
    """Content hash of what was asked and of the kind of machine it was asked of: runs of one key answer the same."""
    scenario: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    """The documented result keys."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    command: Sequence[str] = ()
    version: str = ""
    """Of Sightline."""
    output: str = ""
    """The end of what the case printed."""
    writer: Mapping[str, Any] = field(default_factory=dict)
    """The process that writes it: host, machine, pid, start."""
    format: int = FORMAT


def to_json(run: Run) -> bytes:
    """Return the content of ``run.json``; numbers JSON cannot say (NaN, infinity) become null."""
    return json.dumps(_sayable(asdict(run)), indent=1, ensure_ascii=False, allow_nan=False).encode()


def from_json(data: bytes) -> Run:
    """Read a ``run.json``; keys of later versions are left out. Raises ValueError where it is none."""
    said = json.loads(data)
    if not isinstance(said, dict) or not {"id", "name", "created"} <= said.keys():
        raise ValueError("not a run")
    return Run(**{f.name: said[f.name] for f in fields(Run) if f.name in said})


def this_process() -> dict[str, Any]:
    """Return who writes, so that others can tell whether the writer still lives."""
    return {
        "host": socket.gethostname(),
        "machine": _machine(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
    }


def is_abandoned(run: Run) -> bool:
    """Whether a run says that it is running though its writer is dead; only this machine's writers can be looked at."""
    writer = run.writer
    if run.status != RUNNING or writer.get("host") != socket.gethostname():
        return False
    # The same host after a restart: nobody of before lives.
    return writer.get("machine") != _machine() or _started(writer.get("pid", 0)) != writer.get("started")


@cache
def _machine() -> str:
    """This start of this machine, and the name space its process ids are of."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When the process started, in the kernel's ticks: process ids are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _sayable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _sayable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
