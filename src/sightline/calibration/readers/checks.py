"""What a table of measurements must not be: mixed, repeated with different times, or outside what a device can do.

Every complaint is one sentence naming the row, so that a wrong unit or a spoilt row is found before anything is fitted.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.quantities import SECONDS, format_quantity

Array = NDArray[np.float64]

TOO_FAST = 2.0
"""Times the L2 roofline that no row exceeds: datasheets' clocks and estimates of L2 bandwidth err by less."""
SHORTEST_S = 2e-7
"""Nothing a device executes is shorter."""
SLOW_START_S = 3e-5
"""What a kernel may take however little it does."""
TOO_SLOW = {"row": 2000.0, "table": 150.0}
"""Times slower than roofline and start together: a row of that size was not measured, a table in the middle neither."""
SPREAD = 2.0
"""Ratio up to which times of one shape may differ; the median stands for them."""
STRAY = 0.01
"""Share of the repeated shapes that may differ by more: a busy host now and then."""


def one_source(rows: pl.DataFrame, where: str) -> None:
    """Refuse measurements of several devices or libraries: constants describe one."""
    for column, plural in (("device", "devices"), ("library", "libraries")):
        found = rows[column].drop_nulls().unique().sort().to_list()
        if len(found) > 1:
            listed = ", ".join(f"'{name}'" for name in found[:6]) + (", ..." if len(found) > 6 else "")
            raise InputError(
                f"{where} mixes measurements of {len(found)} {plural}: {listed}; "
                f"keep one with --only {column}='{found[0]}'"
            )


def plausible(rows: pl.DataFrame, bound_s: Array, keys: Sequence[str], device: str) -> None:
    """Refuse times no device reaches and times nobody would have waited for: as a rule the unit is wrong."""
    seconds = rows["seconds"].to_numpy()
    fast = seconds * TOO_FAST < np.maximum(bound_s, SHORTEST_S * TOO_FAST)
    slow = seconds / (bound_s + SLOW_START_S)
    if fast.any():
        worst = int(np.argmax(bound_s / seconds)) if (bound_s > 0).any() else int(np.argmax(fast))
        least = max(bound_s[worst], SHORTEST_S)
        raise InputError(
            f"{_row(rows, worst, keys)} is faster than {device} can be, whose limit is {_time(least)}"
            f"{_unit(seconds, bound_s)}"
        )
    if slow.max() > TOO_SLOW["row"] or np.median(slow) > TOO_SLOW["table"]:
        worst = int(np.argmax(slow))
        raise InputError(
            f"{_row(rows, worst, keys)} is {slow[worst]:.0f} times as long as {device} needs by its limits: is the unit"
            " of time right?"
        )


def _unit(seconds: Array, bound_s: Array) -> str:
    """A hint where the whole table is off by about a thousand."""
    ratio = float(np.median(seconds / (bound_s + 1e-6)))
    return ": the unit of time seems to be off by a thousand" if ratio < 0.05 else ""


def without_repeats(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """One row per shape, the median of its repeats; repeats that contradict each other are refused."""
    shapes = rows.group_by(keys, maintain_order=True)
    least, most = pl.col("seconds").min(), pl.col("seconds").max()
    spread = shapes.agg(
        (most / least).alias("ratio"),
        pl.col("place").sort_by("seconds").first().alias("one"),
        pl.col("place").sort_by("seconds").last().alias("other"),
    )
    worst = spread.row(int(spread["ratio"].arg_max() or 0), named=True)
    repeated = spread.filter(pl.col("one") != pl.col("other")).height
    if spread.filter(pl.col("ratio") > SPREAD).height > STRAY * repeated:
        shape = ", ".join(f"{key} {_plain(worst[key])}" for key in keys)
        raise InputError(
            f"{worst['other']} says {worst['ratio']:.1f} times as long as {worst['one']} for the same shape ({shape});"
            " keep one of them"
        )
    others = [c for c in rows.columns if c not in (*keys, "seconds")]
    return shapes.agg(pl.col("seconds").median(), *(pl.col(c).first() for c in others))


def enough(rows: pl.DataFrame, least: int, what: str) -> None:
    """Refuse a table with fewer rows than a fit needs."""
    if rows.height < least:
        raise InputError(f"{what}: {rows.height} rows of different shape are too few; at least {least} are needed")


def _row(rows: pl.DataFrame, index: int, keys: Sequence[str]) -> str:
    row = rows.row(index, named=True)
    return f"{row['place']} ({', '.join(f'{k} {_plain(row[k])}' for k in keys)}): {_time(row['seconds'])}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)
