"""Fit what collectives reach between nodes, given the constants inside one."""

from collections.abc import Mapping

import numpy as np

from sightline.calibration.collective_tables import CollectiveTable
from sightline.calibration.fits.robust_fit import Vector, robust_fit
from sightline.calibration.parts.collectives import TYPICAL_NETWORK, Errors, MeasuredNode, errors, predicted
from sightline.cost.collectives.constants import KindConstants, NetworkConstants, NetworkProtocol


def fit_network(
    table: CollectiveTable, node: MeasuredNode, kinds: Mapping[str, KindConstants]
) -> tuple[NetworkConstants, Errors]:
    """Return what all-reduces across nodes say of the network, given the constants inside a node.

    One sweep cannot tell the bandwidth of ports from the share of it that is reached: ``node`` says the former. Nor
    can it tell hops of one protocol inside from hops outside, so no constant moves further from ``TYPICAL_NETWORK``
    than by half.
    """
    typical = TYPICAL_NETWORK
    centre = np.array([x for p in typical.protocols for x in (p.hop, p.efficiency)] + [typical.tree])
    least, most = centre / 1.5, np.minimum(centre * 1.5, [np.inf, 0.95] * 3 + [0.95])

    def constants(values: Vector) -> NetworkConstants:
        protocols = tuple(NetworkProtocol(hop=float(h), efficiency=float(e)) for h, e in values[:6].reshape(3, 2))
        return NetworkConstants(protocols=protocols, tree=float(values[6]))

    def model(values: Vector) -> Vector:
        return predicted(table, node, kinds, constants(values))

    network = constants(robust_fit(model, table.seconds, centre, least, most, [np.log(centre)]))
    return network, errors(table, node, kinds, network)
