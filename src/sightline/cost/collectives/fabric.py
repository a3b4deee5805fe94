"""Tori: devices joined to their neighbours along two or three dimensions, closed to rings where these are long enough.

Symbols: ``B`` bytes per second that all links of a device send, ``D`` dimensions, ``b = B / 2 D`` one link, ``k`` ranks
of the group along a dimension. A group is taken to be a block of neighbours that fills one dimension after the other.
Collectives run along all dimensions at once, each with its part of the data (Jain & Sabharwal 2010; Google's "How to
Scale Your Model"): a closed dimension gives both its links, an open one only half of what they could carry. An
all-to-all is bound by the links in the middle: every rank's data travel k/4 links of a ring on average, and an open
line of k ranks sends a quarter of k ranks' data over the one link in its middle. Left out: other jobs' traffic, and
dimensions of unequal length, which finish at different times.

What the shape of the network between nodes costs: where it has fewer links than its nodes have ports.

A fat tree without oversubscription carries whatever the ports send. Rings and trees of collectives leave a switch once
per switch, so uplinks rarely bind them; an all-to-all sends most of its bytes to other switches. Rails (one switch per
device of the node) keep rings on their rail, while an all-to-all first hands data to the device on the receiver's rail
(NCCL's PXN). A dragonfly is priced as groups with fewer links between them than within, taken the shortest way. Stages
of a pipeline lie many nodes apart, so what they hand over leaves the switch. Where uplinks are chosen by a hash of the
connection (ECMP) some carry several and others none. Left out: other jobs (a larger `oversubscription` states their
share), how ranks are placed.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from sightline.quantities import Number, larger, smaller
from sightline.scenario import Interconnect, Network


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
    found, rest = [], np.asarray(ranks, dtype=float)
    for length in torus_shape(per_node, link.dimensions):
        along = np.minimum(rest, float(length))
        wraps = length % link.closes_at == 0
        found.append(Extent(ranks=along, closed=1.0 * ((along == length) & wraps)))
        rest = np.ceil(rest / along)
    return found


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
