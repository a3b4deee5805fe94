"""Constants of a device from tables on disk: found by format, checked, fitted, and written as catalog entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration.parts import PARTS, parts_named
from sightline.calibration.parts.part import PartFit
from sightline.calibration.readers import formats_of
from sightline.calibration.readers.raw_table import ENDINGS, RawTable, open_table
from sightline.catalog import names
from sightline.errors import InputError, nearest
from sightline.folders import located
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.loading.models import resolve_model
from sightline.progress import SILENT, Progress
from sightline.quantities import SECONDS, format_quantity
from sightline.scenario import Cluster

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
                f"{where} has measurements of {len(found)} {plural}: {listed}; select one with --only "
                f"{column}='{found[0]}'"
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
            f"{_row(rows, worst, keys)} is faster than the limit of {device}, {_time(least)}{_unit(seconds, bound_s)}"
        )
    if slow.max() > TOO_SLOW["row"] or np.median(slow) > TOO_SLOW["table"]:
        worst = int(np.argmax(slow))
        raise InputError(
            f"{_row(rows, worst, keys)} is {slow[worst]:.0f} times the limit of {device}; check the unit of time"
        )


def _unit(seconds: Array, bound_s: Array) -> str:
    """A hint where the whole table is off by about a thousand."""
    ratio = float(np.median(seconds / (bound_s + 1e-6)))
    return "; the unit of time seems to be off by 1000" if ratio < 0.05 else ""


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
            f"{worst['other']} has {worst['ratio']:.1f} times the time of {worst['one']} for the same shape "
            f"({shape}); keep one of them"
        )
    others = [c for c in rows.columns if c not in (*keys, "seconds")]
    return shapes.agg(pl.col("seconds").median(), *(pl.col(c).first() for c in others))


def enough(rows: pl.DataFrame, least: int, what: str) -> None:
    """Refuse a table with fewer rows than a fit needs."""
    if rows.height < least:
        raise InputError(f"{what}: {rows.height} rows of different shape are too few; at least {least} required")


def _row(rows: pl.DataFrame, index: int, keys: Sequence[str]) -> str:
    row = rows.row(index, named=True)
    return f"{row['place']} ({', '.join(f'{k} {_plain(row[k])}' for k in keys)}): {_time(row['seconds'])}"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """One part of a device's constants and where they come from."""

    device: str
    part: str
    fit: PartFit
    source: str
    covered: Mapping[str, Mapping[str, tuple[float, float]]]
    """By kernel and column, the smallest and the largest value measured."""

    def entry(self, date: str) -> dict[str, Any]:
        """The catalog entry."""
        covered = {kernel: {c: list(ends) for c, ends in ranges.items()} for kernel, ranges in self.covered.items()}
        provenance = {"source": self.source, "date": date, "evidence": "fitted", "device": self.device}
        return {**provenance, "covered": covered, **self.fit.content}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Checked measurements by part, and the files of a folder that are no tables."""

    rows: Mapping[str, pl.DataFrame]
    files: Mapping[str, Sequence[str]]
    skipped: Sequence[str]
    cluster: Cluster


def read_tables(
    paths: Sequence[Path],
    device: str,
    part: str | None = None,
    only: Mapping[str, str] | None = None,
    *,
    shape: str = "",
    model: str | None = None,
) -> Tables:
    """Return the measurements in files and folders, checked against what ``device`` can do; raises `InputError`.

    ``part`` keeps one part; ``only`` keeps rows by library or device. ``shape`` and ``model`` say what some tables do
    not: the shape of their heads, the model whose layers they name.
    """
    parts = parts_named(part)
    cluster = _cluster(device)
    layers = None if model is None else resolve_model(model, Path()).model
    found: dict[str, list[pl.DataFrame]] = {}
    files: dict[str, list[str]] = {}
    skipped = []
    for path, named in _files(paths):
        try:
            read = _read(replace(open_table(path), shape=shape, model=layers), parts, only or {})
        except InputError:
            if named:
                raise
            skipped.append(str(path))
            continue
        for name, rows in read.items():
            found.setdefault(name, []).append(rows)
            files.setdefault(name, []).append(path.name)
    if not found:
        wanted = f" of {part}" if part else ""
        raise InputError(f"no table{wanted} in {', '.join(map(repr, map(str, paths)))}")
    checked = {name: _checked(name, tables, cluster, device) for name, tables in found.items()}
    return Tables(rows=checked, files=files, skipped=skipped, cluster=cluster)


def _cluster(device: str) -> Cluster:
    known = (*names("devices"), THIS_MACHINE)
    if device == THIS_MACHINE:
        return read_cluster(device)
    if device not in known:
        raise InputError(
            f"unknown device '{device}'{nearest(device, known)}; list all with `sightline catalog devices`"
        )
    return read_cluster(f"8x {device}")


def _files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Every file with whether it was named itself: of a folder, what may be tables."""
    files: list[tuple[Path, bool]] = []
    for path in paths:
        if path.is_dir():
            files += [(p, False) for p in sorted(path.rglob("*")) if p.suffix.lower() in ENDINGS and p.is_file()]
        else:
            files.append((located(path), True))
    return files


