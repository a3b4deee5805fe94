"""Begin, list, find and delete stored runs; many processes may write to one store at once.

A run is a folder: ``run.json`` is written when it begins and when it ends, samples as they come.
"""

import io
import json
import os
import re
import secrets
import socket
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.catalog.yaml12 import plain_reason
from sightline.errors import InputError, nearest
from sightline.parquet import first_line, polars_faults, refuse_deep
from sightline.quantities import as_json
from sightline.runs import credentials
from sightline.runs.storage import Storage, storage_at

if TYPE_CHECKING:
    import polars

RUNNING, INTERRUPTED, DAMAGED, NEWER = "running", "interrupted", "damaged", "newer"
UNREADABLE = (DAMAGED, NEWER)
"""Of these only the id is known; the reason says why."""
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
    """running, or how it ended: ok, out_of_memory, timeout, crashed, unsupported, interrupted; or damaged, or newer
    than this Sightline reads."""
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
    """Read a ``run.json``; keys of later versions are left out.

    Raises ValueError where it is none, or holds figures that nothing can have measured.
    """
    try:
        said = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(said, dict) or not {"id", "name", "created"} <= said.keys():
        raise ValueError("not a run")
    found = {f.name: said[f.name] for f in fields(Run) if f.name in said}
    wrong = [name for name, value in found.items() if not isinstance(value, _KINDS.get(name, str))]
    if wrong:
        raise ValueError(f"{', '.join(wrong)} has the wrong type")
    run = Run(**found)
    if run.format > FORMAT:
        return run
    parts = (run.scenario.get("workload", {}), dict), (run.result.get("results", []), list)
    wrong = [] if all(isinstance(part, kind) for part, kind in parts) else ["scenario.workload or result.results"]
    if wrong or (wrong := list(_impossible(run.result))):
        raise ValueError(f"{wrong[0]} cannot be")
    return run


_MOST_BYTES = 2**45
"""More memory than any machine has."""
_MEASURES = re.compile(r"(_s|_bytes|_per_device|_j|_flops|^phases|^mfu|^hfu)(\.|$)")
"""Keys of what is a number, and not below zero."""


def _impossible(figure: Any, key: str = "") -> Iterator[str]:
    """Yield the figures of a result that cannot be, each with its key and value."""
    if isinstance(figure, Mapping):
        for name, value in figure.items():
            yield from _impossible(value, f"{key}.{name}" if key else str(name))
    elif isinstance(figure, list):
        for value in figure:
            yield from _impossible(value, key)
    elif key == "fits":
        if not isinstance(figure, bool | None):
            yield f"fits is {figure!r}, which"
    elif isinstance(figure, float) and not isfinite(figure):
        yield f"{key} is {figure}, which"
    elif figure is not None and _MEASURES.search(key):
        most = _MOST_BYTES if key.startswith("memory_bytes") else inf
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not 0 <= figure <= most:
            yield f"{key} is {figure!r}, which"


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


def from_parquet(data: bytes, name: str) -> "polars.DataFrame":
    """Return the table of a Parquet file, of which errors say the name.

    Raises:
        InputError: It is damaged, or holds a time below zero.
    """
    import polars

    try:
        refuse_deep(file := io.BytesIO(data), name)
        table = polars.read_parquet(file)
    except polars_faults() as error:
        raise InputError(f"{name} cannot be read: {first_line(error)}") from error
    times = table.get_column("time_s", default=polars.Series([0.0]))
    least: Any = times.min() if times.dtype.is_numeric() else -1
    if least is not None and not 0 <= least < inf:
        raise InputError(f"{name} holds a time_s of {least!r}; allowed: a number from 0")
    return table


def from_journal(data: bytes) -> "polars.DataFrame":
    """Return the samples of a run that has not ended; a line cut short by the writer's end is left out."""
    records = []
    for line in data.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        records += [record] if isinstance(record, dict) else []
    return as_table(records)


ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ID_OF_RUN = re.compile(r"(\d{8}-\d{6})-(.+)-[0-9a-f]{6}$")
LATEST = "latest"


def open_store(place: str | None = None) -> "Store":
    """Open the store at a folder or URL; without one, ``SIGHTLINE_RUNS``, else the user's own folder.

    Raises:
        InputError: The place is no folder and no URL, or a URL that lacks a slash.
        WorkError: It needs a package that is not installed.
    """
    return Store(storage_at(place or os.environ.get("SIGHTLINE_RUNS") or str(_users_folder())))


def _users_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "sightline" / "runs"


