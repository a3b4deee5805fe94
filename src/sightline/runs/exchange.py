"""What leaves a store, and enters one: runs as one ZIP file with a folder each, and answers to SQL over all of them."""

import io
import json
import re
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.content import flatten
from sightline.errors import InputError, SightlineError, missing_extra, missing_file
from sightline.progress import remark
from sightline.runs.store import (
    FORMAT,
    ID,
    JOURNAL,
    ROWS,
    RUNNING,
    SAMPLES,
    UNREADABLE,
    Run,
    Store,
    as_parquet,
    from_json,
    from_parquet,
)

if TYPE_CHECKING:
    import polars

_WATCHED = ("watch.json", "steps.jsonl", "events.jsonl")
"""Files of a job that was watched."""
_FILES = ("run.json", JOURNAL, f"{SAMPLES}.parquet", f"{ROWS}.parquet", *_WATCHED)
_MOST_BYTES = 2**32
_DAMAGES = (zipfile.BadZipFile, IsADirectoryError, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What a file raises that is no archive, is cut or damaged, or packed or encrypted in ways that are not read."""


def to_archive(store: Store, runs: Iterable[Run]) -> bytes:
    """Return the runs as the content of a ZIP file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for run in runs:
            for name in store.storage.files(run.id):
                if name in _FILES:
                    archive.writestr(f"{run.id}/{name}", store.storage.read(f"{run.id}/{name}"))
    return buffer.getvalue()


def from_archive(store: Store, path: Path) -> tuple[list[str], list[str]]:
    """Store the runs of a ZIP file; return the ids that are new, and those that were there before and stay as they are.

    Raises:
        InputError: It is no archive of runs; nothing has been stored then.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = _checked(archive, path)
            there = set(store.storage.folders())
            new = [run for run in found if run not in there]
            for run in new:
                _store(store, archive, run, found[run])
    except FileNotFoundError as error:
        raise missing_file(path) from error
    except _DAMAGES as error:
        raise InputError(f"'{path}' is not a runs archive: {error}") from error
    return new, [run for run in found if run in there]


def _checked(archive: zipfile.ZipFile, path: Path) -> dict[str, list[str]]:
    """Return the files of each run, once everything in the archive is known to be a run's."""
    found: dict[str, list[str]] = {}
    for entry in archive.infolist():
        run, _, name = entry.filename.partition("/")
        if not ID.fullmatch(run) or name not in _FILES:
            raise InputError(f"'{path}' is not a runs archive: it contains '{entry.filename}'")
        found.setdefault(run, []).append(name)
    if sum(entry.file_size for entry in archive.infolist()) > _MOST_BYTES:
        raise InputError(f"'{path}' unpacks to more than {_MOST_BYTES / 2**30:g} GiB")
    for run, names in found.items():
        _check_run(archive, run, names, path)
    return found


def _check_run(archive: zipfile.ZipFile, run: str, names: list[str], path: Path) -> None:
    if "run.json" not in names:
        raise InputError(f"'{path}' is not a runs archive: '{run}' has no run.json")
    try:
        said = from_json(archive.read(f"{run}/run.json"))
    except ValueError as error:
        raise InputError(f"'{path}': run.json of '{run}' cannot be read: {error}") from error
    if said.format > FORMAT:
        raise InputError(f"'{path}': run '{run}' was written by a newer version of Sightline ({said.version})")
    for name in names:
        if name.endswith(".parquet"):
            from_parquet(archive.read(f"{run}/{name}"), f"'{path}': {name} of '{run}'")


def _store(store: Store, archive: zipfile.ZipFile, run: str, names: list[str]) -> None:
    """Store one run, ``run.json`` last: without it there is no run."""
    store.storage.create(run)
    for name in sorted(names, key=lambda name: name == "run.json"):
        store.storage.write(f"{run}/{name}", archive.read(f"{run}/{name}"))


def exportable(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that have ended.

    Raises:
        InputError: One that was asked for still runs.
    """
    chosen = list(runs)
    running = [run.id for run in chosen if run.status == RUNNING]
    if running:
        raise InputError([f"run '{run}' is still running" for run in running])
    if unreadable := [f"run '{run.id}' is {run.status}: {run.reason}" for run in chosen if run.status in UNREADABLE]:
        raise InputError(unreadable)
    return chosen


_TEXTS = ("id", "name", "suite", "status", "reason", "created", "ended", "key", "version")
_JSON = ("scenario", "environment")


def query(store: Store, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that a query gives. It works on a copy: nothing it does changes the store.

    ``runs`` has a row per run: its texts, ``contended``, ``scenario`` and ``environment`` as JSON, and each result key
    as a column, nested ones joined by ``_`` (``memory_bytes_total``). ``samples`` and ``rows`` hold those of all runs,
    with the run's id in ``run``.

    Raises:
        InputError: The query is wrong.
        WorkError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra("SQL queries", "runs") from error
    with tempfile.TemporaryDirectory(prefix="sightline-query-") as folder, duckdb.connect() as connection:
        runs = store.runs()
        for name, table in _tables(store, runs, sql):
            path = Path(folder) / f"{name}.parquet"
            path.write_bytes(as_parquet(table))
            # Three names of our own, and a path of the system's.
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}')")  # noqa: S608
        try:
            answer = connection.execute(sql)
            if answer is None:
                raise InputError("the query is empty")
            columns = [str(column[0]) for column in answer.description or ()]
            return columns, answer.fetchall() if columns else []
        except duckdb.Error as error:
            raise InputError(f"invalid query: {' '.join(str(error).split())}") from error


def _tables(store: Store, runs: Sequence[Run], sql: str) -> "Iterable[tuple[str, polars.DataFrame]]":
    """Return the tables that the query names; reading every run's samples takes its time."""
    import polars

    # Columns that are there whatever the runs hold, and typed even where all are empty.
    known = {**dict.fromkeys((*_TEXTS, *_JSON), polars.String), "contended": polars.Boolean}
    records = [_record(run) for run in runs]
    if records:
        yield "runs", polars.DataFrame(records, schema_overrides=known, infer_schema_length=None, strict=False)
    else:
        yield "runs", polars.DataFrame(schema=known)
    readers: dict[str, Callable[[Run], polars.DataFrame]] = {"samples": store.samples, "rows": store.rows}
    for name, read in readers.items():
        if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
            pieces = []
            for run in runs:
                try:
                    pieces.append(_of_run(read(run), run))
                except SightlineError as error:
                    remark(f"warning: {error}; it is left out")
            filled = [piece for piece in pieces if not piece.is_empty()]
            empty = polars.DataFrame(schema={"run": polars.String})
            yield name, polars.concat(filled, how="diagonal_relaxed") if filled else empty


def _record(run: Run) -> dict[str, Any]:
    record: dict[str, Any] = {column: getattr(run, column) for column in _TEXTS}
    record["contended"] = bool(run.environment.get("contended", False))
    record |= {column: json.dumps(getattr(run, column)) for column in _JSON}
    flat = flatten(run.result, separator="_").items()
    found = {key: json.dumps(value) if isinstance(value, list | tuple) else value for key, value in flat}
    return record | found | record


def _of_run(table: "polars.DataFrame", run: Run) -> "polars.DataFrame":
    import polars

    kept = table.drop("run", strict=False)
    return kept.select(polars.lit(run.id).alias("run"), polars.all()) if not table.is_empty() else table
