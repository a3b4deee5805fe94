"""Fit engines' own all-reduce kernels: constants of each algorithm, and the sizes up to which the engine uses them.

Over PCIe engines have kernels for pairs only: what is fitted there for more ranks is the NCCL inside the engine, where
it differs from that of the library's table, in the form of a kernel.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sightline.calibration.fits import Array, robust_fit
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.collectives import (
    CollectiveTable,
    Judged,
    errors,
    judged,
    predicted,
)
from sightline.cost.collectives.all_reduce import MULTICAST_MIN_RANKS
from sightline.cost.collectives.constants import ALGORITHMS, CustomAllReduce, KindConstants, Protocol
from sightline.scenario import Cluster

_LEAST, _MOST = (5e-7, 1e-4, 5e-3), (1e-4, 10.0, 1.0)
_FIRST_LIMITS = (2.0**18, 2.0**21, 2.0**24)
"""Bytes that the kernels are first taken to reach; the fit keeps what begins best."""
_ROUNDS = 3
"""Times that constants and limits are fitted in turn; they settle in two."""
_SPIKE = 0.3
"""A measurement counts no more than this towards a limit."""
MULTICAST_GAIN = 0.9
"""Multicast is taken to be there if it brings the mean misfit down to this share: engines began with it lately."""


def fit_kernels(
    table: CollectiveTable,
    node: Cluster,
    nccl: Mapping[str, KindConstants],
    *,
    hold_out: bool = True,
) -> Judged[CustomAllReduce]:
    """Fit an engine's all-reduce to its measurements, and again without parts of them, given NCCL's constants.

    What is left out counts with the limits of the whole: they are the engine's settings, no constants of physics.
    """
    kernels = _fit(table, node, nccl)
    names = tuple(kernels.algorithms)
    return judged(
        table,
        kernels,
        table,
        hold_out,
        lambda rows: _constants(rows, node, nccl, names, kernels.most_bytes),
        lambda rows, seen: errors(rows, node, nccl, custom=seen),
    )


def _fit(table: CollectiveTable, node: Cluster, nccl: Mapping[str, KindConstants]) -> CustomAllReduce:
    """The kernels with the least misfit, with multicast only where it is plainly there."""
    plain = _settled(table, node, nccl, ALGORITHMS[:3])
    if not (node.intra_node.in_network_reduction and np.any(table.ranks >= MULTICAST_MIN_RANKS)):
        return plain
    cast = _settled(table, node, nccl, ALGORITHMS)
    worse, better = (_misfit(table, node, nccl, kernels).mean() for kernels in (plain, cast))
    return cast if better < MULTICAST_GAIN * worse else plain


def _settled(
    table: CollectiveTable, node: Cluster, nccl: Mapping[str, KindConstants], algorithms: tuple[str, ...]
) -> CustomAllReduce:
    """Constants and limits fitted in turn, from the first limit that ends best."""
    ends = []
    for first in _FIRST_LIMITS:
        limits = {int(n): first for n in np.unique(table.ranks)}
        for _ in range(_ROUNDS):
            kernels = _constants(table, node, nccl, algorithms, limits)
            limits = _limits(table, node, nccl, kernels)
        ends.append(replace(kernels, most_bytes=limits))
    return min(ends, key=lambda kernels: float(_misfit(table, node, nccl, kernels).mean()))


def _constants(
    table: CollectiveTable,
    node: Cluster,
    nccl: Mapping[str, KindConstants],
    algorithms: tuple[str, ...],
    limits: Mapping[int, float],
) -> CustomAllReduce:
    """The kernels' constants, given the sizes up to which the engine uses them."""
    centres = manifest("collectives")["kernel_centres"]
    centre = np.array([x for name in algorithms for x in centres[name]])
    least, most = np.array(_LEAST * len(algorithms)), np.array(_MOST * len(algorithms))
    used = table.where(table.bytes <= np.array([limits.get(int(n), 0.0) for n in table.ranks]))
    if not len(used):
        return _kernels(algorithms, centre, limits)

    def model(values: Array) -> Array:
        return predicted(used, node, nccl, custom=_kernels(algorithms, values, limits))

    values = robust_fit(model, used.seconds, centre, least, most, [np.log(centre)])
    return _kernels(algorithms, values, limits)


def _kernels(algorithms: tuple[str, ...], values: Array, limits: Mapping[int, float]) -> CustomAllReduce:
    protocols = {
        name: Protocol(launch_s=float(launch), hop=float(hop), efficiency=float(share))
        for name, (launch, hop, share) in zip(algorithms, values.reshape(-1, 3), strict=True)
    }
    return CustomAllReduce(name="fit", algorithms=protocols, most_bytes=limits)


def _limits(
    table: CollectiveTable, node: Cluster, nccl: Mapping[str, KindConstants], kernels: CustomAllReduce
) -> dict[int, float]:
    """The measured size, for every number of ranks, up to which the kernels explain the measurements better."""
    always = replace(kernels, most_bytes={int(n): np.inf for n in np.unique(table.ranks)})
    gain = _misfit(table, node, nccl, None) - _misfit(table, node, nccl, always)
    limits = {}
    for n in np.unique(table.ranks):
        rows = np.flatnonzero(table.ranks == n)
        rows = rows[np.argsort(table.bytes[rows], kind="stable")]
        total = np.concatenate([[0.0], np.cumsum(gain[rows])])
        best = int(np.argmax(total))
        limits[int(n)] = float(table.bytes[rows[best - 1]]) if best else 0.0
    return limits


def _misfit(
    table: CollectiveTable, node: Cluster, nccl: Mapping[str, KindConstants], custom: CustomAllReduce | None
) -> Array:
    off: Array = np.abs(np.log(predicted(table, node, nccl, custom=custom) / table.seconds))
    return np.minimum(off, _SPIKE)