def _read(table: RawTable, parts: Sequence[str], only: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    read = {}
    for known in formats_of(table):
        if known.part not in parts:
            continue
        rows = known.read(table)
        if known.repeats:
            keys = [*PARTS[known.part].keys, "library", "device"]
            others = [c for c in rows.columns if c not in (*keys, "seconds")]
            rows = rows.group_by(keys, maintain_order=True).agg(pl.col(others).first(), pl.col("seconds").median())
        for column, value in only.items():
            rows = rows.filter(pl.col(column) == value)
        if rows.height:
            places = [f"'{table.path.name}', {table.counts} {table.first + row}" for row in rows["row"]]
            read[known.part] = rows.drop("row").with_columns(pl.Series("place", places))
    if not read:
        wanted = f"no rows of {' or '.join(parts)}" if len(parts) < len(PARTS) else "no rows to fit"
        kept = f" with {', '.join(f'{c} {v}' for c, v in only.items())}" if only else ""
        raise InputError(f"'{table.path}' has {wanted}{kept}")
    return read


def _checked(name: str, tables: Sequence[pl.DataFrame], cluster: Cluster, device: str) -> pl.DataFrame:
    part = PARTS[name]
    rows = pl.concat(tables, how="diagonal_relaxed")
    where = "the table" if len(tables) == 1 else f"the {len(tables)} tables of {name}"
    one_source(rows, where)
    plausible(rows, part.bound(rows, cluster), part.keys, device)
    rows = without_repeats(rows, part.keys)
    for (kernel,), some in rows.group_by(["kernel"]):
        enough(some, part.least, f"{name}, {kernel}")
    return rows


def calibrate(tables: Tables, progress: Progress = SILENT) -> list[Calibration]:
    """Fit every part."""
    calibrations = []
    progress.begin(sum(rows["kernel"].n_unique() for rows in tables.rows.values()), "fitting")
    for name, rows in tables.rows.items():
        fit = PARTS[name].fit(rows, tables.cluster, progress)
        calibrations.append(
            Calibration(
                device=tables.cluster.device.name,
                part=name,
                fit=fit,
                source=_source(tables.files[name], rows),
                covered=_covered(rows, PARTS[name].keys, tuple(fit.rows)),
            )
        )
    return calibrations


def _source(files: Sequence[str], rows: pl.DataFrame) -> str:
    library = rows["library"][0]
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"sightline calibrate --from {shown}" + (f", measured with {library}" if library else "")


def _covered(
    rows: pl.DataFrame, keys: Sequence[str], fitted: Sequence[str]
) -> dict[str, dict[str, tuple[float, float]]]:
    """Smallest and largest sizes by what was fitted: each kernel of the rows, or all of them together."""
    sizes = [key for key in keys if key != "kernel"]
    parts = {name: rows.filter(pl.col("kernel") == name) if len(fitted) > 1 else rows for name in fitted}
    return {
        name: {c: (float(some[c].min()), float(some[c].max())) for c in sizes}  # type: ignore[arg-type]
        for name, some in parts.items()
        if some.height
    }
