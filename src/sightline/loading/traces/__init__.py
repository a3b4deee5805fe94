"""Traces: files of requests, in our own columns and in those of public traces and load clients."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from sightline.content import record
from sightline.errors import InputError, reason
from sightline.loading.traces.clients import client_of, result_of
from sightline.loading.traces.documents import document_of, table_of
from sightline.loading.traces.rows import LATE_S, Columns, Conversations, Reader, iterate
from sightline.loading.traces.shapes import MOMENTS, SPANS, TIME, Shape, recognized, unread
from sightline.loading.traces.tables import Block, blocks_of
from sightline.quantities import counted, listed

__all__ = ["PAIRS", "Columns", "Trace", "measured_in", "open_trace"]

PAIRS: Final = (MOMENTS[1:], SPANS)
"""Columns that say when the first and the last token came: by the clock of the log, or from a request's arrival."""


def _ignore(_: str) -> None:
    pass


@record
class Trace:
    """A file of requests, which is read as often as its columns are asked for."""

    path: Path
    shape: Shape
    document: Block | None
    """Its rows where the file had to be read as a whole."""

    def whole(self) -> Columns:
        """Return the columns of all requests in order of arrival, wherever they stand in the file.

        Raises:
            InputError: A row is wrong, or none is left.
        """
        parts = list(self.columns(ordered=False))
        columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        order = np.argsort(columns[TIME], kind="stable") if TIME in columns else slice(None)
        return {key: values[order] for key, values in columns.items()}

    def columns(self, on_remark: Callable[[str], None] = _ignore, *, ordered: bool = True) -> Iterator[Columns]:
        """Yield the columns of the requests in blocks, in order of arrival: ours by name, and ``line``.

        Times are seconds; where they are those of a clock, from the first request on. ``on_remark`` takes sentences
        about what was left out. Rows may be a little late, or unless ``ordered`` stand anywhere.

        Raises:
            InputError: A row is wrong, or none is left.
        """
        reader = self._reader(on_remark)
        reader.most_allowed_late_s = LATE_S if ordered else np.inf
        conversations, found = self._conversations(), False
        for columns in self._rows(reader):
            found = True
            yield conversations.shared(columns) if "blocks" in columns else columns
        if not found:
            without = " with prompt and answer tokens" if reader.left_out else ""
            raise InputError(f"{self.path} has no requests{without}")
        if reader.left_out:
            skipped = counted(reader.left_out, "request")
            on_remark(f"{self.path}: skipped {skipped} without prompt or answer tokens")
        if reader.late:
            late = counted(reader.late, "out-of-order row")
            on_remark(f"{self.path}: sorted {late} (up to {reader.most_late_s * 1e3:.3g} ms late)")
        if reader.blank:
            others = f" and {counted(reader.blank - 1, 'more line')}" if reader.blank > 1 else ""
            on_remark(f"skipped blank line: {reader.place} {reader.first_blank}{others}")

    def _reader(self, on_remark: Callable[[str], None]) -> Reader:
        of = "request" if self.document is not None else "row" if self.path.suffix == ".parquet" else "line"
        return Reader(shape=self.shape, place=f"{self.path} {of}", on_remark=on_remark)

    def _rows(self, reader: Reader) -> Iterator[Columns]:
        return iterate(reader, blocks_of(self.path) if self.document is None else iter([self.document]))

    def _conversations(self) -> Conversations:
        """What block numbers tell, for which a trace that has them is read once before."""
        known = Conversations(self.shape.block_tokens)
        for columns in self._rows(self._reader(_ignore)) if self.shape.blocks else ():
            if "blocks" in columns:
                known.shared(columns)
        return Conversations(self.shape.block_tokens, known.begins)


def open_trace(path: Path, on_remark: Callable[[str], None] = _ignore) -> Trace:
    """Return a trace whose shape is recognized by its first rows; raise `InputError` for a file that is none."""
    try:
        document = document_of(path)
        known = None if document is None else table_of(document, str(path), on_remark)
        header = _header(path) if known is None else list(known[1].columns)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from None
    shape, rows = known or (recognized(header, str(path)), None)
    if columns := unread(shape, header):
        on_remark(f"{path}: columns not read: {listed(columns)}")
    return Trace(path=path, shape=shape, document=rows)


def measured_in(path: Path) -> dict[str, Any] | None:
    """Return what a load client's result says, as ``measured`` states it; None for a file that is no such result.

    ``sent`` are keys of ``workload.arrival`` that it states.
    Means that the client does not state are those of its requests, if it saved their times.

    Raises:
        InputError: The result has another form than its client writes.
    """
    try:
        document = document_of(path)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, InputError):
        return None
    client = None if document is None else client_of(document)
    if client is None:
        return None
    result = result_of(client, document, str(path))
    figures = dict(result.figures)
    timed = result.rows is not None and any({*pair} <= row.keys() for row in result.rows for pair in PAIRS)
    logged = timed and all(TIME in row for row in result.rows or ())
    if timed:
        figures = _means(open_trace(path).whole()) | figures
    if figures.get("completed") == 0:
        raise InputError(f"{path} is {client.name} of which no request was completed")
    if not figures.keys() - {"failed"}:
        raise InputError(f"{path} is {client.name} without any of its figures: {', '.join(client.figures)}")
    stated: dict[str, Any] = {key: {"mean": value} if key in TIMES else value for key, value in figures.items()}
    if logged:
        stated["requests"] = str(path.resolve())
    return {"source": client.name, "sent": result.arrival, **stated}


TIMES: Final = ("ttft_s", "tpot_s", "itl_s", "latency_s")
"""Figures that are a mean of all requests."""


def _means(columns: Columns) -> dict[str, float]:
    """Figures of a whole run by its requests."""
    since = columns.get(TIME, np.zeros(columns["prompt_tokens"].size))
    moments = [columns[key] if key in columns else since + columns[span] for key, span in zip(*PAIRS, strict=True)]
    first, last = moments
    answered = np.isfinite(first) & np.isfinite(last)
    gaps, seconds = columns["output_tokens"] - 1, float(np.nanmax(last) - since.min())
    found = {"ttft_s": first - since, "tpot_s": (last - first)[gaps > 0] / gaps[gaps > 0], "latency_s": last - since}
    rates = {"output_tokens_per_s": columns["output_tokens"][answered].sum(), "requests_per_s": answered.sum()}
    return {
        **{key: float(np.nanmean(values)) for key, values in found.items() if np.isfinite(values).any()},
        **({key: float(value) / seconds for key, value in rates.items()} if TIME in columns else {}),
        "completed": float(answered.sum()),
    }


def _header(path: Path) -> tuple[str, ...]:
    first = next(blocks_of(path), None)
    if first is None or not first.columns:
        raise InputError(f"{path} is empty; allowed: a requests file with a header or keys")
    return tuple(first.columns)
