"""What Polars cannot read: what it raises, and how deep the columns of a Parquet file are nested, read from its footer.

Polars builds nested columns by recursion: some hundred levels overflow its stack, which ends the process. So files that
are nested deeper than any table are refused before Polars sees them.
"""

from collections.abc import Callable, Mapping
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import IO, Final

from sightline.errors import InputError

MOST_LEVELS: Final = 100
"""A list takes two, a struct one."""
_TAIL: Final = 8
"""Bytes at the end of a file: the length of the footer, and the four of Parquet's name."""
_SCHEMA, _CHILDREN = 2, 5
"""Field numbers: of the schema in the footer, and of the count of children in an element of the schema."""
_LIST, _STRUCT = 9, 12
"""Types of Thrift's compact protocol."""


def polars_faults(*others: type[Exception]) -> tuple[type[BaseException], ...]:
    """Return what to catch where Polars may not be able to read a table: its errors, its panics, and the others.

    A panic is no `Exception`.
    """
    import polars

    return polars.exceptions.PolarsError, polars.exceptions.PanicException, *others


def first_line(fault: BaseException) -> str:
    """Return what a fault says, without the lines after it that say where it was met."""
    return str(fault).partition("\n")[0]


def refuse_deep_file(path: Path) -> None:
    """Raise `InputError` if a column is nested too deep to be read; its reader finds other faults of a file."""
    with path.open("rb") as file:
        refuse_deep(file, f"'{path}'")


def refuse_deep(file: IO[bytes], name: str) -> None:
    """Do the same for what is open and can be sought in, under the name that the error begins with."""
    try:
        levels = _levels(_footer(file))
    except (EOFError, KeyError, RecursionError):
        return
    finally:
        file.seek(0)
    if levels > MOST_LEVELS:
        raise InputError(f"{name} has a column nested {levels} levels deep; allowed: {MOST_LEVELS}")


def _footer(file: IO[bytes]) -> BytesIO:
    size = file.seek(0, SEEK_END)
    file.seek(max(size - _TAIL, 0))
    begin = size - _TAIL - int.from_bytes(file.read(4), "little")
    if begin < 0:
        raise EOFError
    file.seek(begin)
    return BytesIO(file.read(size - _TAIL - begin))


def _levels(footer: BytesIO) -> int:
    """Return how many groups the deepest element of the schema is in, the root not counted.

    The schema lists its elements depth first, each with the number of its children (parquet.thrift, ``FileMetaData``).
    """
    number = 0
    while kind := _field(footer, number):
        number, of = kind
        if number == _SCHEMA and of == _LIST:
            return _deepest(footer)
        _SKIPS[of](footer)
    return 0


def _deepest(footer: BytesIO) -> int:
    count, _ = _list_header(footer)
    waiting: list[int] = []
    deepest = 0
    for _ in range(count):
        deepest = max(deepest, len(waiting) - 1)
        children = _children(footer)
        if waiting:
            waiting[-1] -= 1
        if children:
            waiting.append(children)
        while waiting and waiting[-1] <= 0:
            waiting.pop()
    return deepest


def _children(footer: BytesIO) -> int:
    """Read an element of the schema."""
    number = children = 0
    while kind := _field(footer, number):
        number, of = kind
        if number == _CHILDREN:
            children = _varint(footer) >> 1
        else:
            _SKIPS[of](footer)
    return children


def _field(footer: BytesIO, before: int) -> tuple[int, int] | None:
    """Read the number and the type of the next field of a struct; None at its end."""
    head = _byte(footer)
    if not head:
        return None
    step, of = head >> 4, head & 15
    return (before + step if step else _varint(footer) >> 1), of


def _list_header(footer: BytesIO) -> tuple[int, int]:
    head = _byte(footer)
    count, of = head >> 4, head & 15
    return (_varint(footer) if count == 15 else count), of


def _skip_list(footer: BytesIO) -> None:
    count, of = _list_header(footer)
    for _ in range(count):
        _skip_item(footer, of)


def _skip_map(footer: BytesIO) -> None:
    count = _varint(footer)
    of = _byte(footer) if count else 0
    for _ in range(count):
        _skip_item(footer, of >> 4)
        _skip_item(footer, of & 15)


def _skip_item(footer: BytesIO, of: int) -> None:
    """Skip an item of a list or map: there, unlike in a struct, a truth takes a byte."""
    _SKIPS[3 if of in (1, 2) else of](footer)


def _skip_struct(footer: BytesIO) -> None:
    number = 0
    while kind := _field(footer, number):
        number, of = kind
        _SKIPS[of](footer)


def _byte(footer: BytesIO) -> int:
    return _bytes(footer, 1)[0]


def _bytes(footer: BytesIO, count: int) -> bytes:
    read = footer.read(min(count, len(footer.getbuffer())))
    if len(read) < count:
        raise EOFError
    return read


def _varint(footer: BytesIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(footer)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise EOFError


_SKIPS: Final[Mapping[int, Callable[[BytesIO], object]]] = {
    1: lambda _: None,
    2: lambda _: None,
    3: _byte,
    4: _varint,
    5: _varint,
    6: _varint,
    7: lambda footer: _bytes(footer, 8),
    8: lambda footer: _bytes(footer, _varint(footer)),
    _LIST: _skip_list,
    10: _skip_list,
    11: _skip_map,
    _STRUCT: _skip_struct,
}
"""By type: truths, numbers of one, two, four and eight bytes, a double, bytes, a list, a set, a map, a struct."""
