"""The tables of a profile: a row per operator address, and a memory ledger per pipeline stage."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.quantities import Number, as_python

if TYPE_CHECKING:
    import polars


MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "buffers", "framework")
"""Parts of the fullest device's memory, in bytes; they sum to ``total``."""

COMMUNICATION = ("communication_exposed", "communication")
"""The phases of communication, of training and of generation."""

BETWEEN_PASSES = "between passes"
"""The moment of a step at which only persistent memory is allocated, gradients included."""


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
    bound_level: str = ""
    """The level of the machine that binds it (``LEVELS``); empty where nobody predicted it, as in older runs."""

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


_ROUNDING = 1e-12
"""Of seconds that are added up in another order, as a share of them."""


def overlapped_s(rows: Iterable[Row]) -> float:
    """Return the seconds of communication that run behind compute, as far as rows tell them."""
    sent = [(float(row.time_s), float(row.exposed_s)) for row in rows if row.phase in COMMUNICATION]
    # Seconds that are all exposed may differ from them by a rounding.
    return sum((run - exposed for run, exposed in sent if run - exposed > _ROUNDING * run), 0.0)


def row_table(rows: Sequence[Row]) -> "polars.DataFrame":
    """Return rows as a data frame."""
    import polars

    return polars.DataFrame({f.name: [getattr(row, f.name) for row in rows] for f in fields(Row)})


class NumbersOnDemand(Mapping[str, Number]):
    """Named numbers, some given as functions that run when the number is first read."""

    def __init__(self, numbers: Mapping[str, Number | Callable[[], Number]]) -> None:
        self._numbers = dict(numbers)

    def __getitem__(self, name: str) -> Number:
        number = self._numbers[name]
        if callable(number):
            self._numbers[name] = number = number()
        plain: Number = as_python(number)
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle with every number computed."""
        return NumbersOnDemand, (dict(self),)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageMemory:
    """One pipeline stage's memory ledger: bytes by part (``MEMORY_PARTS``) and the named items inside them."""

    stage: str
    """first, middle (the heaviest of them) or last; a single stage is the first. On unlike devices also what it runs
    on."""
    parts: Mapping[str, Number]
    items: Mapping[str, Number]
    """Finer lines, such as ``layer activations``, ``logits``, ``recomputation working set``."""
    moments: Mapping[str, Number]
    """Bytes of all parts at each moment of a step that may be the fullest; the parts are those of the fullest."""

    @property
    def total(self) -> Number:
        """Bytes of all parts."""
        fullest: Number = as_python(reduce(np.maximum, self._moments_of_passes().values()))
        return fullest

    @property
    def peak(self) -> str:
        """The moment of a step at which the stage's device is fullest (one plan only)."""
        moments = self._moments_of_passes()
        return max(moments, key=lambda name: float(moments[name]))

    def _moments_of_passes(self) -> dict[str, Number]:
        return {name: size for name, size in self.moments.items() if name != BETWEEN_PASSES}
