"""Samples of measured operators as arrays: columns of equal length in SI units."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.program import Operator
from sightline.program.address import Module, Part

Array = NDArray[np.float64]
Kind = TypeVar("Kind", bound=Operator)
AnyTable = TypeVar("AnyTable", bound="Table")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Columns of equal length, one element per measurement."""

    seconds: Array
    unit: ClassVar[str] = "FLOP"
    """Of ``size``."""

    @property
    def size(self) -> Array:
        """What a chart lays along its axis: FLOPs, or bytes."""
        raise NotImplementedError

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Self:
        """The columns of samples that the table has by name."""
        return cls(**columns(rows, *(f.name for f in fields(cls))))

    def operators(self, kind: type[Kind], module: Module, part: Part, **stated: Any) -> Kind:
        """The measured operators at an address: sizes that columns are named after, and what else is ``stated``."""
        sizes = {f.name: getattr(self, f.name) for f in fields(self) if f.name in kind.__dataclass_fields__}
        return kind(module=module, part=part, **{**sizes, **stated})

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """The measurements for which ``mask`` holds; what is no column is the same for all of them."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return type(self)(**{n: v[mask] if isinstance(v, np.ndarray) else v for n, v in values.items()})


def columns(rows: pl.DataFrame, *names: str) -> dict[str, Array]:
    """Columns of samples as arrays by name: truth values as they are, all others as floats."""
    arrays = {name: rows[name].to_numpy() for name in names}
    return {name: array if array.dtype == bool else array.astype(float) for name, array in arrays.items()}


def by_kernel(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The samples of each kernel, in order of their names."""
    return {str(name): part for (name,), part in sorted(rows.group_by(["kernel"]), key=lambda pair: str(pair[0][0]))}
