"""Events of a profiler's JSON, decoded with types and laid out in columns of numbers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from sightline.traces.events import COLUMNS, KINDS, NONE, NOT_WORK, ON_DEVICE, Events, Integers, Kind, Operands

_Word = int | str | float | None


class Arguments(msgspec.Struct, gc=False):
    """What an event says about itself, as far as it is used. Old traces write some keys in another case."""

    correlation: _Word = None
    stream: Any = None
    device: _Word = None
    external: _Word = msgspec.field(default=None, name="External id")
    external_old: _Word = msgspec.field(default=None, name="external id")
    sequence: _Word = msgspec.field(default=None, name="Sequence number")
    forward_thread: _Word = msgspec.field(default=None, name="Fwd thread id")
    bytes: _Word = None
    elements: _Word = msgspec.field(default=None, name="In msg nelems")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")
    dims: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input Dims")
    values: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Concrete Inputs")
    types: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw, name="Input type")


class Event(msgspec.Struct, gc=False):
    """One event of the Chrome trace format."""

    ph: str = ""
    name: str | int | float | None = ""
    cat: str | None = ""
    pid: _Word = 0
    tid: _Word = 0
    ts: _Word = None
    dur: _Word = None
    args: Arguments | None = None


_typed = msgspec.json.Decoder(list[Event])
_plain = msgspec.json.Decoder(list[Any])
_EDGE = re.compile(rb"\}\s*,\s*(?=\{)")
_TAIL, _TRIES = 2**20, 16
"""Bytes at the end of a chunk in which edges between events are looked for, and edges that are tried: a few may lie
inside an event."""


def events_of(text: bytes) -> list[Event] | None:
    """Return the events of a text of objects with commas between; None where it is no such text."""
    whole = b"[" + text + b"]"
    try:
        return _typed.decode(whole)
    except msgspec.ValidationError:
        return list(_lenient(whole))
    except UnicodeDecodeError:
        # A name cut in the middle of a letter, or written in another encoding.
        return events_of(text.decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return None


def _lenient(whole: bytes) -> Iterator[Event]:
    """Events one by one, without those whose values have other types than Kineto writes."""
    try:
        values = _plain.decode(whole.decode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return
    for value in values:
        try:
            yield msgspec.convert(value, Event, strict=False)
        except (msgspec.ValidationError, RecursionError):
            try:
                yield msgspec.convert({**value, "args": None}, Event, strict=False)
            except (msgspec.ValidationError, TypeError):
                continue


def split(text: bytes, *, is_last: bool) -> tuple[list[Event], bytes] | None:
    """Return the events of a text up to its last whole one, and the rest of it; None where there is none.

    Args:
        text: From the beginning of an event on.
        is_last: Whether the text ends in a whole event, as far as its end is not cut.
    """
    if is_last and (events := events_of(text)) is not None:
        return events, b""
    edges = [match.end() for match in _EDGE.finditer(text, max(0, len(text) - _TAIL))]
    for edge in reversed(edges[-_TRIES:]):
        if (events := _before(text, edge)) is not None:
            return events, text[edge:]
    return _up_to_damage(text) if is_last else None


def _before(text: bytes, edge: int) -> list[Event] | None:
    return events_of(text[:edge].rstrip().rstrip(b","))


def _up_to_damage(text: bytes) -> tuple[list[Event], bytes] | None:
    """The events before the first place that is no JSON, found by halving: what ends before it can be decoded."""
    edges = [match.end() for match in _EDGE.finditer(text)]
    good, bad = 0, len(edges)
    while good < bad:
        middle = (good + bad) // 2
        good, bad = (middle + 1, bad) if _before(text, edges[middle]) is not None else (good, middle)
    if not good:
        return None
    return _before(text, edges[good - 1]) or [], text[edges[good - 1] :]


_NO_ARGUMENTS = Arguments()
_LARGEST_NUMBER = 2**62
_BETWEEN_TWO = frozenset(("c10d::send", "c10d::recv_"))
_LONGEST, _MOST = 100_000, 50_000
"""Bytes of what one operator was called with, and how many of these are kept: more would only fill memory."""


class Columns:
    """Collects events; names, threads and categories become numbers when they are first seen."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.groups: list[str] = []
        self.operands: list[Operands] = []
        self.seen = 0
        """Events of any kind."""
        self.foreign: dict[str, None] = {}
        """Categories that nothing is known of."""
        self._numbers: dict[Any, int] = {}
        self._threads: dict[Any, int] = {}
        self._groups: dict[str, int] = {}
        self._operands: dict[str, int] = {}
        self._rows: list[tuple[Any, ...]] = []
        self._blocks: list[Any] = []
        self._times: list[Any] = []

    @property
    def known(self) -> int:
        """Events that an explanation reads."""
        return sum(len(block) for block in self._blocks)

    def add(self, events: Iterable[Event]) -> None:
        """Add a chunk of events."""
        rows: list[tuple[int, ...]] = []
        times: list[tuple[float, float]] = []
        for event in events:
            self.seen += 1
            if event.ph != "X" or event.cat is None:
                continue
            kind = KINDS.get(event.cat) if event.cat in KINDS else KINDS.get(event.cat.lower())
            if kind is None:
                self.foreign |= {} if event.cat.lower() in NOT_WORK else {event.cat: None}
                continue
            start, length = _real(event.ts), _real(event.dur)
            if start is None or length is None or length < 0:
                continue
            rows.append(self._row(event, kind))
            times.append((start, length))
        if rows:
            self._blocks.append(np.array(rows, np.int64))
            self._times.append(np.array(times))

    def _row(self, event: Event, kind: Kind) -> tuple[int, ...]:
        of = event.args or _NO_ARGUMENTS
        name = self._numbers.get(event.name)
        if name is None:
            name = self._numbers[event.name] = len(self.names)
            self.names.append(str(event.name))
        place = (event.pid, event.tid)
        thread = self._threads.setdefault(place, len(self._threads))
        device = NONE if kind not in ON_DEVICE else _whole(of.device if of.device is not None else event.pid, 0)
        external = _whole(of.external if of.external is not None else of.external_old)
        return (
            *(int(kind), name, thread, device, _whole(of.correlation), external, _whole(of.sequence)),
            _whole(of.forward_thread, 0),
            _size(of, kind),
            NONE if of.group is None and of.ranks is None else self._group(of),
            _peer(of) if event.name in _BETWEEN_TWO else NONE,
            self._called_with(of) if kind == Kind.OPERATOR else NONE,
        )

    def _group(self, of: Arguments) -> int:
        words = "".join(str(of.ranks if of.ranks is not None else "").split())
        return self._groups.setdefault(f"{of.group} {words}", len(self._groups))

    def _called_with(self, of: Arguments) -> int:
        dims = bytes(of.dims)
        if not dims or len(dims) > _LONGEST:
            return NONE
        text = f"[{dims.decode()},{bytes(of.types).decode() or '[]'}]"
        if len(self._operands) >= _MOST:
            return self._operands.get(text, NONE)
        return self._operands.setdefault(text, len(self._operands))

    def sorted(self) -> tuple[Events, int]:
        """Return the events by start, the longer first, and the earliest start in nanoseconds.

        Their order in the file does not matter: equal events are alike, and ties are broken by every column.
        """
        table, times = np.concatenate(self._blocks), np.concatenate(self._times)
        self.names, table[:, 1] = _in_order(self.names, table[:, 1])
        table[:, 2] = _in_order(list(map(str, self._threads)), table[:, 2])[1]
        self.groups, groups = _in_order(list(self._groups), np.maximum(table[:, 9], 0)) if self._groups else ([], NONE)
        table[:, 9] = np.where(table[:, 9] >= 0, groups, NONE)
        if self._operands:
            called = np.maximum(table[:, 11], 0)
            texts, called = _in_order(list(self._operands), called)
            self.operands = list(map(_operands, texts))
            table[:, 11] = np.where(table[:, 11] >= 0, called, NONE)
        first = float(times[:, 0].min())
        start = np.rint((times[:, 0] - first) * 1e3).astype(np.int64)
        end = start + np.rint(times[:, 1] * 1e3).astype(np.int64)
        order = np.lexsort((*table.T[::-1], -end, start))
        columns = dict(zip([c for c in COLUMNS if c not in ("start", "end")], table[order].T, strict=True))
        columns = {name: np.ascontiguousarray(column) for name, column in columns.items()}
        return Events(start=start[order], end=end[order], **columns), round(first * 1e3)


