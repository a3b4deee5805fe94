"""The parts of a calibration that tables can be fitted to: what identifies an operator, its limits, and its fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration import part_collectives, part_grouped, part_matmul
from sightline.calibration.part_fit import PartFit
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a calibration."""

    keys: Sequence[str]
    """Columns that identify an operator; measurements that agree in them repeat each other."""
    least: int
    """Rows of a kernel that its constants need at least."""
    bound: Callable[["pl.DataFrame", Cluster], Array]
    """Seconds that no row's operator can be shorter than, by the device's peak, L2 bandwidth or links."""
    fit: Callable[["pl.DataFrame", Cluster, Callable[[], None]], PartFit]
    """The constants of every kernel in the rows; the function counts one kernel done."""


PARTS: Mapping[str, Part] = {
    "matmul": Part(keys=("kernel", "m", "n", "k"), least=24, bound=part_matmul.bound, fit=part_matmul.fit),
    "collectives": Part(
        keys=("kernel", "ranks", "ranks_per_node", "bytes"),
        least=10,
        bound=part_collectives.bound,
        fit=part_collectives.fit,
    ),
    "grouped": Part(
        keys=("kernel", "experts", "local_experts", "rows_per_expert", "n", "k"),
        least=8,
        bound=part_grouped.bound,
        fit=part_grouped.fit,
    ),
}
"""By name, one line per part that tables can be fitted to."""


def wrong_part(name: str) -> str:
    """The sentence for a part that nothing is fitted to."""
    from sightline.errors import nearest

    known: list[Any] = list(PARTS)
    return f"unknown part '{name}'{nearest(name, known)}; parts: {', '.join(PARTS)}"
