"""What a study answers: a table, what it comes to, what it rests on, and which pictures show it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from sightline.profile import BOUNDS, LEVEL_NAMES, MEMORY_PARTS, Task
from sightline.profile.results import stamped
from sightline.quantities import as_json, as_python

if TYPE_CHECKING:
    import polars

View = Literal["ideal", "calibrated"]
"""How devices are seen: with fixed shares of peak and bandwidth and no launches, or as kernels reach them today."""
FigureKind = Literal["lines", "stacks", "bars", "map", "points", "factors", "tornado"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """What a column of a table holds, as readers see it."""

    label: str
    unit: str = ""
    """In which its numbers are, without prefix: s, B, B/s, FLOP, FLOP/s, J, W, USD, share, tokens, m2, year, ...; empty
    for counts and words."""
    per: str = ""
    """What each of them is for: ``per million tokens``; empty where they stand for themselves."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Words that readers see in place of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture of a study's table, as columns of it; the chart room draws it."""

    kind: FigureKind
    """Lines or points of y over x; stacks of several columns per x; bars; a map of x by y in color; factors that
    multiply; a tornado of elasticities."""
    title: str
    x: str
    y: str | tuple[str, ...]
    """A column, or those that are stacked."""
    series: str = ""
    """Column that tells lines or groups apart."""
    panel: str = ""
    """Column of which each value has a panel of its own."""
    line: str = ""
    """Of points: the column with the height, at each of them, of a line that was fitted to those of its series."""
    log: frozenset[str] = frozenset()
    """Which of x and y are logarithmic."""
    break_even: float | None = None
    """Where a line is drawn: the value of lines, or of a map's colors, at which nothing is gained."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What readers see in place of a column's label; ``y``: the title of an axis that several columns share."""
    missing: str = ""
    """Of bars and maps: what stands in place of one whose row has no value; empty for nothing."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Rows that are drawn: those with these values."""
    columns: Mapping[str, Sequence[Any] | np.ndarray] = field(default_factory=dict)
    """A table of its own, by column, in place of the study's: a tornado's numbers and elasticities. Empty: the study's.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyAnswer:
    """The answer of a study."""

    study: str
    """Its name, as the command takes it."""
    title: str
    axes: Mapping[str, Sequence[Any]]
    """What was varied, by dotted key, and its values."""
    columns: Mapping[str, Sequence[Any] | np.ndarray]
    """The table by column, all of one length; figures in SI units, NaN where a row has none."""
    about: Mapping[str, Column] = field(default_factory=dict)
    """Label and unit of columns, those of figures too; one that is not here has its key as label and no unit."""
    summary: Mapping[str, Any] = field(default_factory=dict)
    """What the table comes to; keys are the study's own."""
    assumptions: Sequence[str] = ()
    """What was assumed, a sentence each, the views of devices first."""
    reading: Sequence[str] = ()
    """What the table shows, a sentence each, with its numbers."""
    figures: Sequence[Figure] = ()
    """Pictures, the one that says the most first."""
    warnings: Sequence[str] = ()
    shown: Sequence[str] = ()
    """Columns that a terminal shows, in order; all where none are named."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))

    @property
    def table(self) -> "polars.DataFrame":
        """The table as a data frame."""
        import polars

        return polars.DataFrame(
            {name: np.asarray(values).tolist() for name, values in self.columns.items()}, strict=False
        )

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        """The table row by row."""
        columns = {name: np.asarray(values, dtype=object).tolist() for name, values in self.columns.items()}
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, map(as_python, values), strict=True))


def columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows as columns; a figure that a row lacks is NaN, a word is empty."""
    rows = list(rows)
    words = {key for row in rows for key, value in row.items() if isinstance(value, str)}
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key, "" if key in words else float("nan")) for row in rows] for key in keys}


BOUND_BY: Final = Column(label="bound by", values=LEVEL_NAMES)
_DERIVED: Final[Mapping[str, Column]] = {
    "cost_usd_per_million_tokens": Column(label="rent", unit="USD", per="per million tokens"),
    "energy_j_per_token": Column(label="energy", unit="J", per="per token"),
    "power_w": Column(label="power", unit="W", per="per device"),
    "device_cost_usd": Column(label="cost of making", unit="USD", per="per device"),
    "device_peak_flops": Column(label="peak in bf16", unit="FLOP/s"),
    "device_l2_bytes": Column(label="L2 capacity", unit="B"),
    "device_frequency_hz": Column(label="clock", unit="Hz"),
    "device_tdp_w": Column(label="power limit", unit="W"),
    "carbon_kg": Column(label="carbon", unit="kg"),
    "carbon_kg_per_million_tokens": Column(label="carbon", unit="kg", per="per million tokens"),
}
"""Results that studies work out themselves."""


def memory_name(part: str) -> str:
    """Return what readers call a part of memory."""
    return part.replace("kv_cache", "KV cache")


def memories(names: Iterable[str]) -> Column:
    """Return a column of memories of the catalog, which are written as products are: ``HBM3E``."""
    return Column(label="memory", values={name: name.upper().replace("BEYOND-", "beyond ") for name in names})


def by_level(key: str, unit: str, label: str = "{}") -> dict[str, Column]:
    """Return a column for each level; ``{}`` stands for the level in keys and labels."""
    return {key.format(level): Column(label=label.format(name), unit=unit) for level, name in LEVEL_NAMES.items()}


def result_columns(task: Task) -> dict[str, Column]:
    """Return the columns of all results of a task that a study may report, by their keys."""
    units = {"count": "", "word": ""}
    found = {
        key: Column(label=metric.label, unit=units.get(metric.unit, metric.unit))
        for key, metric in task.figures.items()
    }
    memory = {f"memory_bytes.{part}": Column(label=f"memory of {memory_name(part)}", unit="B") for part in MEMORY_PARTS}
    phases = {f"phases.{name}": Column(label=name.replace("_", " "), unit="s") for name in task.phases}
    limits = {f"limits.{name}": Column(label=f"time limited by {name}", unit="s") for name in BOUNDS}
    return {
        **found,
        **_DERIVED,
        **memory,
        "memory_bytes.total": Column(label="memory", unit="B"),
        **phases,
        **limits,
        **by_level("levels.{}", "s", "time bound by {}"),
        "bound_level": BOUND_BY,
        "exposed_share": Column(label="exposed communication", unit="share"),
        "bubble_share": Column(label="pipeline bubbles", unit="share"),
    }


def study_to_dict(answer: StudyAnswer) -> dict[str, Any]:
    """Return the documented keys of a study's answer; a figure that a row lacks is null."""
    columns = [_listed(values) for values in answer.columns.values()]
    return stamped(
        {
            "study": answer.study,
            "title": answer.title,
            "axes": {key: as_json(list(values)) for key, values in answer.axes.items()},
            "rows": [dict(zip(answer.columns, row, strict=True)) for row in zip(*columns, strict=True)],
            "summary": as_json(answer.summary),
            "assumptions": list(answer.assumptions),
            "reading": list(answer.reading),
            "warnings": list(answer.warnings),
        }
    )


def _listed(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """A column as JSON has it: of a million figures not one by one."""
    column = np.asarray(values) if isinstance(values, np.ndarray) else None
    if column is None or column.dtype.kind not in "fiubU":
        listed: list[Any] = as_json(list(values))
        return listed
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return list(column.tolist())
    objects = column.astype(object)
    objects[~np.isfinite(column)] = None
    return list(objects.tolist())
