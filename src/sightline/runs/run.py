"""One run: the content of its ``run.json``, and how it is written, samples as they come, the rest when it ends."""

import io
import json
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.quantities import as_json
from sightline.runs.storage import Storage

if TYPE_CHECKING:
    import polars

RUNNING, INTERRUPTED = "running", "interrupted"
SAMPLES, ROWS = "samples", "rows"
JOURNAL = "samples.jsonl"
_MAPPINGS = ("scenario", "result", "environment", "writer")
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
    return json.dumps(as_json(asdict(run)), indent=1, ensure_ascii=False, allow_nan=False).encode()


def from_json(data: bytes) -> Run:
    """Read a ``run.json``; keys of later versions are left out. Raises ValueError where it is none."""
    try:
        said = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(said, dict) or not {"id", "name", "created"} <= said.keys():
        raise ValueError("not a run")
    found = {f.name: said[f.name] for f in fields(Run) if f.name in said}
    wrong = [name for name, value in found.items() if not isinstance(value, _KINDS.get(name, str))]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} of another type")
    return Run(**found)


_KINDS: Mapping[str, type] = {**dict.fromkeys(_MAPPINGS, dict), "command": list, "format": int}
"""Types of the fields of a ``run.json`` that are no texts."""


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


class RunWriter:
    """A run that is being written.

    Until ``finish`` it is listed as running, or as interrupted once its writer is dead.
    """

    def __init__(self, storage: Storage, run: Run) -> None:
        self.run = run
        self._storage = storage
        self._samples: list[Mapping[str, Any]] = []
        storage.create(run.id)
        self._write("run.json", to_json(run))

    def sample(self, sample: Mapping[str, Any]) -> None:
        """Keep one sample; from now on the end of this process cannot lose it."""
        self._samples.append(sample)
        self._storage.append(self._path(JOURNAL), json.dumps(sample).encode() + b"\n")

    def finish(
        self,
        *,
        status: str = "ok",
        reason: str = "",
        result: Mapping[str, Any] | None = None,
        rows: Iterable[Mapping[str, Any]] = (),
        files: Mapping[str, str] | None = None,
        **figures: Any,
    ) -> Run:
        """End the run; it counts as ended from the moment its ``run.json`` says so, which is written last.

        Args:
            status: How it ended.
            reason: One sentence when it is not ok.
            result: The result keys.
            rows: The profile's table, a row per operator.
            files: Texts by their names, such as a server's log.
            figures: Other fields of ``Run``, such as ``environment`` or ``output``.
        """
        for name, records in ((SAMPLES, self._samples), (ROWS, list(rows))):
            if records:
                self._write(f"{name}.parquet", as_parquet(as_table(records)))
        for name, text in (files or {}).items():
            self._write(name, text.encode())
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.run = replace(
            self.run, status=status, reason=reason, result=dict(result or {}), ended=ended, writer={}, **figures
        )
        self._write("run.json", to_json(self.run))
        self._storage.remove(self._path(JOURNAL))
        return self.run

    def _write(self, name: str, data: bytes) -> None:
        self._storage.write(self._path(name), data)

    def _path(self, name: str) -> str:
        return f"{self.run.id}/{name}"


def as_table(records: Iterable[Mapping[str, Any]]) -> "polars.DataFrame":
    """Return records as a data frame; a column that holds numbers and texts becomes text."""
    import polars

    return polars.DataFrame(list(records), infer_schema_length=None, strict=False)


def as_parquet(table: "polars.DataFrame") -> bytes:
    """Return a data frame as the content of a Parquet file."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def from_journal(data: bytes) -> "polars.DataFrame":
    """Return the samples of a run that has not ended; a line cut short by the writer's end is left out."""
    records = []
    for line in data.splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return as_table(records)
