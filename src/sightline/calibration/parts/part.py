"""The parts of a calibration: what identifies an operator, its limits, and what a fit hands back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.calibration.samples import Array
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
