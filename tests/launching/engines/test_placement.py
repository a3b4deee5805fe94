"""Where servers run: on devices of one node, or on whole nodes of one kind."""

from collections import Counter
from typing import Any

import pytest
from generation_scenarios import generation
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching.engines.servers import placed


def servers(cluster: Any, plan: dict[str, Any]) -> Any:
    return placed(generation(cluster=cluster, batch=1000, plan={"framework": "vllm", **plan}))


@given(st.sampled_from([1, 2, 4, 8, 16, 32]), st.sampled_from([1, 2, 3]))
def test_servers_fill_nodes_without_sharing_a_device(tensor_parallel, replicas):
    devices = tensor_parallel * replicas
    found = servers(f"{devices}x a100-sxm-80gb", {"tensor_parallel": tensor_parallel, "replicas": replicas})
    taken = Counter(
        (server.node + rank, server.first + n)
        for server in found
        for rank in range(server.nodes)
        for n in range(server.per_node)
    )
    assert len(taken) == devices == sum(taken.values())
    assert [server.number for server in found] == list(range(replicas))
    assert all(server.first + server.per_node <= 8 for server in found)


def test_servers_that_leave_devices_over_are_refused():
    with pytest.raises(InputError, match="servers of 6 devices do not fit whole onto nodes of 8"):
        servers("24x a100-sxm-80gb", {"tensor_parallel": 2, "pipeline_parallel": 3, "replicas": 4})


def test_prefill_and_decode_have_servers_of_their_own():
    pools = {"prefill": {"tensor_parallel": 2, "replicas": 4}, "decode": {"tensor_parallel": 8}}
    found = servers("16x h100-sxm-80gb", {"disaggregate": pools})
    assert [(server.role, server.node, server.devices) for server in found] == [
        ("prefill", 0, "0,1"),
        ("prefill", 0, "2,3"),
        ("prefill", 0, "4,5"),
        ("prefill", 0, "6,7"),
        ("decode", 1, "0,1,2,3,4,5,6,7"),
    ]


def test_devices_of_other_makers_have_their_own_variable():
    (server,) = servers("8x mi300x", {"tensor_parallel": 8})
    assert server.variable == "HIP_VISIBLE_DEVICES"


@pytest.mark.parametrize(("device", "node"), [("h100-sxm-80gb", 1), ("a100-sxm-80gb", 0)])
def test_pools_on_unlike_devices_have_their_own(device, node):
    pools = {"prefill": {"tensor_parallel": 8, "device": device}, "decode": {"tensor_parallel": 8}}
    found = servers({"devices": ["8x a100-sxm-80gb", "8x h100-sxm-80gb"]}, {"disaggregate": pools})
    assert {server.role: server.node for server in found} == {"prefill": node, "decode": 1 - node}


def test_replicas_stay_on_devices_of_one_kind():
    found = servers({"devices": ["4x a100-sxm-80gb", "8x h100-sxm-80gb"]}, {"tensor_parallel": 4})
    assert [(server.node, server.devices) for server in found] == [(0, "0,1,2,3"), (1, "0,1,2,3"), (1, "4,5,6,7")]
