"""The table of a profile: one row per operator address."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

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
    count: Number = 1.0
    flops: Number = 0.0
    bytes: Number = 0.0
    """Bytes to and from device memory."""
    network_bytes: Number = 0.0
    time_s: Number
    """Seconds that the operator runs, overlapped with others or not; of idle phases the seconds the device waits."""
    exposed_s: Number
    """Seconds that it adds to the step or batch; they sum to the phases."""
    bound: str

    @classmethod
    def from_mapping(cls, row: Mapping[str, Any]) -> "Row":
        """Return a stored row; without ``exposed_s`` all its seconds are exposed."""
        known = {f.name: row[f.name] for f in fields(cls) if f.name in row}
        return cls(**{"exposed_s": row["time_s"], **known})

    def lasting(self, time_s: Number) -> "Row":
        """Return the row with other seconds, all of them exposed."""
        return replace(self, time_s=time_s, exposed_s=time_s)


def exposed(rows: Iterable[Row], whole_s: Number) -> list[Row]:
    """Return rows of which each adds to ``whole_s`` in proportion to the seconds it runs."""
    found = list(rows)
    run_s = sum(float(row.time_s) for row in found)
    return [replace(row, exposed_s=float(row.time_s * whole_s / run_s)) for row in found] if run_s else found


def exposed_by_phase(rows: Iterable[Row]) -> dict[str, float]:
    """Return the exposed seconds of every phase."""
    sums: dict[str, float] = {}
    for row in rows:
        sums[row.phase] = sums.get(row.phase, 0.0) + float(row.exposed_s)
    return sums


def row_table(rows: Sequence[Row]) -> "polars.DataFrame":
    """Return rows as a data frame."""
    import polars

    return polars.DataFrame({f.name: [getattr(row, f.name) for row in rows] for f in fields(Row)})
