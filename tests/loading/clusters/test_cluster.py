from typing import Any

import pytest

from sightline import catalog
from sightline.errors import InputError
from sightline.loading.clusters import forgotten_units, read_cluster
from sightline.loading.clusters.cluster import read_as

INLINE_DEVICE: dict[str, Any] = {
    "name": "x1",
    "peak_flops": {"bf16": "100 TFLOP/s"},
    "memory": "32 GB",
    "memory_bandwidth": "1 TB/s",
    "l2": "8 MiB",
    "l2_bandwidth": "3 TB/s",
    "compute_units": 64,
    "tdp": "200 W",
    "idle_power": 0,
    "vector_flops": "10 TFLOP/s",
}
LINKS: dict[str, Any] = {
    "intra_node": {"bandwidth": "50 GB/s", "latency": "3 us", "topology": "ring"},
    "network": {"bandwidth_per_node": "100 Gbit/s", "latency": "5 us"},
    "host": {"launch_time": "6 us"},
}


def problems(value: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_cluster(value)
    return str(caught.value)


@pytest.mark.parametrize("device", catalog.names("devices"))
def test_every_device_of_the_catalog_makes_a_cluster(device: str) -> None:
    cluster = read_cluster(f"2x {device}")
    assert (cluster.devices, cluster.device.name) == (2, device)
    assert set(cluster.sources) == {"device", "intra_node", "network", "host"}


@pytest.mark.parametrize("name", catalog.names("clusters"))
def test_every_cluster_of_the_catalog_loads(name: str) -> None:
    assert read_cluster(name).name == name


@pytest.mark.parametrize("kind", ["interconnects", "networks", "hosts"])
def test_every_part_of_the_catalog_loads(kind: str) -> None:
    key = {"interconnects": "intra_node", "networks": "network", "hosts": "host"}[kind]
    for name in catalog.names(kind):
        assert getattr(read_cluster({"devices": "8x a100-sxm-80gb", key: name}), key).name == name


@pytest.mark.parametrize("text", ["16x a100-sxm-80gb", "16 x a100-sxm-80gb", "16X a100-sxm-80gb", "16×a100-sxm-80gb"])
def test_count_and_device(text: str) -> None:
    cluster = read_cluster(text)
    assert (cluster.devices, cluster.per_node, cluster.nodes) == (16, 8, 2)
    assert (cluster.intra_node.name, cluster.network.name) == ("nvlink3", "infiniband-hdr")
    assert cluster.device.memory_bytes == 80 * 2**30
    assert cluster.intra_node.bandwidth == 300e9


def test_fewer_than_a_node_is_one_node() -> None:
    cluster = read_cluster("4x a100-sxm-80gb")
    assert (cluster.per_node, cluster.nodes) == (4, 1)


def test_inline_changes_keep_the_rest_of_the_usual_server() -> None:
    cluster = read_cluster(
        {
            "devices": "16x a100-sxm-80gb",
            "per_node": 4,
            "intra_node": "nvlink4",
            "network": {"bandwidth_per_node": "50 GB/s"},
            "host": {"launch_time": "6 us"},
            "device": {"memory_bandwidth": "4 TB/s", "peak_flops": {"fp8": "1 PFLOP/s"}},
            "power_cap": "300 W",
            "name": "mine",
        }
    )
    assert (cluster.name, cluster.nodes, cluster.intra_node.name, cluster.power_cap_w) == ("mine", 4, "nvlink4", 300.0)
    assert (cluster.network.bandwidth_per_node, cluster.network.latency_s) == (50e9, 5e-6)
    assert (cluster.host.launch_time_s, cluster.host.cores) == (6e-6, 128)
    assert (cluster.device.memory_bandwidth, cluster.device.memory_bytes) == (4e12, 80 * 2**30)
    assert (cluster.device.peak_flops["fp8"], cluster.device.peak_flops["bf16"]) == (1e15, 312e12)
    assert cluster.sources["network"] == "stated in the scenario"


def test_changes_over_a_cluster_of_the_catalog() -> None:
    cluster = read_cluster({"same_as": "jean-zay-a100", "devices": 16, "network": {"latency": "1 us"}})
    assert (cluster.devices, cluster.device.name) == (16, "a100-sxm-80gb")
    assert (cluster.network.name, cluster.network.latency_s) == ("omni-path-100-4", 1e-6)
    assert read_cluster("jean-zay-a100").network.latency_s != 1e-6


def test_another_part_of_the_catalog_with_a_change() -> None:
    cluster = read_cluster({"devices": "8x a100-sxm-80gb", "network": {"same_as": "roce-1600", "latency": "9 us"}})
    assert (cluster.network.name, cluster.network.latency_s) == ("roce-1600", 9e-6)


def test_everything_written_out() -> None:
    cluster = read_cluster({"devices": 4, "per_node": 2, "device": INLINE_DEVICE} | LINKS)
    assert (cluster.name, cluster.nodes, cluster.device.calibration) == ("4x x1", 2, "generic")
    assert (cluster.network.bandwidth_per_node, cluster.intra_node.peer_to_peer) == (12.5e9, True)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        ("64 h100", "64x h100"),
        ("64h100", "64x h100"),
        ({"devices": "8 4090"}, "8x 4090"),
        ("2x dgx-h100", "16x h100-sxm-80gb"),
        ("v5p-256", "128x tpu-v5p"),
        ("tpu7x-8", "4x tpu-v7x"),
        ({"devices": "v4-64"}, "32x tpu-v4"),
        ("v6e-256", "256x tpu-v6e"),
        ("v5litepod-16", "16x tpu-v5e"),
    ],
)
def test_counts_that_can_mean_one_thing_are_read(value: Any, same: str) -> None:
    read, expected = read_cluster(value), read_cluster(same)
    assert (read.devices, read.per_node, read.counted) == (expected.devices, expected.per_node, expected.counted)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("h100 x 8", "did you mean '8x h100'?"),
        ("h100:8", "did you mean '8x h100'?"),
        ("2x hgx-h100", "did you mean 'h100-sxm-80gb'?"),
        ("8x a900-sxm-80gb", "cluster.device is 'a900-sxm-80gb'"),
        ("8x a900-sxm-80gb", "did you mean 'a800-sxm-80gb'?"),
        ("a100-sxm-80gb", "did you mean '1x a100-sxm-80gb'?"),
        ({"devices": "a100-sxm-80gb"}, "did you mean '1x a100-sxm-80gb'?"),
        ("selen", "did you mean 'selene'?"),
        ("0x a100-sxm-80gb", "cluster.devices is '0x a100-sxm-80gb'; allowed: 1 to 10000000"),
        ("99999999999x a100-sxm-80gb", "allowed: 1 to 10000000"),
        ("0x this-machine", "cluster.devices is '0x this-machine'; allowed: 1 to 1024"),
        ({}, "cluster.devices is missing"),
        ({"devices": 8}, "cluster.device is missing; needed: "),
        ({"devices": "8x a100-sxm-80gb", "devices_per_node": 4}, "cluster.devices_per_node is not a known key"),
        ({"devices": "8x a100-sxm-80gb", "per_node": 0}, "cluster.per_node is 0"),
        ({"devices": "8x a100-sxm-80gb", "network": "infinibnd-hdr"}, "cluster.network is 'infinibnd-hdr'; allowed:"),
        ({"devices": "8x a100-sxm-80gb", "network": "400 Gbit/s"}, "{bandwidth_per_node: 400 Gbit/s}"),
        ({"devices": "8x a100-sxm-80gb", "intra_node": "300 GB/s"}, "{bandwidth: 300 GB/s}"),
        ("v5p-7", "cluster is 'v5p-7'; allowed:"),
        (
            {"devices": "8x a100-sxm-80gb", "network": {"latency": "5 GB"}},
            "cluster.network.latency is '5 GB'",
        ),
        ({"devices": "8x a100-sxm-80gb", "intra_node": {"topology": "mesh"}}, "did you mean 'full-mesh'?"),
        ({"devices": "8x a100-sxm-80gb", "host": 3}, "cluster.host is 3"),
        (
            {"devices": "8x a100-sxm-80gb", "power_cap": "50 W"},
            "cluster.power_cap is 50 W",
        ),
        (
            {"devices": "8x a100-sxm-80gb", "device": {"memry": 1}},
            "cluster.device.memry is not a known key - did you mean 'memory'?",
        ),
        (
            {"devices": "8x a100-sxm-80gb", "device": {"peak_flops": 3}},
            "cluster.device.peak_flops is 3",
        ),
        (
            {"devices": "8x a100-sxm-80gb", "device": {"peak_flops": {"bf16": "3 TB"}}},
            "cluster.device.peak_flops.bf16 is '3 TB'",
        ),
        (
            {"devices": "8x a100-sxm-80gb", "device": {"server": [1]}},
            "cluster.device.server is not a known key",
        ),
        ({"devices": "8x a100-sxm-80gb", "device": {"calibration": "a100-sxn"}}, "did you mean 'a100-sxm'?"),
        (
            {"devices": 4, "device": INLINE_DEVICE} | LINKS,
            "cluster.per_node is missing",
        ),
        (
            {"devices": 4, "per_node": 4, "device": INLINE_DEVICE},
            "cluster.network is missing",
        ),
        (
            {"devices": 4, "per_node": 4, "device": {"memory": "32 GB"}} | LINKS,
            "cluster.device.tdp is missing",
        ),
    ],
)
def test_refusals(value: Any, sentence: str) -> None:
    assert sentence in problems(value)


