"""What parts of a calibration share: an operator's identity and limits, what a fit hands back, and catalog entries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.calibration.fits.fitting import FitResult
from sightline.calibration.samples import Array, by_kernel
from sightline.quantities import significant
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

Entry: TypeAlias = dict[str, Any]
"""A catalog entry, or a part of one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Points:
    """A kernel's measurements beside what its constants predict."""

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
    constants: Mapping[str, Mapping[str, Any]]
    """By kernel, plain numbers by name."""
    rows: Mapping[str, Mapping[str, int]]
    """By kernel, how many rows there were and what became of them."""
    residuals: Mapping[str, Mapping[str, Mapping[str, float]]]
    """By kernel and range or part left out: rows, median, p90 and bias of the relative error."""
    points: Sequence[Points] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a calibration that anybody's tables can be fitted to."""

    keys: Sequence[str]
    """Columns that identify an operator; measurements that agree in them repeat each other."""
    least: int
    """Rows of a kernel that its constants need at least."""
    bound: Callable[["pl.DataFrame", Cluster], Array]
    """Seconds that no row's operator can be shorter than, by the device's peak, L2 bandwidth or links."""
    fit: Callable[["pl.DataFrame", Cluster, Callable[[], None]], PartFit]
    """The constants of every kernel in the rows; the function counts one kernel done."""
    points: Callable[["pl.DataFrame", Cluster], list[Points]]
    """What the constants that the catalog has for the device predict beside what was measured."""


def fit_each(
    rows: "pl.DataFrame", done: Callable[[], None], fit: Callable[[str, "pl.DataFrame"], tuple[FitResult, Points]]
) -> tuple[dict[str, FitResult], list[Points]]:
    """Fit the samples of every kernel, in order of their names; ``done`` is called once per kernel."""
    results: dict[str, FitResult] = {}
    drawn = []
    for kernel, part in by_kernel(rows).items():
        results[kernel], points = fit(kernel, part)
        drawn.append(points)
        done()
    return results, drawn


def part_fit(content: Mapping[str, Any], results: Mapping[str, FitResult], points: Sequence[Points]) -> PartFit:
    """What the fits of a part's kernels hand back; of their constants those that are numbers."""
    numbers = {
        kernel: {name: value for name, value in result.constants.items() if isinstance(value, int | float)}
        for kernel, result in results.items()
    }
    return PartFit(
        content=content,
        constants=numbers,
        rows={kernel: result.rows for kernel, result in results.items()},
        residuals={kernel: result.residuals for kernel, result in results.items()},
        points=points,
    )


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
    """The constants that stand in an entry beside words, rows and residuals."""
    return {name: value for name, value in entry.items() if isinstance(value, float)}
