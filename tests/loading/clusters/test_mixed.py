"""``cluster.devices`` as a list."""

import json
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load, to_mapping
from sightline.loading.clusters import read_cluster

A100, H100 = "8x a100-sxm-80gb", "16x h100-sxm-80gb"


def test_every_group_has_the_nodes_of_its_device() -> None:
    cluster = read_cluster({"devices": [A100, H100]})
    assert (cluster.devices, cluster.nodes) == (24, 3)
    assert [group.devices for group in cluster.groups] == [8, 16]
    assert [group.intra_node.name for group in cluster.groups] == ["nvlink3", "nvlink4"]
    assert cluster.in_words == "8 x a100-sxm-80gb + 16 x h100-sxm-80gb"
    assert cluster.name == "8x a100-sxm-80gb + 16x h100-sxm-80gb"


def test_the_slowest_network_joins_the_groups_unless_one_is_stated() -> None:
    slow, fast = (read_cluster(name).network for name in (A100, H100))
    assert slow.bandwidth_per_node < fast.bandwidth_per_node
    cluster = read_cluster({"devices": [H100, A100]})
    assert cluster.network.bandwidth_per_node == slow.bandwidth_per_node
    own = [group.network.bandwidth_per_node for group in cluster.groups]
    assert own == [fast.bandwidth_per_node, slow.bandwidth_per_node]
    stated = read_cluster({"devices": [A100, H100], "network": {"bandwidth_per_node": "12.5 GB/s", "latency": "9 us"}})
    assert {part.network.bandwidth_per_node for part in (stated, *stated.groups)} == {12.5e9}


def test_a_group_may_state_what_it_has_of_its_own() -> None:
    special = {"devices": "8x a100-sxm-80gb", "per_node": 4, "intra_node": "pcie4", "power_cap": "300 W"}
    cluster = read_cluster({"devices": [special, H100], "host": {"launch_time": "3 us"}, "name": "the old and the new"})
    old, new = cluster.groups
    assert (old.per_node, new.per_node, old.intra_node.name) == (4, 8, "pcie4")
    assert (old.power_cap_w, new.power_cap_w) == (300.0, None)
    assert old.host.launch_time_s == new.host.launch_time_s == 3e-6
    assert cluster.name == "the old and the new"


def test_neighbours_of_the_same_make_are_one_group() -> None:
    whole = read_cluster("32x h100-sxm-80gb")
    joined = read_cluster({"devices": [H100, H100]})
    assert (joined.groups, joined.devices, joined.name) == ((), 32, whole.name)
    assert len(read_cluster({"devices": [H100, A100, H100]}).groups) == 3


def test_other_names_of_devices_are_understood_and_said() -> None:
    work = {"task": "pretrain", "sequence_length": 4096, "global_batch": 16}
    scenario = load({"model": "llama-3-8b", "cluster": {"devices": [A100, "8x H100"]}, "workload": work})
    assert scenario.cluster.groups[1].device.name == "h100-sxm-80gb"
    assert any("h100-sxm-80gb" in remark for remark in scenario.warnings)


def test_what_is_written_loads_as_the_same() -> None:
    scenario = load(
        {
            "model": "llama-3-8b",
            "cluster": {"devices": [A100, {"devices": H100, "per_node": 4}], "power_cap": "350 W"},
            "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 48},
        }
    )
    again = load(json.dumps(to_mapping(scenario)))
    assert to_mapping(again) == to_mapping(scenario)
    assert [part.per_node for part in again.cluster.groups] == [8, 4]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"devices": []}, "cluster.devices has 0 entries; allowed: 1 to 32"),
        ({"devices": [A100, "8x h10"]}, "cluster.devices[1]: cluster.device is 'h10'"),
        ({"devices": [A100, 8]}, "cluster.devices[1] is 8; allowed: '<count>x <device>'"),
        ({"devices": [A100, {"devices": [H100]}]}, "cluster.devices[1] is"),
        ({"devices": [A100, "2x this-machine"]}, "this-machine"),
        ({"devices": [A100, H100], "intra": "nvlink4"}, "did you mean 'intra_node'?"),
        ({"devices": [A100, H100], "device": "l40s-48gb"}, "cluster.device cannot be set"),
        ({"devices": [A100, {"devices": H100, "per_nod": 4}]}, "did you mean 'per_node'?"),
    ],
)
def test_refusals(value: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster(value)
    assert sentence in str(caught.value)
