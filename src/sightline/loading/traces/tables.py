"""Files of rows, read in blocks that fit in memory: CSV and JSON lines, also compressed by gzip, and Parquet."""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from sightline.catalog.yaml12 import plain_reason
from sightline.content import record
from sightline.errors import InputError
from sightline.parquet import first_line, polars_faults, refuse_deep_file
from sightline.quantities import show

BLOCK_BYTES: Final = 2**22
"""Bytes of text that are read at once."""
LONGEST_LINE: Final = 2**26
"""Bytes of a line: a packed file of few bytes may unpack into one without an end."""
BLOCK_ROWS: Final = 65_536
"""Rows of a Parquet file that are read at once."""
DELIMITERS: Final = (",", ";", "\t")
PARQUET: Final = b"PAR1"
GZIP: Final = b"\x1f\x8b"


@record
class Block:
    """Rows that follow each other in a file."""

    columns: Mapping[str, Sequence[Any]]
    """Values as they were found, None where there is none."""
    first_line: int
    """Of the file, counted from 1; of Parquet the first row."""
    torn: bool = False
    """The last row is the end of a file that does not end with a line break, so that it may have been cut off."""


def begins_with(path: Path, magic: bytes) -> bool:
    """Return whether a file begins with these bytes."""
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def opened(path: Path) -> IO[bytes]:
    """Return a file of text, decompressed."""
    return gzip.open(path, "rb") if begins_with(path, GZIP) else path.open("rb")  # type: ignore[return-value]


def blocks_of(path: Path) -> Iterator[Block]:
    """Yield the rows of a table in blocks; raise `InputError` for a line that is no row."""
    if begins_with(path, PARQUET):
        return _parquet(path)
    with opened(path) as file:
        first = file.read(4096).decode("utf-8-sig", "replace").lstrip()[:1]
    return _json_lines(path) if first == "{" else _csv(path)


def _parquet(path: Path) -> Iterator[Block]:
    import polars

    refuse_deep_file(path)
    frame = polars.scan_parquet(path)
    try:
        rows = frame.select(polars.len()).collect().item()
        for begin in range(0, max(rows, 1), BLOCK_ROWS):
            columns = frame.slice(begin, BLOCK_ROWS).collect().to_dict(as_series=False)
            yield Block(columns=columns, first_line=begin + 1)
    except polars_faults() as error:
        raise InputError(f"{path} is not valid Parquet: {first_line(error)}") from None


def text_blocks(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the text of a file in blocks of whole lines, and whether the last of a block has no line break."""
    rest = b""
    with opened(path) as file:
        while piece := _read(file):
            cut = piece.rfind(b"\n") + 1
            if cut:
                yield rest + piece[:cut], False
                rest = piece[cut:]
            else:
                rest += piece
            if len(rest) > LONGEST_LINE:
                raise InputError(f"{path} has a line longer than {LONGEST_LINE // 2**20} MiB")
    if rest.strip():
        yield rest, True


def _read(file: IO[bytes]) -> bytes:
    """The next bytes; none where a compressed file was cut off, whose last line is then torn."""
    pieces: list[bytes] = []
    with suppress(EOFError, zlib.error, gzip.BadGzipFile):
        while sum(map(len, pieces)) < BLOCK_BYTES and (piece := file.read1(BLOCK_BYTES)):  # type: ignore[attr-defined]
            pieces.append(piece)
    return b"".join(pieces)


def _csv(path: Path) -> Iterator[Block]:
    header: list[str] | None = None
    delimiter, line = ",", 1
    for text, torn in text_blocks(path):
        if header is None:
            named = ""
            while text and not named:
                top, _, text = text.removeprefix(b"\xef\xbb\xbf").partition(b"\n")  # noqa: PLW2901 - the rest is read
                named = top.decode("utf-8", "replace").strip()
                line += 1
            delimiter = max(DELIMITERS, key=named.count)
            header = [name.strip() for name in _cells_of(named, delimiter, f"{path} line {line - 1}")]
            yield Block(columns=dict.fromkeys(header, ()), first_line=line)
        if text.strip():
            yield Block(columns=_cells(text, header, delimiter, f"{path} line", line), first_line=line, torn=torn)
        line += text.count(b"\n")


def _cells(text: bytes, header: list[str], delimiter: str, place: str, line: int) -> dict[str, list[Any]]:
    """The cells of lines by column; those that a short line lacks are None."""
    import polars

    try:
        strings = dict.fromkeys(header, polars.String)
        frame = polars.read_csv(BytesIO(text), has_header=False, schema=strings, separator=delimiter)
    except polars_faults():
        frame = None
    # Blank lines are no rows of the frame, and would shift the numbers of those after them.
    if frame is not None and frame.height == text.count(b"\n") + (not text.endswith(b"\n")):
        return frame.to_dict(as_series=False)
    lines = text.decode("utf-8", "replace").splitlines()
    rows = [_cells_of(one, delimiter, f"{place} {line + i}") for i, one in enumerate(lines)]
    for i, row in enumerate(rows):
        if len(row) > len(header):
            raise InputError(f"{place} {line + i} has {len(row)} cells; the header has {len(header)}")
    return {name: [row[i] if i < len(row) else None for row in rows] for i, name in enumerate(header)}


def _cells_of(line: str, delimiter: str, place: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(f"{place} is not valid CSV: {error}") from None


def _json_lines(path: Path) -> Iterator[Block]:
    line, names = 1, dict[str, None]()
    for text, torn in text_blocks(path):
        lines = text.decode("utf-8-sig", "replace").split("\n")
        lines = lines if torn else lines[:-1]
        rows = [_object(one, f"{path} line {line + i}", torn=torn and i == len(lines) - 1)
                for i, one in enumerate(lines)]  # fmt: skip
        names |= dict.fromkeys(name for row in rows for name in row)
        yield Block(
            columns={name: [row.get(name) for row in rows] for name in names},
            first_line=line,
            torn=torn and not rows[-1],
        )
        line += len(lines)


def _object(line: str, place: str, *, torn: bool) -> dict[str, Any]:
    """The object of a line; nothing of a blank or a torn one."""
    if not line.strip():
        return {}
    try:
        value = json.loads(line)
    except RecursionError:
        raise InputError(f"{place} is not valid JSON: nested too deeply") from None
    except ValueError as error:
        if torn:
            return {}
        what = f"{error.msg.lower()} at character {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{place} is not valid JSON: {what or plain_reason(error)}") from None
    if not isinstance(value, dict):
        raise InputError(f"{place} is {show(value)}; allowed: an object with the columns of a request")
    # Logs of OpenAI-compatible servers have their tokens one level deeper.
    usage = value.get("usage")
    return {**usage, **value} if isinstance(usage, dict) else value
