"""SQL over all runs, by DuckDB: the tables ``runs``, ``samples`` and ``rows``."""

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, missing_extra
from sightline.runs.run import Run
from sightline.runs.store import Store

if TYPE_CHECKING:
    import polars

_TEXTS = ("id", "name", "suite", "status", "reason", "created", "ended", "key", "version")
_JSON = ("scenario", "environment")


def query(store: Store, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and rows that a query gives. It works on a copy: nothing it does changes the store.

    ``runs`` has a row per run: its texts, ``contended``, ``scenario`` and ``environment`` as JSON, and each result key as a
    column, nested ones joined by ``_`` (``memory_bytes_total``). ``samples`` and ``rows`` hold those of all runs, with
    the run's id in ``run``.

    Raises:
        InputError: The query is wrong.
        WorkError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise missing_extra("SQL over runs", "runs") from error
    with tempfile.TemporaryDirectory(prefix="sightline-query-") as folder, duckdb.connect() as connection:
        runs = store.runs()
        for name, table in _tables(store, runs, sql):
            path = Path(folder) / f"{name}.parquet"
            table.write_parquet(path)
            # Three names of our own, and a path of the system's.
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM read_parquet('{path}')")  # noqa: S608
        try:
            answer = connection.execute(sql)
            if answer is None:
                raise InputError("the query is empty")
            columns = [str(column[0]) for column in answer.description or ()]
            return columns, answer.fetchall() if columns else []
        except duckdb.Error as error:
            raise InputError(f"the query is wrong: {' '.join(str(error).split())}") from error


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
            pieces = [_of_run(read(run), run) for run in runs]
            filled = [piece for piece in pieces if not piece.is_empty()]
            empty = polars.DataFrame(schema={"run": polars.String})
            yield name, polars.concat(filled, how="diagonal_relaxed") if filled else empty


def _record(run: Run) -> dict[str, Any]:
    record: dict[str, Any] = {column: getattr(run, column) for column in _TEXTS}
    record["contended"] = bool(run.environment.get("contended", False))
    record |= {column: json.dumps(getattr(run, column)) for column in _JSON}
    return record | {key: value for key, value in _flat(run.result).items() if key not in record}


def _flat(result: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested keys joined by ``_``; lists as JSON."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}_")
        else:
            flat[f"{prefix}{key}"] = json.dumps(value) if isinstance(value, list | tuple) else value
    return flat


def _of_run(table: "polars.DataFrame", run: Run) -> "polars.DataFrame":
    import polars

    kept = table.drop("run", strict=False)
    return kept.select(polars.lit(run.id).alias("run"), polars.all()) if not table.is_empty() else table
