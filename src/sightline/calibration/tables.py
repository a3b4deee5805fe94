"""What tables of measured operators share: columns of equal length in SI units."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Columns of equal length, one element per measurement."""

    seconds: Array

    def __len__(self) -> int:
        return len(self.seconds)

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """The measurements for which ``mask`` holds."""
        return type(self)(**{f.name: getattr(self, f.name)[mask] for f in fields(self)})

    def joined(self, other: Self) -> Self:
        """The measurements of both."""
        return type(self)(**{f.name: np.concatenate([getattr(x, f.name) for x in (self, other)]) for f in fields(self)})


def column(rows: "polars.DataFrame", name: str) -> Array:
    """A column of a table that was read, as floats."""
    return np.asarray(rows[name].to_numpy(), dtype=float)
