"""What a collective takes: latency per hop plus bytes over bandwidth, by the fastest algorithm and protocol.

Symbols: ``n`` ranks, ``r`` of them per node, ``m`` nodes, ``S`` bytes of the buffer as nccl-tests reports it. A ring
moves the least bytes over each link (Patarasu & Yuan 2009), a double binary tree crosses the network in log2(m) hops
(Sanders, Speck & Traeff 2009), a switch that adds (NVLink SHARP) takes each byte once. Across nodes both algorithms
are hierarchical: devices of a node form a chain, and the links inside work while the network does.
"""

from functools import cache
from itertools import count
from typing import NamedTuple

import numpy as np

from sightline.cost.collectives.libraries import (
    CollectiveConstants,
    CustomAllReduce,
    Group,
    KindConstants,
    Links,
    over_bridge,
    past_bridges,
)
from sightline.cost.prices import Alike, OperatorCost, Ranks
from sightline.errors import InputError, nearest
from sightline.program.routing import distinct_ranks
from sightline.quantities import Number, anywhere, either, identity, larger, smaller
from sightline.scenario import Interconnect, Network
from sightline.scenario.cluster import COLLECTIVES


class Extent(NamedTuple):
    """How far a group reaches along one dimension."""

    ranks: Number
    closed: Number
    """1.0 where they close to a ring, else 0.0."""


@cache
def torus_shape(devices: int, dimensions: int) -> tuple[int, ...]:
    """Return the lengths of a torus of so many devices, as equal as whole numbers allow, longest first."""
    shape = [1] * dimensions
    for factor in sorted(_prime_factors(devices), reverse=True):
        shape[shape.index(min(shape))] *= factor
    return tuple(sorted(shape, reverse=True))


def _prime_factors(number: int) -> list[int]:
    factors, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors.append(divisor)
            number //= divisor
        divisor += 1
    return [*factors, number] if number > 1 else factors


def extents(ranks: Number, per_node: int, link: Interconnect) -> list[Extent]:
    """Return how far a group of neighbours reaches along each dimension of a slice of ``per_node`` devices."""
    reached, rest = [], np.asarray(ranks, dtype=float)
    for length in torus_shape(per_node, link.dimensions):
        along = np.minimum(rest, float(length))
        wraps = length % link.closes_at == 0
        reached.append(Extent(ranks=along, closed=1.0 * ((along == length) & wraps)))
        rest = np.ceil(rest / along)
    return reached


def ring_share(ranks: Number, per_node: int, link: Interconnect) -> Number:
    """Share of a device's bandwidth that a group's rings use: one D-th per closed dimension, half per open one."""
    share: Number = sum(
        (extent.ranks > 1) * (0.5 + 0.5 * extent.closed) / link.dimensions for extent in extents(ranks, per_node, link)
    )
    return np.where(np.asarray(ranks) > 1, share, 1.0)


def all_to_all_share(ranks: Number, per_node: int, link: Interconnect) -> Number:
    """Share of a device's bandwidth at which what it sends to others, (r-1)/r of its buffer, gets through.

    A rank's buffer S takes S k / 8 b along a closed dimension and S k / 4 b along an open one; the slowest rules.
    """
    share = ring_share(ranks, per_node, link)
    for extent in extents(ranks, per_node, link):
        middle = (2.0 + 2.0 * extent.closed) / (link.dimensions * extent.ranks) * (ranks - 1.0) / ranks
        share = np.where(extent.ranks > 1, np.minimum(share, middle), share)
    return share


def torus_share(kind: str, ranks: Number, per_node: int, link: Interconnect) -> Number:
    """Share of a device's bandwidth that a collective of a group uses; of a pair's message one link."""
    if kind == "send_recv":
        return 1.0 / (2.0 * link.dimensions)
    return (all_to_all_share if kind == "all_to_all" else ring_share)(ranks, per_node, link)


def steps(ranks: Number, per_node: int, link: Interconnect) -> Number:
    """Hops from one end of a group to the other: half-way round every closed dimension, all along the open ones."""
    hops: Number = sum(
        np.where(extent.closed > 0, np.floor(extent.ranks / 2.0), extent.ranks - 1.0)
        for extent in extents(ranks, per_node, link)
    )
    return hops


TORUS_DIMENSIONS = 3.0


