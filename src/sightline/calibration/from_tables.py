"""Constants of a device from tables on disk: found by format, checked, fitted, and written as catalog entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from sightline.calibration.parts import PARTS, parts_named
from sightline.calibration.parts.part import PartFit
from sightline.calibration.readers import checks, formats_of
from sightline.calibration.readers.raw_table import ENDINGS, RawTable, open_table
from sightline.catalog import names
from sightline.errors import InputError, nearest
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.loading.models import resolve_model
from sightline.progress import SILENT, Progress
from sightline.scenario import Cluster


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
        raise InputError(f"unknown device '{device}'{nearest(device, known)}; `sightline catalog devices` lists all")
    return read_cluster(f"8x {device}")


def _files(paths: Sequence[Path]) -> list[tuple[Path, bool]]:
    """Every file with whether it was named itself: of a folder, what may be tables."""
    files: list[tuple[Path, bool]] = []
    for path in paths:
        if path.is_dir():
            files += [(p, False) for p in sorted(path.rglob("*")) if p.suffix.lower() in ENDINGS and p.is_file()]
        else:
            files.append((path, True))
    return files


def _read(table: RawTable, parts: Sequence[str], only: Mapping[str, str]) -> dict[str, pl.DataFrame]:
    read = {}
    for known in formats_of(table):
        if known.part not in parts:
            continue
        rows = known.read(table)
        if known.repeats:
            keys = [*PARTS[known.part].keys, "library", "device"]
            rows = rows.group_by(keys, maintain_order=True).agg(pl.col("row").first(), pl.col("seconds").median())
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
    checks.one_source(rows, where)
    checks.plausible(rows, part.bound(rows, cluster), part.keys, device)
    rows = checks.without_repeats(rows, part.keys)
    for (kernel,), some in rows.group_by(["kernel"]):
        checks.enough(some, part.least, f"{name}, {kernel}")
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
