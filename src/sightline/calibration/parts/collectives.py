"""Fit the constants of collectives to measurements: robust least squares in log space, through the model itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import Array, Table, columns, robust_fit
from sightline.calibration.manifest import manifest
from sightline.cost.collectives.collective import MULTICAST_MIN_RANKS, collective_time
from sightline.cost.collectives.libraries import (
    ALGORITHMS,
    PCIE,
    CollectiveConstants,
    CustomAllReduce,
    Group,
    KindConstants,
    NetworkConstants,
    NetworkProtocol,
)
from sightline.cost.collectives.libraries import ProtocolConstants as Protocol
from sightline.loading.clusters import read_cluster
from sightline.scenario import Cluster, Host

_LEAST = (1e-3, *(5e-7, 1e-3, 2e-3) * 3)
_MOST = (3.0, *(1e-4, 10.0, 0.95) * 3)
_NVLS = ((40e-6, 0.65), (5e-6, 0.05), (2e-4, 1.0))
"""Launch and efficiency of sums in the switch: where they lie by and large, the least, the most."""
NVLS_HOP = 1.0
"""Hops of the switch cannot be told from the launch with one group size, so one link latency each is assumed."""
SHARED_BY = (4, 8)
"""Ranks whose share of a bandwidth over PCIe is fitted, over that of a pair."""
_SHARES = ((0.7, 0.5), (0.01, 0.01), (1.5, 1.5))

_ENOUGH = 250
"""Measurements that parts are held out of; longer tables are thinned."""

Fitted = TypeVar("Fitted")
Errors = Mapping[str, float]
"""Statistics of the relative errors over a set of measurements."""

TYPICAL_NETWORK = NetworkConstants(
    protocols=(
        NetworkProtocol(hop=1.6, efficiency=0.25),
        NetworkProtocol(hop=2.0, efficiency=0.55),
        NetworkProtocol(hop=3.5, efficiency=0.88),
    ),
    tree=0.85,
)
"""What NCCL reaches over InfiniBand by and large: 8 us per hop in small messages, 88 % of the ports in large ones."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CollectiveTable(Table):
    """Measured collectives of one kind on one system with one library version."""

    kind: str
    ranks: Array
    ranks_per_node: Array
    bytes: Array
    """The buffer as nccl-tests reports it."""
    samples: int = 0
    """How many there are of the kind, those across nodes included, where that was counted."""
    unit: ClassVar[str] = "B"

    @property
    def size(self) -> Array:
        """Bytes."""
        return self.bytes

    @classmethod
    def of_kind(cls, kind: str, rows: pl.DataFrame) -> "CollectiveTable":
        """The columns of samples of one kind."""
        sizes = columns(rows, "seconds", "ranks", "ranks_per_node", "bytes")
        return cls(kind=kind, samples=rows.height, **sizes)


class Judged(NamedTuple, Generic[Fitted]):
    """Constants with what they leave unexplained."""

    constants: Fitted
    fitted: Errors
    held_out: Mapping[str, Errors]
    """Errors on what the fit did not see, by what was left out: group sizes, message ranges."""


def measured_node(interconnect: str) -> Cluster:
    """Return a node of eight with the catalog's links of this name, and a host whose memory no transfer waits for."""
    node = read_cluster({"devices": "8x a100-sxm-80gb", "intra_node": interconnect, "network": "infiniband-hdr"})
    return replace(node, host=Host(name="any", device_bandwidth=PINNED_SHARE * node.intra_node.bandwidth))


PINNED_SHARE = 0.76
"""What large pinned copies reach of 16 lanes of PCIe 3: 12 of 15.8 GB/s, as the catalog's hosts have it."""


def predicted(
    table: CollectiveTable,
    node: Cluster,
    kinds: Mapping[str, KindConstants],
    network: NetworkConstants = TYPICAL_NETWORK,
    custom: CustomAllReduce | None = None,
) -> Array:
    """Return the model's seconds for every measurement of ``table``."""
    constants = CollectiveConstants(
        name="fit",
        version="",
        evidence="fitted",
        kinds=kinds,
        network=network,
        measured=tuple(kinds),
        custom=custom,
    )
    group = Group(size=table.ranks, ranks_per_node=table.ranks_per_node, sharing=1.0)
    return np.asarray(collective_time(table.kind, table.bytes, group=group, cluster=node, constants=constants))


