"""Links of the catalog: those of a device add up to its interconnect, those of a node to its network."""

from itertools import pairwise

import pytest

from sightline.catalog import entry, names
from sightline.quantities import BYTES_PER_SECOND, parse_quantity
from sightline.technology.parts import link

INTERCONNECTS = {
    **{f"nvlink{n}": f"nvlink{n}" for n in range(1, 7)},
    **{f"pcie{n}": f"pcie{n}" for n in range(3, 8)},
    "xgmi3": "xgmi-mi300x",
    "xgmi4": "xgmi-mi355x",
}
NETWORKS = {f"infiniband-{rate}": f"infiniband-{rate}" for rate in ("edr", "hdr", "ndr", "xdr", "gdr")}
PORTS = {f"ethernet-{rate}": f"ethernet-{rate}" for rate in ("100g", "200g", "400g", "800g", "1600g")}


@pytest.mark.parametrize("name", names("links"))
def test_every_link_is_of_the_right_order(name):
    found = link(name)
    assert 10e9 < found.bandwidth < 6e12
    assert 0.1e-12 < found.energy_j_per_bit < 40e-12
    assert 0.1e-3 < found.edge_m < 30e-3
    assert 0.1e-6 < found.area_m2 < 60e-6
    assert 1e-9 < found.latency_s < 5e-6
    assert 1e9 <= found.bandwidth * 8 / found.lanes <= 400e9


@pytest.mark.parametrize(("name", "interconnect"), INTERCONNECTS.items())
def test_the_links_of_a_device_are_its_interconnect(name, interconnect):
    published = parse_quantity(entry("interconnects", interconnect)["bandwidth"], BYTES_PER_SECOND)
    assert link(name).usual_count * link(name).bandwidth == pytest.approx(published)


@pytest.mark.parametrize(("name", "network"), (NETWORKS | PORTS).items())
def test_the_ports_of_a_node_are_its_network(name, network):
    ports = 8 if name in NETWORKS else 1
    published = parse_quantity(entry("networks", network)["bandwidth_per_node"], BYTES_PER_SECOND)
    assert ports * link(name).bandwidth == pytest.approx(published)


def test_the_farther_a_link_reaches_the_more_a_bit_takes():
    for nearer, farther in pairwise(("ucie-advanced", "nvlink-c2c", "nvlink5", "infiniband-xdr")):
        assert link(nearer).energy_j_per_bit < link(farther).energy_j_per_bit
    assert link("co-packaged-optics").energy_j_per_bit < link("ethernet-1600g").energy_j_per_bit
