"""The parts of a calibration that tables can be fitted to: what identifies an operator, its limits, and its fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightline.calibration import part_attention, part_collectives, part_elementwise, part_grouped, part_matmul
from sightline.calibration.part_fit import PartFit, Points
from sightline.errors import InputError, nearest
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
    points: Callable[["pl.DataFrame", Cluster], list[Points]]
    """What the constants that the catalog has for the device predict beside what was measured."""


_ATTENTION = ("kernel", "batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens")

PARTS: Mapping[str, Part] = {
    "matmul": Part(
        keys=("kernel", "m", "n", "k"),
        least=24,
        bound=part_matmul.bound,
        fit=part_matmul.fit,
        points=part_matmul.points,
    ),
    "prefill_attention": Part(
        keys=_ATTENTION,
        least=24,
        bound=part_attention.bound,
        fit=part_attention.fit_prefill,
        points=part_attention.points_prefill,
    ),
    "decode_attention": Part(
        keys=_ATTENTION,
        least=24,
        bound=part_attention.bound,
        fit=part_attention.fit_decode,
        points=part_attention.points_decode,
    ),
    "latent_decode_attention": Part(
        keys=_ATTENTION,
        least=16,
        bound=part_attention.bound_latent,
        fit=part_attention.fit_latent,
        points=part_attention.points_latent,
    ),
    "elementwise": Part(
        keys=("kernel", "tokens", "width", "tensors", "launches"),
        least=6,
        bound=part_elementwise.bound,
        fit=part_elementwise.fit,
        points=part_elementwise.points,
    ),
    "collectives": Part(
        keys=("kernel", "ranks", "ranks_per_node", "bytes"),
        least=10,
        bound=part_collectives.bound,
        fit=part_collectives.fit,
        points=part_collectives.points,
    ),
    "grouped": Part(
        keys=("kernel", "experts", "local_experts", "rows_per_expert", "n", "k"),
        least=8,
        bound=part_grouped.bound,
        fit=part_grouped.fit,
        points=part_grouped.points,
    ),
}
"""By name, one line per part that tables can be fitted to."""


ATTENTION = "attention"
"""Stands for attention's parts together."""


def parts_named(name: str | None) -> tuple[str, ...]:
    """Return the parts that a request names: all without a name; raises `InputError` for one that nothing is fitted to."""
    if name is None:
        return tuple(PARTS)
    named = tuple(part for part in PARTS if name == part or (name == ATTENTION and part.endswith(ATTENTION)))
    if not named:
        known = [ATTENTION, *PARTS]
        raise InputError(f"unknown part '{name}'{nearest(name, known)}; parts: {', '.join(known)}")
    return named