ECMP_SLOWDOWN = 1.4
"""Time of a collective whose connections are spread over a switch's uplinks by hashes, over that of an even spread.

Published: 40 % more bandwidth of all-reduce with hashes over many queue pairs than over one (Meta, SIGCOMM 2024);
70 of 100 Gbit/s under collisions (Baidu AIPod)."""


def slowdown(kind: str, nodes: Number, network: Network, stride: Number = 1.0) -> Number:
    """Return by how much the fabric stretches the time at the ports of a collective over so many nodes; 1 or more.

    Of an all-to-all over ``m`` nodes the share (m - L) / (m - 1) leaves a switch of ``L``, whose uplinks carry one
    ``o``-th of its ports. Rings leave it once: at worst ``o / L``. Of pairs that lie ``stride`` nodes apart, all but
    neighbours, stride / L. Hashed uplinks stretch what leaves by ``ECMP_SLOWDOWN``. A torus of nodes has the limit of
    its middle, (2 D) k / 8 with k = m^(1/D) for all-to-all.
    """
    m = nodes * 1.0
    if network.topology == "torus":
        if kind != "all_to_all":
            return 1.0
        return larger(1.0, 2.0 * TORUS_DIMENSIONS * m ** (1.0 / TORUS_DIMENSIONS) / 8.0)
    leaf = float(network.nodes_per_switch)
    if kind == "all_to_all":
        leaves = share = larger(0.0, m - leaf) / larger(1.0, m - 1.0)
    elif kind == "send_recv":
        leaves = share = (m > 1) * (stride > 1) * smaller(1.0, stride / leaf)
    else:
        leaves = (m > leaf) * 1.0
        share = leaves / leaf
    thin = larger(1.0, network.oversubscription * share)
    return thin * (1.0 + (ECMP_SLOWDOWN - 1.0) * leaves) if network.routing == "ecmp" else thin


def handed_over(kind: str, ranks: Number, per_node: Number, network: Network) -> Number:
    """Share of a rank's buffer that changes device inside the node on its way to another node, as rails want it."""
    if kind != "all_to_all" or network.topology != "rail-optimized":
        return 0.0
    return (ranks - per_node) / ranks * (per_node - 1.0) / per_node


MULTICAST_MIN_RANKS = 5
"""Ranks from which engines let the switch add, as NCCL does."""


def custom_all_reduce_time(
    size: Number, n: Number, nodes: Number, bandwidth: Number, latency_s: Number, custom: CustomAllReduce
) -> Number:
    """Return the seconds of the fastest kernel, infinite for groups across nodes and where the engine has none.

    One shot: launch + (n - 1) hop + (n - 1) S / B. Two shots: launch + the longer of (n - 1) hop and
    2 (n - 1) / n S / B, for its two phases hide their latency behind long messages; through the switch (1 + 1/n) S.
    Leaves out the copy into a registered buffer that engines make outside CUDA graphs.
    """
    within = (size <= custom.limit(n)) & (nodes == 1)
    pair = custom.algorithms["pair"]
    pair_s = pair.launch_s + pair.hop * latency_s + size / (bandwidth * pair.efficiency)
    return either(within, either(n > 2, _several(size, n, bandwidth, latency_s, custom), pair_s), np.inf)


def _several(size: Number, n: Number, bandwidth: Number, latency_s: Number, custom: CustomAllReduce) -> Number:
    """Seconds of the fastest kernel among more than two ranks."""
    peers = n - 1
    one_shot, two_shot, multicast = (custom.algorithms.get(name) for name in ("one_shot", "two_shot", "multicast"))
    time_s: Number = np.inf
    if one_shot is not None:
        time_s = one_shot.launch_s + peers * (one_shot.hop * latency_s + size / (bandwidth * one_shot.efficiency))
    if two_shot is not None:
        wire_s = 2 * peers / n * size / (bandwidth * two_shot.efficiency)
        time_s = smaller(time_s, two_shot.launch_s + larger(peers * two_shot.hop * latency_s, wire_s))
    if multicast is not None and anywhere(n >= MULTICAST_MIN_RANKS):
        wire_s = (1 + 1 / n) * size / (bandwidth * multicast.efficiency)
        cast_s = multicast.launch_s + larger(peers * multicast.hop * latency_s, wire_s)
        time_s = smaller(time_s, either(n >= MULTICAST_MIN_RANKS, cast_s, np.inf))
    return time_s


