"""PCIe of a server whose shared roots are known, in place of those of the machine that the family was measured on."""

from dataclasses import replace

import pytest

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import cluster_collectives, load_collectives, tensor_group
from sightline.loading import generation_from_mapping
from sightline.loading.clusters import read_cluster


def cluster(intra_node):
    mapping = {
        "model": "llama-2-70b",
        "cluster": {"device": "l40s-48gb", "devices": 8, "intra_node": intra_node},
        "workload": {"task": "generate", "batch": 1, "prompt_tokens": 8, "output_tokens": 8},
        "plan": {"framework": "tensorrt-llm", "tensor_parallel": 8},
    }
    return generation_from_mapping(mapping).cluster


def all_reduce_s(on, ranks, size=2.0**25):
    library = cluster_collectives(on)
    return float(collective_time("all_reduce", size, group=tensor_group(ranks, on), cluster=on, constants=library))


def test_a_server_with_shares_of_its_own_does_not_take_the_familys():
    known, measured = cluster("pcie4-l40s-server"), cluster("pcie4")
    assert all_reduce_s(known, 8) < 0.3 * all_reduce_s(measured, 8)
    assert all_reduce_s(known, 2) == pytest.approx(all_reduce_s(measured, 2))


@pytest.mark.parametrize("share", [1.0, 0.5, 0.25])
def test_long_messages_take_as_much_longer_as_the_share_is_smaller(share):
    link = cluster("pcie4-l40s-server").intra_node
    whole = replace(cluster("pcie4"), intra_node=replace(link, shares={2: 1.0, 8: 1.0}))
    shared = replace(whole, intra_node=replace(link, shares={2: 1.0, 8: share}))
    ratio = all_reduce_s(shared, 8, 2.0**30) / all_reduce_s(whole, 8, 2.0**30)
    assert ratio == pytest.approx(1.0 / share, rel=0.02)


@pytest.mark.parametrize(("slow", "fast", "ratio"), [("a100-pcie-80gb", "rtx-6000-ada", 2.506 / 1.411)])
def test_launches_that_several_devices_lend_are_cycles_of_the_borrower(slow, fast, ratio):
    libraries = [cluster_collectives(read_cluster(f"2x {device}")) for device in (slow, fast)]
    launches = [library.kinds["all_reduce"].protocols[0].launch_s for library in libraries]
    assert launches[0] / launches[1] == pytest.approx(ratio, rel=1e-3)
    hops = [library.kinds["all_reduce"].protocols[0].hop for library in libraries]
    assert hops[0] == hops[1]


def test_launches_of_a_familys_own_table_stay():
    own = cluster_collectives(read_cluster("2x l40s-48gb")).kinds
    assert own == load_collectives("l40s").kinds


def test_no_device_is_taken_to_run_faster_than_any_does():
    (fast, stated) = cluster_collectives(read_cluster("4x trainium2")), load_collectives("generic")
    launch, at_reference = (library.kinds["all_gather"].protocols[0].launch_s for library in (fast, stated))
    assert launch / at_reference == pytest.approx(1.75 / 2.9)
