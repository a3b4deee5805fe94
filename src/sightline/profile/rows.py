"""The table of a profile: one row per operator address."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from sightline.quantities import Number

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One operator address: what it does on one device, in a step (of the slowest stage) or in a batch."""

    phase: str
    block: str
    module: str
    operator: str
    count: Number
    flops: Number
    bytes: Number
    """Bytes to and from device memory."""
    network_bytes: Number
    time_s: Number
    bound: str


def row_table(rows: Sequence[Row]) -> "polars.DataFrame":
    """Return rows as a data frame."""
    import polars

    return polars.DataFrame({f.name: [getattr(row, f.name) for row in rows] for f in fields(Row)})
