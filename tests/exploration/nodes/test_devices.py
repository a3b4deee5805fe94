"""Devices of every node and memory at one area and power."""

import numpy as np
import pytest

from sightline.exploration.node_times import AXES, POWER_W, SITES, Choices, Fabric, devices

CHOICES = Choices(nodes=("12nm", "7nm", "1nm"), memories=("hbm2", "hbm4"), l2_shares=(0.1, 0.3), stacks=(2, 4))
FABRIC = Fabric(link="nvlink3", network="infiniband-hdr")


@pytest.fixture(scope="module", params=["vendor", "ideal"])
def found(request):
    return devices(CHOICES, request.param, FABRIC)


def test_newer_nodes_compute_more_at_the_same_power(found):
    peak = found.device.peak_flops["bf16"]
    assert peak.ndim == len(AXES)
    assert (np.diff(peak, axis=AXES.index("node")) > 0).all()
    assert (found.device.tdp_w <= POWER_W * (1 + 1e-9)).all()
    assert found.buildable.all()


def test_stacks_go_to_what_can_be_built_and_no_further(found):
    most = np.broadcast_to(found.most_stacks, found.stacks.shape[1:])
    assert (found.stacks[-1] == most).all()
    assert (found.stacks <= most).all()
    assert (most <= SITES).all()


def test_area_of_l2_is_taken_from_the_units(found):
    along = AXES.index("l2_share")
    assert (np.diff(found.device.peak_flops["bf16"], axis=along) < 0).all()
    assert (np.diff(found.device.l2_bandwidth, axis=along) > 0).all()


def test_stacks_add_bandwidth_and_capacity(found):
    along = AXES.index("stacks")
    for values in (found.device.memory_bandwidth, found.device.memory_bytes):
        assert (np.diff(np.broadcast_to(values, found.buildable.shape), axis=along) > 0).all()