def _in_order(words: list[str], numbers: Integers) -> tuple[list[str], Integers]:
    """Words sorted, and numbers that stood for them in the order in which they were first seen."""
    order = sorted(range(len(words)), key=words.__getitem__)
    place = np.empty(len(words), np.int64)
    place[order] = np.arange(len(words))
    return [words[number] for number in order], place[numbers]


def _size(of: Arguments, kind: Kind) -> int:
    """Bytes of a copy, or elements of a collective's message, which annotations of gloo have as their first operand."""
    stated = of.bytes if of.bytes is not None else of.elements
    if stated is not None or kind != Kind.ANNOTATION or not bytes(of.dims):
        return _whole(stated)
    shapes = _decoded(bytes(of.dims))
    first = shapes[0] if isinstance(shapes, list) and shapes else []
    if not isinstance(first, list) or not first or not all(type(size) is int and size >= 0 for size in first):
        return NONE
    return _whole(prod(first))


def _peer(of: Arguments) -> int:
    """The third operand of ``c10d::send`` and ``c10d::recv_``."""
    values = _decoded(bytes(of.values))
    return _whole(values[2]) if isinstance(values, list) and len(values) > 2 else NONE


def _decoded(text: str | bytes) -> Any:
    """What an argument holds; None for nothing, and for numbers that fit no memory."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _operands(text: str) -> Operands:
    decoded: Sequence[Any] = _decoded(text) or ([], [])
    shapes, types = (column if isinstance(column, list) else [] for column in decoded)
    return Operands(shapes, [word if isinstance(word, str) else "" for word in types])


def _real(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1e16 else None


def _whole(value: Any, otherwise: int = NONE) -> int:
    if value is None:
        return otherwise
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < _LARGEST_NUMBER else otherwise