class Store:
    """Runs in one place."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def place(self) -> str:
        """The folder or URL."""
        return self.storage.place

    def begin(
        self,
        name: str,
        *,
        scenario: Mapping[str, Any] | None = None,
        suite: str = "",
        key: str = "",
    ) -> RunWriter:
        """Begin a run; it can be seen as running from now on."""
        from sightline import __version__

        now = datetime.now(UTC)
        run = Run(
            id=f"{now:%Y%m%d-%H%M%S}-{_slug(name)}-{secrets.token_hex(3)}",
            name=name,
            created=now.isoformat(timespec="milliseconds"),
            suite=suite,
            key=key,
            scenario=dict(scenario or {}),
            command=[credentials.of_command(sys.orig_argv).hide(word) for word in sys.orig_argv],
            version=__version__,
            writer=this_process(),
        )
        return RunWriter(self.storage, run)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first, with those that cannot be read, which a folder's name tells."""
        return sorted(self._read(self.storage.folders()), key=lambda run: (run.created, run.id))

    def newest(self, most: int) -> tuple[list[Run], int]:
        """Return the newest runs, newest first, at most ``most`` of them, and how many folders there are.

        Only these are read: an id begins with the time at which its run did.
        """
        folders = sorted(self.storage.folders(), reverse=True)
        found = sorted(self._read(folders[:most]), key=lambda run: (run.created, run.id), reverse=True)
        return found, len(folders)

    def find(self, asked: str) -> Run:
        """Return the run of this id, of an id that begins so, or ``latest``.

        Raises:
            InputError: There is no such run, or several.
        """
        if asked == LATEST:
            runs = [run for run in self.runs() if run.status not in UNREADABLE]
            if not runs:
                raise InputError(f"the run store '{self.place}' is empty")
            return runs[-1]
        names = self.storage.folders()
        matches = [asked] if asked in names else [name for name in names if asked and name.startswith(asked)]
        if len(matches) > 1:
            raise InputError(f"'{asked}' matches {len(matches)} runs: {', '.join(matches[:5])}; give more of the id")
        for run in self._read(matches):
            return run
        others = [name for name in names if name != asked]
        raise InputError(f"no run '{asked}' in '{self.place}'{nearest(asked, others)}")

    def ended(self, statuses: Collection[str]) -> dict[str, Run]:
        """Return the newest run of each key that ended in one of these ways."""
        return {run.key: run for run in self.runs() if run.key and run.status in statuses}

    def samples(self, run: Run) -> "polars.DataFrame":
        """Return a run's samples, those so far while it runs; an empty table when there are none."""
        table = self._table(run, SAMPLES)
        if table is not None:
            return table
        try:
            return from_journal(self.storage.read(f"{run.id}/{JOURNAL}"))
        except FileNotFoundError:
            return from_journal(b"")

    def rows(self, run: Run) -> "polars.DataFrame":
        """Return a run's profile, a row per operator; an empty table when there is none."""
        table = self._table(run, ROWS)
        return from_journal(b"") if table is None else table

    def delete(self, runs: Iterable[Run]) -> None:
        """Delete runs; nobody reads half of one."""
        for run in runs:
            try:
                self.storage.remove_folder(run.id)
            except FileNotFoundError:
                continue

    def _read(self, folders: Iterable[str]) -> Iterator[Run]:
        listed = list(folders)
        written = self.storage.read_each(listed, "run.json")
        for folder in listed:
            try:
                run = from_json(written.get(folder, b""))
            except ValueError as error:
                if (damaged := self._damaged(folder, plain_reason(error) if folder in written else "")) is not None:
                    yield damaged
                continue
            run = replace(run, id=folder)
            if run.format > FORMAT:
                why = f"it was written by a newer version of Sightline ({run.version})"
                yield Run(id=folder, name=run.name, created=run.created, status=NEWER, reason=why)
                continue
            if is_abandoned(run):
                run = replace(run, status=INTERRUPTED, reason="the process that wrote the run ended early")
            yield run

    def _damaged(self, folder: str, why: str) -> Run | None:
        """What a folder's name tells of its run; None of another folder, or where a run begins just now."""
        began, files = _ID_OF_RUN.match(folder), () if why else self.storage.files(folder)
        if not why and (not began or not files or "run.json" in files):
            return None
        created, name = "", folder
        if began:
            created, name = datetime.strptime(began[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).isoformat(), began[2]
        reason = f"its run.json cannot be read: {why}" if why else "it has no run.json"
        return Run(id=folder, name=name, created=created, status=DAMAGED, reason=reason)

    def _table(self, run: Run, name: str) -> "polars.DataFrame | None":
        try:
            return from_parquet(self.storage.read(f"{run.id}/{name}.parquet"), f"run '{run.id}': its {name}.parquet")
        except FileNotFoundError:
            return None


def _slug(name: str) -> str:
    """Return a name as part of a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())[:20].strip("-.") or "run"
