"""What parts of a calibration share: an operator's identity and limits, what a fit hands back, and catalog entries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import polars as pl

from sightline.calibration.fits import Array, FitResult, by_kernel
from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.progress import SILENT, Progress
from sightline.quantities import significant
from sightline.scenario import Cluster

Entry: TypeAlias = dict[str, Any]
"""A catalog entry, or a part of one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """A kernel's measurements next to what its constants predict."""

    kernel: str
    size: Array
    """What a chart lays along its axis: FLOPs, or bytes of a message."""
    unit: str
    predicted: Array
    measured: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartFit:
    """The constants of one part."""

    content: Mapping[str, Any]
    """The part of the catalog entry that holds the constants, as the formulas read it."""
    fits: Mapping[str, FitResult]
    """By kernel."""
    points: Sequence[Points] = ()

    @property
    def constants(self) -> Mapping[str, Mapping[str, Any]]:
        """By kernel, plain numbers by name; of kernels that have some."""
        named = {name: numbers for kernel, fit in self.fits.items() for name, numbers in _named(kernel, fit).items()}
        return {name: numbers for name, numbers in named.items() if numbers}

    @property
    def rows(self) -> Mapping[str, Mapping[str, int]]:
        """By kernel, how many rows there were and what became of them; without those that nothing was fitted to."""
        return {kernel: fit.rows for kernel, fit in self.fits.items() if fit.rows}

    @property
    def residuals(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """By kernel and range or part left out: rows, median, p90 and bias of the relative error."""
        return {kernel: fit.residuals for kernel, fit in self.fits.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a calibration that anybody's tables can be fitted to, kernel by kernel."""

    keys: Sequence[str]
    """Columns that identify an operator; measurements that agree in them repeat each other."""
    least: int
    """Rows of a kernel that its constants need at least."""
    bound: Callable[[pl.DataFrame, Cluster], Array]
    """Seconds that no row's operator can be shorter than, by the device's peak, L2 bandwidth or links."""
    table: Callable[[pl.DataFrame, Cluster], Any]
    """The samples of one kernel as its formula takes them."""
    fit_kernel: Callable[[str, Any, Cluster], tuple[FitResult, Entry]]
    """The constants of a kernel from its table, and what a catalog entry states of them."""
    content: Callable[[Mapping[str, Entry], pl.DataFrame, Cluster], Entry]
    """The constants as a catalog entry holds them: of the kernels that were fitted, and what the nearest family
    lends."""
    predict: Callable[[str, Any, Cluster, Mapping[str, Any] | None], Array]
    """Seconds of a kernel's table by the constants of such an entry; None for those that predictions take."""
    kernels: Callable[[pl.DataFrame], Mapping[str, pl.DataFrame]] = by_kernel
    """The samples that are fitted together."""

    def fit(self, rows: pl.DataFrame, cluster: Cluster, progress: Progress = SILENT) -> PartFit:
        """The constants of every kernel in the rows."""
        results: dict[str, FitResult] = {}
        entries: dict[str, Entry] = {}
        for kernel, some in self.kernels(rows).items():
            progress.check()
            results[kernel], entries[kernel] = self.fit_kernel(kernel, self.table(some, cluster), cluster)
            progress.advance(some["kernel"].n_unique())
        content = self.content(entries, rows, cluster)
        return PartFit(content=content, fits=results, points=self.points(rows, cluster, content))

    def points(self, rows: pl.DataFrame, cluster: Cluster, stated: Entry | None = None) -> list[Points]:
        """What the constants ``stated``, or those that predictions take for the device, say of the rows."""
        tables = {kernel: self.table(some, cluster) for kernel, some in self.kernels(rows).items()}
        return [
            Points(
                kernel=kernel,
                size=table.size,
                unit=table.unit,
                predicted=self.predict(kernel, table, cluster, stated),
                measured=table.seconds,
            )
            for kernel, table in tables.items()
        ]


def _named(kernel: str, result: FitResult) -> Mapping[str, Mapping[str, Any]]:
    """The numbers among a kernel's constants by its name; those of several that one table tells stand by theirs."""
    if all(isinstance(value, Mapping) for value in result.constants.values()):
        return result.constants
    return {kernel: {name: v for name, v in result.constants.items() if isinstance(v, int | float)}}


def nearest_entry(part: str, cluster: Cluster) -> Mapping[str, Any]:
    """The catalog entry of the family nearest to the device that was measured in a part."""
    return entry("calibrations", f"{family_of(cluster.device, part)}/{part}")


DATE = "2026-11"


def provenance(source: str, evidence: str, part: str) -> Entry:
    """Where constants come from and how they are made again."""
    command = f"python -m sightline.calibration {part} --data DIR --out DIR"
    return {"source": source, "date": DATE, "evidence": evidence, "written_by": command}


def figures(result: FitResult) -> Entry:
    """How many rows a fit used, and what it leaves unexplained."""
    return {"rows": dict(result.rows), "residuals": {name: dict(r) for name, r in result.residuals.items()}}


def covered(sizes: Mapping[str, Array]) -> Entry:
    """The smallest and the largest of each size that was measured."""
    return {name: [float(end) for end in (size.min(), size.max())] for name, size in sizes.items()}


def between(sets: Sequence[Mapping[str, Any]]) -> Entry:
    """Geometric means of the constants of several fits, where they are numbers or lists of them."""

    def mean(*values: float) -> float:
        return significant(prod(values) ** (1 / len(values)))

    means: Entry = {}
    for name, first in sets[0].items():
        values = [s[name] for s in sets]
        if isinstance(first, list) and not isinstance(first[0], list):
            means[name] = [mean(*column) for column in zip(*values, strict=True)]
        elif isinstance(first, int | float):
            means[name] = mean(*values)
    return means


def constants_in(entry: Mapping[str, Any]) -> Entry:
    """The constants that stand in an entry next to words, rows and residuals."""
    return {name: value for name, value in entry.items() if isinstance(value, float)}