def test_all_mistakes_at_once() -> None:
    wrong = {
        "devices": "8x a100-sxm-80gb",
        "per_node": "8",
        "network": {"latency": -1, "x": 1},
        "host": "epyc",
        "powercap": 1,
    }
    assert len(problems(wrong).splitlines()) == 5


@pytest.mark.parametrize(
    ("part", "figures", "remark"),
    [
        ("device", {"memory": 80}, "cluster.device.memory is 80 B; did you mean '80 GB'?"),
        (
            "device",
            {"memory_bandwidth": 3.35},
            "cluster.device.memory_bandwidth is 3.35 B/s; did you mean '3.35 TB/s'?",
        ),
        (
            "network",
            {"bandwidth_per_node": 50},
            "cluster.network.bandwidth_per_node is 50 B/s; did you mean '50 GB/s'?",
        ),
        ("device", {"memory": "80 GB"}, None),
    ],
)
def test_a_figure_without_its_unit_is_remarked(part: str, figures: dict[str, Any], remark: str | None) -> None:
    cluster = read_cluster({"same_as": "8x a100-sxm-80gb", part: figures})
    assert list(forgotten_units(cluster)) == ([remark] if remark else [])


def test_no_device_of_the_catalog_seems_to_lack_a_unit() -> None:
    for name in catalog.names("devices"):
        assert list(forgotten_units(read_cluster(f"1x {name}"))) == []


def test_case_and_spaces_of_devices_do_not_count() -> None:
    assert read_cluster("1x RTX 4090").device.name == "rtx-4090"
    assert read_cluster("8x A100-SXM-80GB").device.name == "a100-sxm-80gb"


@pytest.mark.parametrize("written", ["4x8 h100", "4 nodes x 8 h100", "4x8x h100"])
def test_nodes_of_so_many_devices_are_told_as_one_count(written: str) -> None:
    assert "did you mean '32x h100'?" in problems(written)


def test_a_count_below_one_is_told_without_guessing_a_device() -> None:
    assert problems("-4x h100").startswith("cluster is '-4x h100'; allowed: ")


def test_a_slice_of_tpus_says_what_its_number_counts() -> None:
    assert "TensorCores" in read_as("v5p-256")[0]
    assert "counts chips" in read_as({"devices": "v6e-256"})[0]
    assert read_as("128x tpu-v5p") == ()
