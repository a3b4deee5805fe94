"""Write one run: samples as they come, everything else when it ends."""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sightline.runs.run import Run, to_json
from sightline.runs.storage import Storage

if TYPE_CHECKING:
    import polars

SAMPLES, ROWS = "samples", "rows"
JOURNAL = "samples.jsonl"


class RunWriter:
    """A run that is being written. Until ``finish`` it is listed as running, or as interrupted once its writer is dead."""

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
        **figures: Any,
    ) -> Run:
        """End the run; it counts as ended from the moment its ``run.json`` says so, which is written last.

        Args:
            status: How it ended.
            reason: One sentence when it is not ok.
            result: The result keys.
            rows: The profile's table, a row per operator.
            figures: Other fields of ``Run``, such as ``environment`` or ``output``.
        """
        for name, records in ((SAMPLES, self._samples), (ROWS, list(rows))):
            if records:
                self._write(f"{name}.parquet", as_parquet(as_table(records)))
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
