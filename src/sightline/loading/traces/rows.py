"""Read rows of a trace as columns, with mistakes named by file and line; block numbers form conversations."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.loading.traces.shapes import IDS, MEASURED, MOMENTS, NEEDED, SECONDS, TIME, WHOLE, Shape
from sightline.loading.traces.tables import Block
from sightline.quantities import show

Columns = dict[str, NDArray[Any]]
MOST_TOLD: Final = 8
"""Wrong lines of a block that are named one by one."""
LARGEST: Final = 1e12
LATEST_S: Final = 1e11
"""Seconds since 1970 that no clock shows before the year 5138; a thousandth of them was in 1973."""
FINER: Final = ("milliseconds", "microseconds", "nanoseconds")
_NO_WORD: Final = {"": -1, "-1": -1}
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_PLAIN_DATE = re.compile(r"(?:1[7-9]|2[01])\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?")
_UTC = re.compile(r"(?:Z|[+-]00:?00)$")
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")
LATE_S: Final = 1.0
"""How much later than the row before it a row may have arrived: clients write what they began at once in any order."""
MOST_HELD: Final = 65_536
"""Rows that wait for earlier ones behind them."""
_CLOCK = "a number, or a date such as 2026-02-28 23:59:59 with a time zone in every row or in none"
_ALLOWED = {
    **dict.fromkeys(SECONDS, "seconds, 0 or more"),
    **dict.fromkeys(NEEDED, "a whole number of tokens"),
    "prefix_tokens": "a whole number of tokens, up to prompt_tokens",
    "transcript": "a whole number, 0 or more",
    "priority": "a whole number",
}


@dataclass(slots=True, kw_only=True)
class Reader:
    """What is known of the rows before."""

    shape: Shape
    place: str
    """The file, and what its rows are called: "load.csv line"."""
    on_remark: Callable[[str], None]
    numbers: dict[str, dict[str, int]] = field(default_factory=dict)
    """By column, the numbers of its words."""
    begin_s: float | None = None
    """What is subtracted from times."""
    early_s: float | None = None
    """How much earlier than the first row the earliest is."""
    unit_s: float = 0.0
    """Seconds that a unit of times stands for; 0 before the first row."""
    zoned: bool | None = None
    """Whether its dates have a time zone."""
    last_s: float = -np.inf
    given_s: float = -np.inf
    """The time of the last row that was passed on."""
    most_allowed_late_s: float = LATE_S
    late: int = 0
    """Rows that are earlier than one before them."""
    most_late_s: float = 0.0
    left_out: int = 0
    blank: int = 0
    """Lines without anything in them that rows follow."""
    first_blank: int = 0
    _since_row: int = 0
    """Blank lines after the last row so far: at the end of a file they are no gap in it."""

    def read(self, block: Block) -> Columns:
        """Return the columns of a block under our names; raise `InputError` with its wrong lines."""
        spelled = self.shape.found(tuple(block.columns))
        lines = np.arange(block.first_line, block.first_line + len(next(iter(block.columns.values()), ())))
        names = {ours: spelled.get(ours, names[0]) for ours, names in self.shape.columns.items()} | spelled
        cells: Mapping[str, Sequence[Any]] = {
            ours: block.columns.get(theirs, (None,) * lines.size) for ours, theirs in names.items()
        }
        cells, lines = self._without_gaps(cells, lines, torn=block.torn)
        if not lines.size:
            return {}
        columns = {name: self._column(name, names[name], values, lines) for name, values in cells.items()}
        if self.shape.blocks and self.shape.blocks in block.columns:
            columns["blocks"] = self._blocks(block, lines)
        columns["line"] = lines
        self._check_prefix(columns)
        kept = (columns["prompt_tokens"] > 0) & (columns["output_tokens"] > 0)
        self.left_out += int(lines.size - kept.sum())
        return {name: values[kept] for name, values in columns.items()}

    def _blocks(self, block: Block, lines: NDArray[np.int64]) -> NDArray[Any]:
        """The block numbers of each row's prompt."""
        stated = block.columns[self.shape.blocks]
        chains = [stated[i] for i in (lines - block.first_line).tolist()]
        wrong = np.array([not (chain is None or _is_chain(chain)) for chain in chains], np.bool_)
        self._refuse(wrong, chains, lines, self.shape.blocks, "a list of whole numbers")
        return np.fromiter((chain or [] for chain in chains), object, lines.size)

    def _without_gaps(
        self, cells: Mapping[str, Sequence[Any]], lines: NDArray[np.int64], *, torn: bool
    ) -> tuple[Mapping[str, Sequence[Any]], NDArray[np.int64]]:
        """The rows without blank ones, and without a torn last one."""
        if not torn and not any(None in values or "" in values for values in cells.values()):
            self._note_blank(lines, np.zeros(lines.size, np.bool_))
            return cells, lines
        blank = np.array([all(map(_is_empty, row)) for row in zip(*cells.values(), strict=True)], bool)
        kept = ~blank
        if torn and lines.size:
            last = {name: cells[name][-1] for name in self.shape.columns}
            if blank[-1] or any(_is_empty(value) for value in last.values()):
                self.on_remark(f"{self.place} {lines[-1]} is incomplete: the file ends in the middle; skipped")
                kept[-1] = False
            else:
                self.on_remark(
                    f"{self.place} {lines[-1]} ends without a line break, so its last number may be cut off; kept"
                )
        self._note_blank(lines, blank)
        if kept.all():
            return cells, lines
        return {name: list(compress(values, kept)) for name, values in cells.items()}, lines[kept]

    def _note_blank(self, lines: NDArray[np.int64], blank: NDArray[np.bool_]) -> None:
        """Count blank lines."""
        if blank.any():
            self.first_blank = self.first_blank or int(lines[blank][0])
        rows = np.flatnonzero(~blank)
        followed = int(blank[: rows[-1]].sum()) if rows.size else 0
        if rows.size:
            self.blank += self._since_row + followed
            self._since_row = 0
        self._since_row += int(blank.sum()) - followed

    def _column(self, name: str, theirs: str, values: Sequence[Any], lines: NDArray[np.int64]) -> NDArray[Any]:
        if name in IDS:
            return numbered(values, self.numbers.setdefault(name, {}))
        is_clock = name in MOMENTS and self.shape.from_first
        numbers = self._times(values) if name in MOMENTS else _numbers(values)
        wrong = ~np.isfinite(numbers) | (np.abs(numbers) > LARGEST)
        if name not in self.shape.columns or name == "output_tokens":
            # Nothing is waited, shared or preferred where a cell is empty, and a request that failed has no answer.
            empty = np.array([_is_empty(value) for value in values], np.bool_)
            numbers = np.where(empty, np.nan if name in MEASURED else 0.0, numbers)
            wrong &= ~empty
        if name != "priority" and not is_clock:
            wrong |= numbers < 0
        if name in WHOLE:
            wrong |= numbers != np.round(numbers)
        most = f", up to {LARGEST:g}" if (np.abs(numbers) > LARGEST).any() else ""
        self._refuse(wrong, values, lines, theirs, (_CLOCK if is_clock else _ALLOWED[name]) + most)
        if name == TIME:
            self._check_order(numbers, values, lines, theirs)
        return numbers.astype(np.int64) if name in WHOLE else numbers

    def _refuse(
        self, wrong: NDArray[np.bool_], values: Sequence[Any], lines: NDArray[np.int64], theirs: str, allowed: str
    ) -> None:
        at = np.flatnonzero(wrong)
        shown = ("empty" if _is_empty(values[i]) else show(values[i]) for i in at[:MOST_TOLD].tolist())
        said = [
            f"{self.place} {lines[i]}: {theirs} is {value}{self._fault(values[i])}; allowed: {allowed}"
            for i, value in zip(at[:MOST_TOLD], shown, strict=True)
        ]
        if at.size:
            more = [f"{at.size - MOST_TOLD:,} more rows are invalid"] if at.size > MOST_TOLD else []
            raise InputError([*said, *more])

    def _times(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Seconds from the first request, or from the begin of the load."""
        dated = isinstance(values[0], str | datetime) and _DATE.match(str(values[0]))
        times = self._of_dates(values) if dated else self._of_clock(_numbers(values))
        if self.begin_s is None:
            self.begin_s = float(times[0]) if self.shape.from_first and np.isfinite(times[0]) else 0.0
        return times - self.begin_s

    def _of_dates(self, values: Sequence[Any]) -> NDArray[np.float64]:
        """Seconds since some day; NaN for what is no date, or has a time zone where the first has none."""
        dates = [str(value).strip() for value in values]
        zoned = np.fromiter((_ZONE.search(date) is not None for date in dates), np.bool_, len(dates))
        self.zoned = bool(zoned[0]) if self.zoned is None else self.zoned
        return np.where(zoned == self.zoned, _seconds(dates), np.nan)

    def _fault(self, value: Any) -> str:
        """What is wrong with a date, in brackets; empty where it is none."""
        written = str(value).strip()
        if not _DATE.match(written):
            return ""
        if self.zoned == (_ZONE.search(written) is None):
            return " (mix of zones)"
        if written[17:19] == "60":
            return " (leap second)"
        with suppress(ValueError):
            datetime.fromisoformat(written[:10])
            return ""
        return " (no such day)"

    def _of_clock(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds of a clock, whose first number tells a unit finer than the shape's where it would be far from now."""
        if not self.unit_s:
            self.unit_s, finer = self.shape.unit_s, iter(FINER if self.shape.from_first else ())
            while np.isfinite(numbers[0]) and numbers[0] * self.unit_s >= LATEST_S and next(finer, ""):
                self.unit_s *= 1e-3
            if self.unit_s != self.shape.unit_s:
                self._tell_unit(numbers[0])
        return numbers * self.unit_s

    def _tell_unit(self, first: float) -> None:
        unit = FINER[round(-np.log10(self.unit_s) / 3) - 1]
        date = np.datetime64(round(first * self.unit_s), "s")
        self.on_remark(
            f"{self.place.rpartition(' ')[0]}: times such as {first:.0f} are read as {unit} since 1970 ({date})"
        )

    def _check_order(
        self, times: NDArray[np.float64], values: Sequence[Any], lines: NDArray[np.int64], theirs: str
    ) -> None:
        latest = np.maximum.accumulate(np.concatenate([[self.last_s], times]))
        late_s = latest[:-1] - times
        at = np.flatnonzero((late_s > self.most_allowed_late_s) | (times < self.given_s))
        if at.size:
            i = at[0]
            raise InputError(
                f"{self.place} {lines[i]}: {theirs} {show(values[i])} is earlier than in a row before; "
                f"allowed: rows in order of arrival ({at.size:,} are not); sort the file by {theirs}"
            )
        self.late += int((late_s > 0).sum())
        self.most_late_s = max(self.most_late_s, float(late_s.max()))
        self.last_s = float(latest[-1])

    def _check_prefix(self, columns: Columns) -> None:
        if "prefix_tokens" in columns:
            wrong = columns["prefix_tokens"] > columns["prompt_tokens"]
            values, lines = columns["prefix_tokens"].tolist(), columns["line"]
            self._refuse(wrong, values, lines, "prefix_tokens", _ALLOWED["prefix_tokens"])
        elif "prefix_id" in columns:
            columns["prefix_tokens"] = np.where(columns["prefix_id"] >= 0, columns["prompt_tokens"], 0)


def numbered(values: Sequence[Any], known: dict[str, int]) -> NDArray[np.int64]:
    """Return numbers that tell words apart, -1 for none; ``known`` has those of words so far and takes new ones."""
    known.update(_NO_WORD)
    words = ("" if _is_empty(value) else str(value).strip() for value in values)
    return np.fromiter((known.setdefault(word, len(known) - len(_NO_WORD)) for word in words), np.int64, len(values))


def _is_chain(value: Any) -> bool:
    return isinstance(value, list) and {*map(type, value)} <= {int}


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _numbers(values: Sequence[Any]) -> NDArray[np.float64]:
    """Numbers; NaN for what is none."""
    with suppress(ValueError, TypeError, OverflowError):
        numbers = np.array(values, dtype=np.float64)
        # Lists of one length make a matrix.
        if numbers.ndim == 1:
            return numbers
    return np.fromiter(map(_number, values), np.float64, len(values))


def _number(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError):
        return np.nan
    except OverflowError:  # a whole number beyond what a float holds
        return np.inf


def _seconds(dates: Sequence[str]) -> NDArray[np.float64]:
    """Seconds since some day, NaN for what is no date."""
    plain = [_UTC.sub("", date) for date in dates]
    try:
        times = np.array(plain if all(map(_PLAIN_DATE.fullmatch, plain)) else [*map(_date, dates)], "datetime64[ns]")
    except ValueError:  # a day that no month has
        times = np.array([*map(_date, dates)], "datetime64[ns]")
    origin = np.datetime64("2020-01-01", "ns")
    return np.where(np.isnat(times), np.nan, (times - origin).astype(np.int64) * 1e-9)


def _date(written: str) -> str:
    try:
        date = datetime.fromisoformat(written)
        date = (date.astimezone(UTC) if date.tzinfo else date).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return "NaT"
    return date.isoformat() if _PLAIN_DATE.fullmatch(f"{date}") else "NaT"


def iterate(reader: Reader, blocks: Iterator[Block]) -> Iterator[Columns]:
    """Yield the columns of all blocks that have rows, those that are a little late in their place."""
    held: Columns = {}
    for block in blocks:
        columns = reader.read(block)
        if not columns or not columns["prompt_tokens"].size:
            continue
        if held.keys() != columns.keys() or TIME not in columns:
            yield from _passed_on(reader, held)
            held = {}
        held = {name: np.concatenate([held[name], new]) if held else new for name, new in columns.items()}
        if TIME in held:
            order = np.argsort(held[TIME], kind="stable")
            held = {name: values[order] for name, values in held.items()}
            last_s = held[TIME][-1]
            ready = max(int(np.searchsorted(held[TIME], last_s - reader.most_allowed_late_s)), order.size - MOST_HELD)
            yield from _passed_on(reader, {name: values[:ready] for name, values in held.items()})
            held = {name: values[ready:] for name, values in held.items()}
    yield from _passed_on(reader, held)


def _passed_on(reader: Reader, columns: Columns) -> Iterator[Columns]:
    """Yield columns that have rows; the first of a clock's rows arrives at 0."""
    times = columns.get(TIME, np.empty(0))
    if times.size:
        reader.early_s = min(0.0, float(times[0])) if reader.early_s is None else reader.early_s
        reader.given_s = float(times[-1])
        columns |= {name: columns[name] - reader.early_s for name in MOMENTS if name in columns}
    if columns and columns["prompt_tokens"].size:
        yield columns


Chain = Sequence[int]
"""Numbers of the blocks of a prompt. Equal numbers are equal blocks behind equal ones, so that a number is a prefix."""


class Conversations:
    """Which requests go on with an earlier one, and which begin alike.

    A request whose prompt begins with all full blocks of an earlier one, and is at least as long as that one with its
    answer, is its next turn. Conversations that begin alike share one prefix: of those in their first prompt that by
    which the most is shared, in blocks times the share of conversations that find it computed. What is shared besides
    - by some of these only, or between two continuations of one conversation - is computed again.
    """

    def __init__(self, block_tokens: int, begun_with: Mapping[int, int] = MappingProxyType({})) -> None:
        """Know of no request; ``begun_with`` counts the conversations that begin with each prefix."""
        self._block_tokens = block_tokens
        self._begun_with = begun_with
        self._open: dict[int, tuple[int, int]] = {}
        """By the last full block of a conversation: its number, and the tokens said in it."""
        self._prefixes: list[tuple[int, int]] = []
        """Of each conversation: the prefix that it shares, and its blocks."""
        self.begins: Counter[int] = Counter()
        """How many conversations begin with each prefix."""

    def shared(self, columns: Columns) -> Columns:
        """Return columns with prefixes and sessions in place of blocks."""
        prompts, outputs = columns["prompt_tokens"].tolist(), columns["output_tokens"].tolist()
        rows = zip(columns["blocks"], prompts, outputs, strict=True)
        sessions = [self._session(*row) for row in rows]
        prefixes = np.array([self._prefixes[session] for session in sessions], np.int64)
        rest = {name: values for name, values in columns.items() if name != "blocks"}
        return {
            **rest,
            "prefix_id": prefixes[:, 0],
            "prefix_tokens": np.minimum(prefixes[:, 1] * self._block_tokens, columns["prompt_tokens"]),
            "session_id": np.array(sessions, np.int64),
        }

    def _session(self, chain: Chain, prompt: int, output: int) -> int:
        """The conversation of a request, which it may begin."""
        full = min(prompt // self._block_tokens, len(chain))
        last = next((block for block in reversed(chain[1:full]) if block in self._open), None)
        if last is not None and prompt >= self._open[last][1]:
            session, _ = self._open.pop(last)
        else:
            session = len(self._prefixes)
            self.begins.update(chain)
            self._prefixes.append(self._prefix(chain))
        if full > 1:
            self._open[chain[full - 1]] = session, prompt + output
        return session

    def _prefix(self, chain: Chain) -> tuple[int, int]:
        """The prefix of a chain that conversations share best, and its blocks; none: that of no other."""
        gains = [(depth + 1) * (1.0 - 1.0 / self._begun_with.get(block, 1)) for depth, block in enumerate(chain)]
        best = max(range(len(chain)), key=gains.__getitem__, default=None)
        return (-1, 0) if best is None or not gains[best] else (chain[best], best + 1)
