"""Decoded events laid out in columns of numbers."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from sightline.traces.events import COLUMNS, KINDS, NONE, ON_DEVICE, Events, Integers, Kind, Operands
from sightline.traces.kineto.decoding import Arguments, Event

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
    return [words[one] for one in order], place[numbers]


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
    found: Sequence[Any] = _decoded(text) or ([], [])
    shapes, types = (one if isinstance(one, list) else [] for one in found)
    return Operands(shapes, [one if isinstance(one, str) else "" for one in types])


def _real(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 1e16 else None


def _whole(value: Any, otherwise: int = NONE) -> int:
    if type(value) is int:
        return value if abs(value) < _LARGEST_NUMBER else otherwise
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return otherwise
    return number if abs(number) < _LARGEST_NUMBER else otherwise