THREAD_BYTES = 16
"""Bytes of each rank that a thread adds."""
WARP = 32
MOST_THREADS = 1024
"""Threads of a block."""
MOST_BLOCKS = 24
FEW_RANKS = 4
ONE_SHOT_BYTES = (1e6, 5e5)
"""Messages from which two shots are taken: among up to ``FEW_RANKS``, and among more."""
MOST_BYTES = 8e6
"""The buffer the ranks share; longer messages go to NCCL."""


def even_blocks_time(size: Number, n: Number, nodes: Number, block_bandwidth: float) -> Number:
    """Return the seconds that the blocks of a sum need to load it, 0 where it is not made in two shots.

    Each rank's share is added up, then read by all: 2 (n - 1) / n S over blocks x ``block_bandwidth``, what one of them
    takes in from its peers. What the link carries is a matter of ``custom_all_reduce_time``.
    """
    least = np.where(np.less_equal(n, FEW_RANKS), *ONE_SHOT_BYTES)
    used = np.greater(n, 2) & np.equal(nodes, 1) & np.greater_equal(size, least) & np.less_equal(size, MOST_BYTES)
    if not used.any():
        return 0.0
    threads = np.where(used, np.ceil(size / (THREAD_BYTES * WARP * n)) * WARP, WARP)
    blocks = np.array([_blocks(int(x)) for x in threads.flat]).reshape(threads.shape)
    loaded_s: Number = np.where(used, 2.0 * (n - 1.0) / n * size / (blocks * block_bandwidth), 0.0)
    return loaded_s