def errors(
    table: CollectiveTable,
    node: Cluster,
    kinds: Mapping[str, KindConstants],
    network: NetworkConstants = TYPICAL_NETWORK,
    custom: CustomAllReduce | None = None,
) -> Errors:
    """Return how far the model with these constants is from the measurements, not yet rounded to what is shown."""
    return error_statistics(predicted(table, node, kinds, network, custom), table.seconds, digits=12)


def judged(
    table: CollectiveTable,
    constants: Fitted,
    tested: CollectiveTable,
    hold_out: bool,
    fit: Callable[[CollectiveTable], Fitted],
    off: Callable[[CollectiveTable, Fitted], Errors],
) -> Judged[Fitted]:
    """Return constants with their errors on a table.

    With ``hold_out`` also on parts of ``tested`` by fits without each.
    """
    parts = left_out_parts(tested) if hold_out else {}
    held_out = {name: off(tested.where(out), fit(tested.where(~out))) for name, out in parts.items()}
    return Judged(constants, off(table, constants), held_out)


def fit_collectives(
    table: CollectiveTable,
    node: Cluster,
    *,
    hold_out: bool = True,
    relative: Mapping[str, KindConstants] | None = None,
) -> Judged[dict[str, KindConstants]]:
    """Fit one kind of collective to its measurements, and again without parts of them to see how far it carries.

    Constants that the measurements leave open stay near those of ``relative``, or near what is usual on such links.
    Those of ``nvls`` stand next to those of all_reduce.
    """
    kinds = _fit(table, node, relative)
    thinned = table.where(np.arange(len(table)) % (1 + len(table) // _ENOUGH) == 0)

    def fit(rows: CollectiveTable) -> dict[str, KindConstants]:
        return _fit(rows, node, relative, thorough=False)

    return judged(table, kinds, thinned, hold_out, fit, lambda rows, seen: errors(rows, node, seen))


def left_out_parts(table: CollectiveTable) -> dict[str, NDArray[np.bool_]]:
    """Return what is left out in turn: every group size but the only ones, message ranges, every other size."""
    sizes = np.unique(table.ranks)
    parts = {f"{n:.0f} ranks": table.ranks == n for n in sizes if len(sizes) > 1}
    edges = (("under 16 KiB", 0, 2**14), ("16 KiB to 1 MiB", 2**14, 2**20), ("1 to 32 MiB", 2**20, 2**25))
    for name, low, high in (*edges, ("over 32 MiB", 2**25, np.inf)):
        parts[name] = (table.bytes >= low) & (table.bytes < high)
    parts["every other size"] = np.round(np.log2(table.bytes)) % 2 == 0
    return {name: mask for name, mask in parts.items() if mask.any() and not mask.all()}


def _fit(
    table: CollectiveTable,
    node: Cluster,
    relative: Mapping[str, KindConstants] | None,
    *,
    thorough: bool = True,
) -> dict[str, KindConstants]:
    """The constants of the table's kind with the least robust error, from all starts or from two of them."""
    in_switch = table.kind == "all_reduce" and node.intra_node.in_network_reduction and bool(np.any(table.ranks > 4))
    on_pcie = node.intra_node.topology == PCIE
    centres = manifest("collectives")["centres"]
    shape = table.kind if table.kind in centres["switch"] else "ring"
    usual = centres["pcie" if on_pcie and shape in centres["pcie"] else "switch"][shape]
    more = _NVLS if in_switch else _SHARES if on_pcie else ((), (), ())
    centre = usual if relative is None else _values(relative[table.kind])
    centre, least, most = (np.array((*a, *b)) for a, b in zip((centre, _LEAST, _MOST), more, strict=True))

    def model(values: Array) -> Array:
        return predicted(table, node, _constants(table.kind, values, on_pcie=on_pcie))

    starts = _starts(np.log(centre))
    values = robust_fit(model, table.seconds, centre, least, most, starts if thorough else starts[::4])
    return _constants(table.kind, values, on_pcie=on_pcie)


def _starts(prior: Array) -> list[Array]:
    """The prior with faster and slower launches, hops and middle protocols: the minimum over protocols has kinks."""
    starts = []
    for launch, hop, middle in product((0.8, 1.6), (0.6, 2.0), (0.6, 1.4)):
        start = prior.copy()
        start[[1, 4]] += np.log(launch)
        start[[2, 5, 8]] += np.log(hop)
        start[6] += np.log(middle)
        starts.append(start)
    return starts


def _constants(kind: str, values: Array, *, on_pcie: bool) -> dict[str, KindConstants]:
    """Constants from the fit's vector: local, three per protocol, then shares, or launch and efficiency of ``nvls``."""
    local = 0.0 if kind in ("send_recv", "broadcast", "reduce") else float(values[0])
    protocols = tuple(
        Protocol(launch_s=float(launch), hop=float(hop), efficiency=float(share))
        for launch, hop, share in values[1:10].reshape(3, 3)
    )
    shares = {2: 1.0, **dict(zip(SHARED_BY, map(float, values[10:12]), strict=True))} if on_pcie else {}
    kinds = {kind: KindConstants(local=local, protocols=protocols, shares=shares)}
    if len(values) > 10 and not on_pcie:
        switch = Protocol(launch_s=float(values[10]), hop=NVLS_HOP, efficiency=float(values[11]))
        kinds["nvls"] = KindConstants(local=0.0, protocols=(switch,))
    return kinds


def _values(fitted: KindConstants) -> tuple[float, ...]:
    """The fit's vector out of constants: local and three per protocol."""
    each = [x for p in fitted.protocols for x in (float(p.launch_s), p.hop, p.efficiency)]
    return (max(fitted.local, _LEAST[0]), *each)


def fit_network(
    table: CollectiveTable, node: Cluster, kinds: Mapping[str, KindConstants]
) -> tuple[NetworkConstants, Errors]:
    """Return what all-reduces across nodes say of the network, given the constants inside a node.

    One sweep cannot tell the bandwidth of ports from the share of it that is reached: ``node`` says the former. Nor
    can it tell hops of one protocol inside from hops outside, so no constant moves further from ``TYPICAL_NETWORK``
    than by half.
    """
    typical = TYPICAL_NETWORK
    centre = np.array([x for p in typical.protocols for x in (p.hop, p.efficiency)] + [typical.tree])
    least, most = centre / 1.5, np.minimum(centre * 1.5, [np.inf, 0.95] * 3 + [0.95])

    def constants(values: Array) -> NetworkConstants:
        protocols = tuple(NetworkProtocol(hop=float(h), efficiency=float(e)) for h, e in values[:6].reshape(3, 2))
        return NetworkConstants(protocols=protocols, tree=float(values[6]))

    def model(values: Array) -> Array:
        return predicted(table, node, kinds, constants(values))

    network = constants(robust_fit(model, table.seconds, centre, least, most, [np.log(centre)]))
    return network, errors(table, node, kinds, network)


_LEAST_OF_KERNELS, _MOST_OF_KERNELS = (5e-7, 1e-4, 5e-3), (1e-4, 10.0, 1.0)
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
    kernels = _fit_kernel(table, node, nccl)
    names = tuple(kernels.algorithms)
    return judged(
        table,
        kernels,
        table,
        hold_out,
        lambda rows: _kernel_constants(rows, node, nccl, names, kernels.most_bytes),
        lambda rows, seen: errors(rows, node, nccl, custom=seen),
    )


def _fit_kernel(table: CollectiveTable, node: Cluster, nccl: Mapping[str, KindConstants]) -> CustomAllReduce:
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
            kernels = _kernel_constants(table, node, nccl, algorithms, limits)
            limits = _limits(table, node, nccl, kernels)
        ends.append(replace(kernels, most_bytes=limits))
    return min(ends, key=lambda kernels: float(_misfit(table, node, nccl, kernels).mean()))


def _kernel_constants(
    table: CollectiveTable,
    node: Cluster,
    nccl: Mapping[str, KindConstants],
    algorithms: tuple[str, ...],
    limits: Mapping[int, float],
) -> CustomAllReduce:
    """The kernels' constants, given the sizes up to which the engine uses them."""
    centres = manifest("collectives")["kernel_centres"]
    centre = np.array([x for name in algorithms for x in centres[name]])
    least, most = np.array(_LEAST_OF_KERNELS * len(algorithms)), np.array(_MOST_OF_KERNELS * len(algorithms))
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
