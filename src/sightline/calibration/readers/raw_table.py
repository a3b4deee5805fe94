"""A table as somebody's file holds it: named columns, and where each row stands, for complaints."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars.selectors as cs
import yaml

from sightline.errors import InputError, nearest, prefixed
from sightline.parquet import first_line, polars_faults, refuse_deep_file
from sightline.quantities import show
from sightline.scenario import Model

WORDS: Mapping[str, Mapping[Any, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
PROGRAMS: Mapping[str, str] = WORDS["programs"]
"""The collective that a program of nccl-tests times."""


_PROGRAM = re.compile(rf"\b({'|'.join(PROGRAMS)})_perf\b")
_RANK = re.compile(r"^#\s+Rank\s+(\d+).*?\bon\s+(\S+)\s+device\s+\d+\s+\[\w+\]\s+(.*\S)", re.MULTILINE)
_VERSION = re.compile(r"NCCL version:?\s*([\d.]+)", re.IGNORECASE)
_RESULT = re.compile(
    r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(?:(?:sum|prod|max|min|avg|none)\s+)?(?:-?\d+\s+)?([\d.]+)\s+([\d.]+)\s+([\d.]+)"
)


def read_log(path: Path) -> pl.DataFrame:
    """Return the out-of-place times of a run, with the kind, the ranks, the device and NCCL's version with them."""
    text = path.read_text(encoding="utf-8")
    ranks = _RANK.findall(text)
    found = [match.groups() for line in text.splitlines() if (match := _RESULT.match(line))]
    if not ranks or not found:
        raise InputError(
            f"'{path}' looks like nccl-tests output, but has no list of ranks followed by a table of times"
        )
    hosts = {host for _, host, _ in ranks}
    version = _VERSION.search(text)
    rows = {
        "nccl_tests": [_program(text, path, found, len(ranks))] * len(found),
        "bytes": [size for size, *_ in found],
        "time_us": [time for _, _, _, time, _, _ in found],
        "ranks": [str(len(ranks))] * len(found),
        "ranks_per_node": [str(len(ranks) // len(hosts))] * len(found),
        "device": [ranks[0][2]] * len(found),
        "library": [f"NCCL {version[1]}" if version else "NCCL"] * len(found),
    }
    frame = pl.DataFrame(rows)
    return frame.filter(pl.col("bytes") != "0")


def _program(text: str, path: Path, found: list[tuple[str, ...]], ranks: int) -> str:
    """The program's name where the log holds it.

    An all-reduce also shows in its ratio of bus to algorithm bandwidth.
    """
    if named := _PROGRAM.search(text):
        return PROGRAMS[named[1]]
    _, _, _, _, algorithm, bus = max(found, key=lambda row: float(row[4]))
    if ranks > 2 and abs(float(bus) / float(algorithm) - 2 * (ranks - 1) / ranks) < 0.05:
        return "all_reduce"
    raise InputError(f"'{path}' does not state the nccl-tests program, such as all_gather_perf")


_CELLS = cs.numeric() | cs.string() | cs.boolean() | cs.categorical()
"""Columns that hold a word or a number in each row."""
ENDINGS = (".csv", ".parquet", ".json", ".txt", ".log", ".out")
"""Endings of the files that a folder is searched for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawTable:
    """The columns of one file, as text where the file is text."""

    path: Path
    frame: pl.DataFrame
    counts: str = "line"
    """What a place in the file is called: the line of a text file, the row of a Parquet or JSON file."""
    first: int = 2
    """Number of the first row's place: the line of a CSV's headings is the first."""
    rows: "tuple[int, ...] | None" = None
    """Places of the rows in the file where some are left out; None where all are there."""
    shape: str = ""
    """Shape of the heads that the user states for tables that do not."""
    model: Model | None = None
    """The model whose layers a table names without saying their shapes."""

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(self.frame.columns)

    def place(self, row: int) -> str:
        """Where a row stands, as complaints name it."""
        return f"'{self.path.name}', {self.counts} {self.first + (row if self.rows is None else self.rows[row])}"

    def where(self, mask: pl.Series) -> "RawTable":
        """The rows for which ``mask`` holds, which keep their places."""
        rows = range(self.frame.height) if self.rows is None else self.rows
        kept = tuple(row for row, keep in zip(rows, mask, strict=True) if keep)
        return replace(self, frame=self.frame.filter(mask), rows=kept)

    def text(self, name: str) -> pl.Series:
        """A column of words; empty cells stay empty."""
        return self.column(name).cast(pl.String)

    def column(self, name: str) -> pl.Series:
        """A column as it was read; raises `InputError` where there is none."""
        if name not in self.frame.columns:
            raise InputError(f"'{self.path}' has no column {name}")
        return self.frame[name]

    def words(self, name: str, known: Mapping[str, str]) -> pl.Series:
        """A column of words of ours for the table's; an unknown one is named with those that are covered."""
        words = self.text(name)
        unknown = ~words.is_in(list(known)).fill_null(value=False)
        if unknown.any():
            row = int(unknown.arg_max() or 0)
            raise InputError(
                f"{self.place(row)}: {name} is {show(words[row])}; allowed: "
                f"{', '.join(known)}{nearest(words[row], list(known))}"
            )
        return words.replace_strict(known)

    def numbers(self, name: str, *, least: float = 1.0, optional: bool = False) -> pl.Series:
        """A column of finite numbers of at least ``least``; ``optional`` lets cells be empty."""
        read = self._cast(name)
        needed = f"a number of at least {least:g}" if least else "a number of at least 0"
        bad = ~(read.is_finite() & (read >= least)).fill_null(value=False)
        self._refuse(name, bad & self.frame[name].is_not_null() if optional else bad, needed)
        return read.alias(name)

    def sizes(self, **names: str) -> dict[str, pl.Series]:
        """Columns of numbers of at least 1 by our names for the table's."""
        return {ours: self.numbers(theirs) for ours, theirs in names.items()}

    def times(self, name: str, unit_s: float, *, optional: bool = False) -> pl.Series:
        """A column of measured times as seconds: finite and above zero; ``optional`` lets cells be empty or zero."""
        read = self._cast(name)
        bad = ~(read.is_finite() & (read > 0)).fill_null(value=False)
        if optional:
            bad &= self.frame[name].is_not_null() & (read != 0).fill_null(value=True)
        self._refuse(name, bad, "a time above 0")
        return read * unit_s

    def _cast(self, name: str) -> pl.Series:
        return self.column(name).cast(pl.Float64, strict=False)

    def _refuse(self, name: str, bad: pl.Series, needed: str) -> None:
        """Raise `InputError` for the first of the ``bad`` cells, if there is one."""
        if bad.any():
            row = int(bad.arg_max() or 0)
            given = self.frame[name][row]
            more = f" (and {bad.sum() - 1} more rows)" if bad.sum() > 1 else ""
            value = "empty" if given is None else show(given)
            raise InputError(f"{self.place(row)}: {name} is {value}; allowed: {needed}{more}")

    def samples(self, **columns: pl.Series | pl.Expr | str | float) -> pl.DataFrame:
        """The columns as samples, each with its row in the file, and the library and device if the file has them."""
        base = pl.DataFrame({"row": range(self.frame.height) if self.rows is None else self.rows}, {"row": pl.Int64})
        given = {**columns, **{n: c for n, c in self.stated().items() if n == WEIGHT_COPIES or n not in columns}}
        return base.with_columns(
            *(pl.lit(c).alias(n) if isinstance(c, str | float | int) else c.alias(n) for n, c in given.items())
        )

    def stated(self) -> dict[str, pl.Series | str]:
        """The library and the device, empty where the table has no columns for them; copies of weights where it has."""
        library: pl.Series | str = ""
        if "library" in self.columns:
            library = self.text("library")
        elif {"framework", "version"} <= self.columns:
            library = self.text("framework") + " " + self.text("version")
        copies = {WEIGHT_COPIES: self.numbers(WEIGHT_COPIES)} if WEIGHT_COPIES in self.columns else {}
        return {"library": library, "device": self.text("device") if "device" in self.columns else "", **copies}


def open_table(path: Path) -> RawTable:
    """Return the columns of a CSV, Parquet, JSON or nccl-tests file, told apart by content; raises `InputError`."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
        if not head.strip():
            raise InputError(f"'{path}' is empty")
        if head.startswith(b"PAR1"):
            refuse_deep_file(path)
            frame = pl.read_parquet(path).select(_CELLS).cast({pl.Categorical: pl.String})
            return RawTable(path=path, frame=_not_empty(frame, path), counts="row", first=1)
        if head.lstrip().startswith((b"[", b"{")):
            return RawTable(path=path, frame=_not_empty(_from_json(path), path), counts="result", first=1)
        if b"nccl-tests" in head or b"nThread" in head or b"out-of-place" in head:
            return RawTable(path=path, frame=_not_empty(read_log(path), path))
        return _from_csv(path)
    except polars_faults(OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or first_line(error)
        raise InputError(f"cannot read '{path}': {why.lower()}") from error


def _from_csv(path: Path) -> RawTable:
    frame = pl.read_csv(path, infer_schema=False)
    names = WORDS["headings"].get(len(frame.columns))
    if names is None or frame.columns[0] not in ("bf16", "fp16"):
        return RawTable(path=path, frame=_not_empty(frame, path))
    headless = pl.read_csv(path, infer_schema=False, has_header=False, new_columns=list(names))
    return RawTable(path=path, frame=headless, first=1)


def _not_empty(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    if frame.height == 0:
        raise InputError(f"'{path}' has no rows")
    return frame


def _from_json(path: Path) -> pl.DataFrame:
    """A list of results as a table: nested keys are joined by dots."""
    from sightline.loading.sources import read_json

    with prefixed(f"cannot read '{path}': "):
        document = read_json(path.read_text(encoding="utf-8"), infinities=True)
    results = document if isinstance(document, list) else [document]
    if not all(isinstance(result, dict) for result in results):
        raise InputError(f"'{path}' is not a list of results")
    rows = [dict(_flat(result)) for result in results]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame({n: [_cell(row.get(n)) for row in rows] for n in names}, schema=dict.fromkeys(names, pl.String))


def _flat(mapping: dict[str, object], prefix: str = "") -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for key, value in mapping.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]
    return pairs


def _cell(value: object) -> str | None:
    return None if value is None else str(value)


Read = Callable[[RawTable], pl.DataFrame]

PHASES = ("prefill_attention", "decode_attention", "latent_decode_attention")
"""Parts of serving engines' attention: prompts, steps against keys and values per head, and steps against a latent."""
NO_WINDOW = 1e9
"""Tokens of a sliding window that never ends."""

MATMULS: Mapping[str, str] = WORDS["matmuls"]
CACHES: Mapping[str, str] = WORDS["caches"]
COLLECTIVES = {**PROGRAMS, **{kind: kind for kind in PROGRAMS.values()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way of writing measurements down."""

    name: str
    part: str
    columns: tuple[str, ...]
    """Columns that a table of this format has; others may be there too."""
    read: Read
    repeats: bool = False
    """A table times shapes several times as a matter of course: their median counts."""


FORMATS: list[Format] = []
"""The first that fits a table's columns and part reads it."""


WEIGHT_COPIES = "weight_copies"
"""Column of products: the weight matrices that a benchmark multiplies by in turn, so that L2 keeps none of them where
they outgrow it together; infinite where caches are flushed, or other layers run in between."""


def reads(
    name: str, columns: str, *parts: str, repeats: bool = False, weight_copies: float = inf
) -> Callable[[Read], Read]:
    """Register the decorated function as reader of ``parts`` of tables in the format ``name``, with ``columns``.

    Products have the format's ``weight_copies`` unless a table has a column of them.
    """

    def register(read: Read) -> Read:
        for part in parts:
            one = _of_products(read, weight_copies) if part == "matmul" else _of_phase(read, part)
            FORMATS.append(Format(name=name, part=part, columns=tuple(columns.split()), read=one, repeats=repeats))
        return read

    return register


def _of_products(read: Read, weight_copies: float) -> Read:
    def products(table: RawTable) -> pl.DataFrame:
        rows = read(table)
        return rows if WEIGHT_COPIES in rows.columns else rows.with_columns(pl.lit(weight_copies).alias(WEIGHT_COPIES))

    return products


def _of_phase(read: Read, part: str) -> Read:
    """A reader of one phase of what ``read`` reads: steps have one query per sequence, prompts more.

    Steps against a latent are a part of their own.
    """
    if part not in PHASES:
        return read

    def phase(table: RawTable) -> pl.DataFrame:
        rows = read(table)
        if "query_tokens" not in rows.columns:
            return rows
        lacking = {"latent": pl.lit(value=False), "window": pl.lit(NO_WINDOW)}
        rows = rows.with_columns(**{name: value for name, value in lacking.items() if name not in rows.columns})
        step, latent = pl.col("query_tokens") == 1, pl.col("latent")
        chosen = {"latent_decode_attention": step & latent, "decode_attention": step & ~latent}
        return rows.filter(chosen.get(part, ~step)).drop("latent")

    return phase


def attention_samples(table: RawTable, **columns: Any) -> pl.DataFrame:
    """Samples of attention: one sequence, a 16-bit cache, values as wide as keys unless ``columns`` say more."""
    usual = {"kernel": "16-bit cache", "batch": 1.0, "value_dim": columns["head_dim"]}
    return table.samples(**{**usual, **columns})


class Stream(NamedTuple):
    """What a kernel does for a token."""

    kind: str
    width: pl.Series | float
    tensors: float
    distinct: float | None = None
    """None: as many as are moved."""
    launches: float = 1.0


def stream_samples(
    table: RawTable, stream: Stream, tokens: pl.Series, seconds: pl.Series, generation: str = "vectorized"
) -> pl.DataFrame:
    """A sample of the kernel for every row of the table."""
    return table.samples(
        kernel=stream.kind,
        generation=generation,
        tokens=tokens,
        width=tokens * 0 + stream.width,
        tensors=stream.tensors,
        distinct=stream.tensors if stream.distinct is None else stream.distinct,
        launches=stream.launches,
        seconds=seconds,
    )


def in_order(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The samples of several kernels in the order of the file's rows."""
    return pl.concat(parts).sort("row", maintain_order=True)