@cache
def _blocks(threads: int) -> int:
    """Blocks that share so many threads evenly: the fewest that are not too large, or a divisor of too many."""
    blocks = next(b for b in count(-(-threads // MOST_THREADS)) if threads % b == 0)
    return blocks // next(f for f in count(-(-blocks // MOST_BLOCKS)) if blocks % f == 0)


NVLS_MIN_RANKS = 5
"""Ranks from which adding in the switch pays: with 4, 1 + 1/n bytes are hardly fewer than 2 (n-1)/n."""


class _Route(NamedTuple):
    """What an algorithm moves, per device over its link and per node over the network."""

    link_bytes: Number
    link_hops: Number
    network_bytes: Number
    network_hops: Number


class _Wires(NamedTuple):
    """The links as the group sees them."""

    bandwidth: Number
    latency_s: Number
    network_bandwidth: Number
    network_latency_s: Number


def collective_time(
    kind: str,
    bytes: Number,
    *,
    group: Group,
    cluster: Links,
    constants: CollectiveConstants,
    across: Number = 1.0,
) -> Number:
    """Return the seconds of one collective over ``group``; exactly 0 for a group of one.

    The least over algorithms and protocols of
    ``launch + link hops x latency + network hops x latency + max(link bytes / B, network bytes / W)``,
    where B and W are datasheet bandwidths times the protocol's efficiency. ``bytes`` is the buffer as nccl-tests
    reports it: all_reduce, broadcast, reduce, send_recv: the message; all_gather: the gathered output; reduce_scatter:
    the input; all_to_all: one rank's buffer, of which ``across`` is the part that crosses the network once where
    several ranks of a node want it. Leaves out stragglers, and contention with
    compute and other jobs.
    """
    if kind not in COLLECTIVES:
        raise InputError(f"unknown collective '{kind}'{nearest(kind, COLLECTIVES)}; allowed: {', '.join(COLLECTIVES)}")
    if cluster.intra_node.beyond is not None and constants.beyond is not None:
        return _paired_time(kind, bytes, group, cluster, constants)
    n, r = group.size, group.ranks_per_node
    if not anywhere(n != 1):
        return 0.0 * bytes
    nodes = -(-n // r)
    fitted = constants.kinds[kind]
    wires = _wires(kind, group, cluster, fitted, shared=bool(constants.measured))
    chunk = bytes / n if kind == "all_to_all" else None
    ring = _along_torus(kind, _ring(kind, bytes, n, r, nodes), r, nodes, cluster)
    rail_bytes = bytes * handed_over(kind, n, r, cluster.network)
    ring = ring._replace(network_bytes=across * ring.network_bytes, link_bytes=ring.link_bytes + rail_bytes)
    time_s = _least_time(ring, fitted, wires, constants, 1.0, fitted.local * bytes / n, chunk)
    if kind == "all_reduce":
        if anywhere(nodes > 1):
            tree = _least_time(_tree(bytes, r, nodes), fitted, wires, constants, constants.network.tree, 0.0)
            time_s = smaller(time_s, tree)
        if cluster.intra_node.in_network_reduction and "nvls" in constants.kinds:
            time_s = smaller(time_s, _nvls_time(bytes, n, nodes, wires, constants.kinds["nvls"]))
        if constants.custom is not None:
            kernel_s = custom_all_reduce_time(bytes, n, nodes, wires.bandwidth, wires.latency_s, constants.custom)
            time_s = smaller(time_s, kernel_s)
            if constants.custom.block_bandwidth is not None:
                time_s = larger(time_s, even_blocks_time(bytes, n, nodes, constants.custom.block_bandwidth))
    return either(n == 1, 0.0, time_s)


def _paired_time(kind: str, bytes: Number, group: Group, cluster: Links, constants: CollectiveConstants) -> Number:
    """Seconds where bridges join pairs of devices: a node's two ranks use theirs, more of them meet over PCIe."""
    pair_s = collective_time(kind, bytes, group=group, cluster=over_bridge(cluster), constants=constants)
    far, constants_far = cluster.intra_node.beyond, constants.beyond
    if np.max(group.ranks_per_node) <= 2 or far is None or constants_far is None:
        return pair_s
    beyond = past_bridges(cluster, far, kind)
    beyond_s = collective_time(kind, bytes, group=group, cluster=beyond, constants=constants_far)
    return np.where(np.greater(group.ranks_per_node, 2), beyond_s, pair_s)


def _along_torus(kind: str, route: _Route, r: Number, nodes: Number, cluster: Links) -> _Route:
    """The route with a torus's hops: along all its dimensions at once instead of through all ranks in turn."""
    link = cluster.intra_node
    if link.topology != "torus" or kind == "send_recv":
        return route
    passes = 2 if kind == "all_reduce" else 1
    return route._replace(link_hops=passes * nodes * steps(r, cluster.per_node, link))


def _wires(kind: str, group: Group, cluster: Links, fitted: KindConstants, *, shared: bool) -> _Wires:
    """Bandwidths and latencies as the group's ranks find them; its share of the network counts all its ports.

    Links that meet in the host share its root, by what their server was measured to leave them. Without peer-to-peer
    access every byte is written to and read from host memory, as fast as the host exchanges data with one device, and
    all ranks together as its memory allows: eight RTX 5090 on two Xeon 8480 reach 28 GB/s and four 35 GB/s
    (NVIDIA/nccl#1639), 25 and 33 here. In a full mesh a device has one link per peer of a full node, so a smaller group
    uses only some of them; a torus gives the dimensions that the group spans, of which a pair's message takes one link.
    The fabric between nodes may carry less than their ports.
    """
    link, r = cluster.intra_node, group.ranks_per_node
    bandwidth = link.bandwidth
    if link.topology == "pcie":
        if shared or link.peer_to_peer or link.shares is not None:
            bandwidth = bandwidth * fitted.share(r)
        if not link.peer_to_peer:
            in_memory = cluster.host.memory_bandwidth / (2.0 * r)
            bandwidth = smaller(smaller(bandwidth, cluster.host.device_bandwidth), in_memory)
    elif link.topology == "full-mesh":
        bandwidth = bandwidth * larger(1, r - 1) / max(1, cluster.per_node - 1, cluster.full_node - 1)
    elif link.topology == "ring":
        bandwidth = bandwidth * smaller(1.0, 0.5 * larger(1, r - 1))
    elif link.topology == "torus":
        bandwidth = bandwidth * torus_share(kind, r, cluster.per_node, link)
    sharing = cluster.per_node / r if group.sharing is None else group.sharing
    network = cluster.network
    ports = network.bandwidth_per_node / sharing / slowdown(kind, -(-group.size // r), network, group.stride)
    return _Wires(bandwidth, link.latency_s, ports, network.latency_s)


def _ring(kind: str, size: Number, n: Number, r: Number, m: Number) -> _Route:
    """A ring through all ranks that enters and leaves each node once; point to point for the last two kinds.

    Reduce-scatter and all-gather pass (n-1)/n S over every link in n - 1 steps, of which m - 1 cross the network;
    all-reduce is both. All-to-all sends 1/n of the buffer to every peer at once.
    """
    across, inside = 1.0 * (m > 1), 1.0 * (r > 1)
    if kind == "all_to_all":
        return _Route((r - 1) / n * size, n - 1, r * (n - r) / n * size * across, across)
    if kind == "send_recv":
        return _Route(size * inside, inside, size * across, across)
    if kind in ("broadcast", "reduce"):
        return _Route(size * inside, n - m, size * across, m - 1)
    passes = 2 if kind == "all_reduce" else 1
    volume = passes * (n - 1) / n * size
    return _Route(volume * inside, passes * (n - m), volume * across, passes * (m - 1))


def _tree(size: Number, r: Number, m: Number) -> _Route:
    """Up and down a double binary tree of nodes, each a chain of its devices: 2 (m-1)/m S per node, 2 log2(m) hops."""
    depth = np.ceil(np.log2(m)) if isinstance(m, np.ndarray) else (int(m) - 1).bit_length()
    return _Route(2 * size * (r > 1), 2 * (r - 1), 2 * (m - 1) / m * size, 2 * depth)


def _least_time(
    route: _Route,
    fitted: KindConstants,
    wires: _Wires,
    constants: CollectiveConstants,
    network_share: float,
    local_bytes: Number,
    chunk: Number | None = None,
) -> Number:
    """Seconds by the fastest protocol.

    ``chunk`` is set where the protocol of least latency serves all peers side by side (all-to-all): a peer's chunk
    takes the protocol's rate, and all of them together no more than the link gives.
    """
    link_bytes = route.link_bytes + local_bytes
    best: Number = np.inf
    for inside, outside in zip(fitted.protocols, constants.network.protocols, strict=True):
        if chunk is None or inside is not fitted.protocols[0]:
            wire_s = link_bytes / (wires.bandwidth * inside.efficiency)
        else:
            floor_s = link_bytes / (wires.bandwidth * fitted.protocols[-1].efficiency)
            wire_s = larger(floor_s, chunk / (wires.bandwidth * inside.efficiency))
        network_s = route.network_bytes / (wires.network_bandwidth * outside.efficiency * network_share)
        time_s = (
            inside.launch_s
            + route.link_hops * (inside.hop * wires.latency_s)
            + route.network_hops * (outside.hop * wires.network_latency_s)
            + larger(wire_s, network_s)
        )
        best = smaller(best, time_s)
    return best


def _nvls_time(size: Number, n: Number, m: Number, wires: _Wires, fitted: KindConstants) -> Number:
    """Seconds of an all-reduce that the switch adds and multicasts: (1 + 1/n) S over each link, two hops.

    Infinite where the group spans nodes or is too small for it.
    """
    (protocol,) = fitted.protocols
    wire_s = (1 + 1 / n) * size / (wires.bandwidth * protocol.efficiency)
    time_s = protocol.launch_s + 2 * protocol.hop * wires.latency_s + wire_s
    return either((m == 1) & (n >= NVLS_MIN_RANKS), time_s, np.inf)


def price_collectives(alike: Alike, on: Ranks) -> OperatorCost:
    """Collectives of one kind and group mostly carry the same buffer, so that each distinct one is priced once."""
    first, by_buffer, times = alike.first, {}, []
    group = on.group(first.ranks)
    for op in alike.operators:
        key = (op.choices, identity(op.buffer_bytes))
        if key not in by_buffer:
            by_buffer[key] = collective_time(
                first.kind,
                op.buffer_bytes,
                group=group,
                cluster=on.cluster,
                constants=on.library,
                across=_across(op.choices, group),
            )
        times.append(by_buffer[key])
    nothing = [0.0 * time_s for time_s in times]
    return OperatorCost(times, nothing, nothing)  # type: ignore[arg-type]


def _across(choices: tuple[float, float, float] | None, group: Group) -> Number:
    """Copies that cross the network of those for each rank, where a node's ranks share one."""
    if choices is None:
        return 1.0
    chosen, of, share = choices
    nodes = -(-group.size // group.ranks_per_node)
    reached = distinct_ranks(of, chosen, group.size, group_share=share)
    return distinct_ranks(of, chosen, nodes, group_share=share) / reached
