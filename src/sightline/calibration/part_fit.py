"""What a fit of one part hands back, whatever the part: a catalog entry, and what people want to see of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]


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


def columns(rows: "pl.DataFrame", *names: str) -> dict[str, Array]:
    """Columns of a frame as arrays of floats, by name."""
    return {name: rows[name].to_numpy().astype(float) for name in names}


def by_kernel(rows: "pl.DataFrame") -> dict[str, "pl.DataFrame"]:
    """The rows of each kernel, in order of their names."""
    return {str(name): part for (name,), part in sorted(rows.group_by(["kernel"]), key=lambda pair: str(pair[0][0]))}
