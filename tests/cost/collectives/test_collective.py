"""Collectives: physics that must hold whatever the constants."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.catalog import names
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import (
    CollectiveConstants,
    Group,
    cluster_collectives,
    collective_evidence,
    data_group,
    load_collectives,
    pipeline_boundary,
    tensor_group,
    whole_group,
)
from sightline.errors import InputError
from sightline.frameworks import read_engine
from sightline.loading.clusters import read_cluster
from sightline.scenario import Cluster, Device, Host, Interconnect, Network
from sightline.scenario.cluster import COLLECTIVES

DEVICE = Device(
    name="a100",
    peak_flops={"bf16": 312e12},
    memory_bytes=80e9,
    memory_bandwidth=2e12,
    l2_bytes=40e6,
    l2_bandwidth=4e12,
    compute_units=108,
    tdp_w=400,
    idle_w=60,
    calibration="a100-sxm",
    vector_flops=19e12,
)
NVLINK = Interconnect(name="nvlink3", bandwidth=300e9, latency_s=2e-6, topology="switch")
PCIE = Interconnect(name="pcie4", bandwidth=31e9, latency_s=5e-6, topology="pcie")
CLUSTER = Cluster(
    name="64 x A100",
    devices=64,
    per_node=8,
    device=DEVICE,
    intra_node=NVLINK,
    network=Network(name="hdr", bandwidth_per_node=200e9, latency_s=5e-6),
    host=Host(name="epyc"),
)
A100 = load_collectives("a100-sxm")
FAMILIES = [load_collectives(n.removesuffix("/collectives")) for n in names("calibrations") if "/collectives" in n]
NUMBER_OF_RANKS = st.sampled_from([2, 3, 4, 5, 6, 8, 16, 24, 64])
MESSAGES = st.floats(1.0, 2.0**33)
FAMILY = st.sampled_from(FAMILIES)


def timed(
    kind: str, size: float, ranks: int, constants: CollectiveConstants = A100, cluster: Cluster = CLUSTER
) -> float:
    """Seconds over neighbouring ranks."""
    return float(collective_time(kind, size, group=tensor_group(ranks, cluster), cluster=cluster, constants=constants))


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_a_group_of_one_costs_nothing(kind: str) -> None:
    assert timed(kind, 1e9, 1) == 0.0
    sizes = np.array([1.0, 2.0])
    both = collective_time(kind, 1e6, group=tensor_group(sizes, CLUSTER), cluster=CLUSTER, constants=A100)
    assert both[0] == 0.0
    assert both[1] > 0.0


@given(st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]), MESSAGES, NUMBER_OF_RANKS, FAMILY)
def test_never_faster_than_the_wires(kind: str, size: float, ranks: int, constants: CollectiveConstants) -> None:
    # Even a switch that adds takes the message in once and gives it out once.
    inside = min(ranks, 8)
    volume = {"all_reduce": 1.0, "all_to_all": (inside - 1) / ranks}.get(kind, (inside - 1) / inside)
    nodes = -(-ranks // 8)
    network = {"all_reduce": 2 * (nodes - 1) / nodes, "all_to_all": inside * (ranks - inside) / ranks}
    across = network.get(kind, (nodes - 1) / nodes)
    bound = max(volume * size / NVLINK.bandwidth, across * size / CLUSTER.network.bandwidth_per_node)
    switched = replace(CLUSTER, intra_node=replace(NVLINK, in_network_reduction=True))
    assert timed(kind, size, ranks, constants, switched) > bound


@given(st.sampled_from(COLLECTIVES), MESSAGES, st.floats(1.0, 100.0), NUMBER_OF_RANKS, FAMILY)
def test_more_bytes_never_take_less(
    kind: str, size: float, factor: float, ranks: int, constants: CollectiveConstants
) -> None:
    assert timed(kind, size * factor, ranks, constants) >= timed(kind, size, ranks, constants)


@given(st.floats(2.0**16, 2.0**33), st.sampled_from([2, 4, 8]), FAMILY)
def test_an_all_reduce_in_a_node_takes_longer_than_either_half(
    size: float, ranks: int, constants: CollectiveConstants
) -> None:
    # Each kind is fitted by itself, so the sum of the halves is no bound and a few per cent are left to the fit.
    halves = [timed(kind, size, ranks, constants) for kind in ("reduce_scatter", "all_gather")]
    assert timed("all_reduce", size, ranks, constants) > 0.95 * max(halves)


@given(st.sampled_from(COLLECTIVES), MESSAGES, st.sampled_from([2, 4, 8]), FAMILY)
def test_crossing_nodes_never_takes_less(kind: str, size: float, ranks: int, constants: CollectiveConstants) -> None:
    inside = Group(size=ranks, ranks_per_node=ranks)
    across = Group(size=ranks, ranks_per_node=ranks // 2)
    near, far = (collective_time(kind, size, group=g, cluster=CLUSTER, constants=constants) for g in (inside, across))
    assert far >= near


@pytest.mark.parametrize("kind", COLLECTIVES)
def test_scalar_equals_array(kind: str) -> None:
    tensor = np.array([1, 2, 4, 8, 16])[:, None, None]
    data = np.array([1, 2, 4, 8])[None, :, None]
    sizes = np.array([1e3, 1e6, 1e9])[None, None, :]
    switched = replace(CLUSTER, intra_node=replace(NVLINK, in_network_reduction=True))
    h100 = load_collectives("h100-sxm")
    for group in (data_group(tensor, data, switched), tensor_group(tensor, switched)):
        mesh = collective_time(kind, sizes, group=group, cluster=switched, constants=h100)
        n, r, s = np.broadcast_arrays(group.size, group.ranks_per_node, sizes)
        each = [
            collective_time(
                kind,
                float(s[i]),
                group=Group(size=int(n[i]), ranks_per_node=int(r[i])),
                cluster=switched,
                constants=h100,
            )
            for i in np.ndindex(s.shape)
        ]
        np.testing.assert_allclose(np.broadcast_to(mesh, s.shape).ravel(), each, rtol=1e-12)


def test_device_numbers_may_be_arrays() -> None:
    link = replace(NVLINK, bandwidth=np.array([300e9, 600e9]))
    fast = replace(CLUSTER, intra_node=link)
    times = collective_time("all_reduce", 1e9, group=tensor_group(8, fast), cluster=fast, constants=A100)
    assert times[0] == timed("all_reduce", 1e9, 8)
    assert times[1] < times[0]


def test_groups_sit_in_nodes_as_megatron_numbers_ranks() -> None:
    assert data_group(1, 64, CLUSTER).ranks_per_node == 8
    assert data_group(4, 16, CLUSTER).ranks_per_node == 2
    assert data_group(8, 8, CLUSTER).ranks_per_node == 1
    assert data_group(16, 4, CLUSTER).ranks_per_node == 1
    assert tensor_group(16, CLUSTER).ranks_per_node == 8
    assert pipeline_boundary(2, 2, CLUSTER).ranks_per_node == 2
    assert pipeline_boundary(8, 1, CLUSTER).ranks_per_node == 1
    np.testing.assert_array_equal(pipeline_boundary(np.array([1, 2, 8]), 2, CLUSTER).ranks_per_node, [2, 2, 1])


def test_groups_that_share_the_ports_of_a_node_wait_for_each_other() -> None:
    group = data_group(8, 8, CLUSTER)
    alone = Group(size=8, ranks_per_node=1, sharing=1.0)
    shared, whole = (
        collective_time("all_gather", 1e9, group=g, cluster=CLUSTER, constants=A100) for g in (group, alone)
    )
    assert shared > 3 * whole


def test_adding_in_the_switch_pays_from_five_ranks_and_for_sums_only() -> None:
    h100 = load_collectives("h100-sxm")
    plain = replace(CLUSTER, intra_node=replace(NVLINK, bandwidth=450e9))
    switched = replace(plain, intra_node=replace(plain.intra_node, in_network_reduction=True))
    for kind, ranks, pays in (("all_reduce", 8, True), ("all_reduce", 4, False), ("all_gather", 8, False)):
        with_switch, without = (timed(kind, 2.0**28, ranks, h100, c) for c in (switched, plain))
        assert (with_switch < without) is pays


def bus_bandwidth(cluster: Cluster, ranks: int, size: float = 2.0**30) -> float:
    """Bytes per second of an all-reduce, as nccl-tests gives them."""
    return (
        2.0
        * (ranks - 1)
        / ranks
        * size
        / float(timed("all_reduce", size, ranks, cluster_collectives(cluster), cluster))
    )


@pytest.mark.parametrize(("ranks", "measured"), [(4, 35e9), (8, 28e9)])
def test_without_peer_to_peer_host_memory_is_the_limit(ranks: int, measured: float) -> None:
    # NVIDIA/nccl#1639: RTX 5090 on two Xeon 8480.
    cluster = read_cluster({"devices": "8x rtx-5090", "host": "xeon-8480c"})
    assert not cluster.intra_node.peer_to_peer
    assert bus_bandwidth(cluster, ranks) == pytest.approx(measured, rel=0.12)


def test_without_peer_to_peer_each_platform_has_its_own_bandwidth() -> None:
    def reached(ranks: int = 8, **host: float) -> float:
        cluster = read_cluster("8x rtx-4090")
        return bus_bandwidth(replace(cluster, host=replace(cluster.host, **host)), ranks)

    assert reached(device_bandwidth=12e9) < 0.6 * reached()  # a host of PCIe 3
    assert reached(memory_bandwidth=100e9) == pytest.approx(0.5 * reached(memory_bandwidth=200e9), rel=0.05)
    assert reached(2, memory_bandwidth=200e9) == pytest.approx(reached(2), rel=1e-6)


def test_a_server_whose_shares_are_known_keeps_them_without_peer_to_peer() -> None:
    cluster = read_cluster("8x rtx-4090")
    shared = replace(cluster, intra_node=replace(cluster.intra_node, shares={2: 1.0, 8: 0.2}))
    assert bus_bandwidth(shared, 8) < 0.5 * bus_bandwidth(cluster, 8)


def test_bridges_take_half_of_a_ring_past_host_memory() -> None:
    plain, bridged = (read_cluster(f"8x {name}") for name in ("rtx-3090", "rtx-3090-nvlink"))
    slow = {"memory_bandwidth": 100e9}
    plain, bridged = (replace(c, host=replace(c.host, **slow)) for c in (plain, bridged))
    assert bus_bandwidth(bridged, 8) == pytest.approx(2 * bus_bandwidth(plain, 8), rel=0.1)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("size", [1e3, 1e5, 1e7, 1e9])
def test_bridges_speed_up_rings_of_any_size_though_memory_is_no_limit(kind: str, size: float) -> None:
    plain, bridged = (read_cluster(f"8x {name}") for name in ("rtx-3090", "rtx-3090-nvlink"))
    fast = {"memory_bandwidth": 1e12}
    plain, bridged = (replace(c, host=replace(c.host, **fast)) for c in (plain, bridged))
    slow_s, fast_s = (timed(kind, size, 8, cluster_collectives(c), c) for c in (plain, bridged))
    # Lanes in one direction alone give at most what both directions leave them, and no ring gains more than half.
    assert 1.05 < slow_s / fast_s < 2.0


def test_an_all_to_all_gains_nothing_from_bridges() -> None:
    plain, bridged = (read_cluster(f"8x {name}") for name in ("rtx-3090", "rtx-3090-nvlink"))
    slow_s, fast_s = (timed("all_to_all", 1e9, 8, cluster_collectives(c), c) for c in (plain, bridged))
    assert slow_s == pytest.approx(fast_s)


@pytest.mark.parametrize(
    ("size", "measured_s"), [(2**15, 18.8e-6), (2**18, 66.3e-6), (2**21, 272e-6), (2**25, 3.97e-3)]
)
def test_peers_over_pcie_take_what_was_measured_on_devices_never_fitted(size: int, measured_s: float) -> None:
    # Four RTX 4090 whose driver grants peer access: tinygrad/open-gpu-kernel-modules#22.
    cluster = read_cluster({"devices": "4x rtx-4090", "intra_node": "pcie4"})
    assert timed("all_reduce", float(size), 4, cluster_collectives(cluster), cluster) == pytest.approx(
        measured_s, rel=0.07
    )


def test_a_mesh_pair_uses_one_of_its_links() -> None:
    mesh = replace(CLUSTER, intra_node=replace(NVLINK, topology="full-mesh"))
    assert timed("all_reduce", 1e9, 8, cluster=mesh) == timed("all_reduce", 1e9, 8)
    assert timed("all_reduce", 1e9, 2, cluster=mesh) > 6 * timed("all_reduce", 1e9, 2)


@pytest.mark.parametrize(("ranks", "size", "measured_s"), [(2, 2**18, 11.45e-6), (2, 2**23, 181e-6), (4, 2**22, 64e-6)])
def test_two_devices_of_a_mesh_node_have_no_more_than_their_link(ranks: int, size: int, measured_s: float) -> None:
    # vLLM's kernels on MI300X: ROCm/aiter#801, vllm-project/vllm#19744.
    cluster = read_cluster(f"{ranks}x mi300x")
    time_s = timed("all_reduce", float(size), ranks, cluster_collectives(cluster, all_reduce="custom"), cluster)
    assert time_s == pytest.approx(measured_s, rel=0.12)


def test_trees_keep_small_all_reduces_on_many_nodes_fast() -> None:
    wide = replace(CLUSTER, devices=1024)
    group = whole_group(1024, wide)
    small = collective_time("all_reduce", 1024.0, group=group, cluster=wide, constants=A100)
    gathered = collective_time("all_gather", 1024.0, group=group, cluster=wide, constants=A100)
    assert small < 0.3 * gathered


def test_versions_and_families() -> None:
    assert load_collectives("h100-sxm").version == "2.29.2"
    older = load_collectives("h100-sxm", "2.23")
    assert older.kinds["all_gather"] != load_collectives("h100-sxm").kinds["all_gather"]
    assert older.kinds["all_reduce"] == load_collectives("h100-sxm").kinds["all_reduce"]
    assert load_collectives("generic").evidence == "estimated"
    with pytest.raises(InputError, match=r"2\.23"):
        load_collectives("h100-sxm", "2.24")
    with pytest.raises(InputError, match="all_reduce"):
        timed("allreduce", 1.0, 2)


@pytest.mark.parametrize("engine", ["custom", "vllm", "vllm 0.1"])
def test_engines_kernels_are_faster_for_small_sums_inside_a_node_only(engine: str) -> None:
    nccl, kernels = cluster_collectives(CLUSTER), cluster_collectives(CLUSTER, all_reduce=engine)
    for ranks in (2, 4, 8):
        assert timed("all_reduce", 2.0**14, ranks, kernels) < 0.6 * timed("all_reduce", 2.0**14, ranks, nccl)
    for kind, size, ranks in (("all_reduce", 2.0**30, 8), ("all_reduce", 2.0**14, 16), ("all_gather", 2.0**14, 8)):
        assert timed(kind, size, ranks, kernels) == timed(kind, size, ranks, nccl)


@pytest.mark.parametrize("devices", ["2x rtx-4090", "8x v100-sxm2-16gb"])
def test_engines_have_no_kernels_for_peers_they_cannot_reach(devices: str) -> None:
    assert cluster_collectives(read_cluster(devices), all_reduce="custom").custom is None


def test_an_unknown_engine_is_named_with_what_there_is() -> None:
    with pytest.raises(InputError, match="vllm"):
        cluster_collectives(CLUSTER, all_reduce="vlm")


@given(MESSAGES, NUMBER_OF_RANKS)
def test_kernels_for_scalars_equal_those_for_arrays(size: float, ranks: int) -> None:
    constants = cluster_collectives(CLUSTER, all_reduce="custom")
    sizes, many = np.array([size, 1e3]), np.array([1, 2, 3, 8, ranks])[:, None]
    mesh = collective_time("all_reduce", sizes, group=tensor_group(many, CLUSTER), cluster=CLUSTER, constants=constants)
    assert mesh[-1, 0] == pytest.approx(timed("all_reduce", size, ranks, constants), rel=1e-12)
    assert mesh[2, 1] == pytest.approx(timed("all_reduce", 1e3, 3, constants), rel=1e-12)


def test_constants_come_from_links_of_the_same_kind() -> None:
    on_pcie = replace(CLUSTER, intra_node=PCIE)
    assert cluster_collectives(CLUSTER).name == "a100-sxm/collectives"
    assert cluster_collectives(on_pcie).name == "pcie/collectives"
    own, relative, nobodys = (
        replace(CLUSTER, device=replace(DEVICE, name=name, calibration=family))
        for name, family in (("a100-sxm-80gb", "a100-sxm"), ("h800", "h100-sxm"), ("tpu", "generic"))
    )
    assert [collective_evidence(c, "all_reduce") for c in (own, relative, nobodys)] == [
        "calibrated",
        "extrapolated",
        "datasheet",
    ]
    assert collective_evidence(own, "broadcast") == "extrapolated"
    assert collective_evidence(replace(own, intra_node=PCIE), "all_reduce") == "extrapolated"


def test_bridges_join_pairs_and_larger_groups_meet_over_pcie() -> None:
    bridge = Interconnect(name="bridge", bandwidth=56e9, latency_s=2e-6, topology="pairs", beyond=PCIE)
    bridged = replace(CLUSTER, intra_node=bridge, device=replace(DEVICE, calibration="generic"))
    on_pcie = replace(bridged, intra_node=PCIE)
    constants, far = cluster_collectives(bridged), cluster_collectives(on_pcie)
    assert timed("all_reduce", 1e8, 2, constants, bridged) < 0.7 * timed("all_reduce", 1e8, 2, far, on_pcie)
    for kind, share in (("all_to_all", 1.0), ("all_reduce", far.kinds["all_reduce"].shares[4])):
        ratio = timed(kind, 1e10, 4, constants, bridged) / timed(kind, 1e10, 4, far, on_pcie)
        assert ratio == pytest.approx(share, rel=0.01)
    several = collective_time(
        "all_gather", 1e8, group=tensor_group(np.array([1, 2, 8]), bridged), cluster=bridged, constants=constants
    )
    assert list(several) == [timed("all_gather", 1e8, n, constants, bridged) for n in (1, 2, 8)]


def test_ranks_over_pcie_share_what_joins_them() -> None:
    constants = load_collectives("rtx-pro-6000")
    kind = constants.kinds["all_gather"]
    assert kind.share(2) == 1.0
    assert kind.share(4) > kind.share(6) > kind.share(8) == pytest.approx(kind.shares[8])
    assert A100.kinds["all_gather"].share(8) == 1.0


def test_an_engines_kernels_reach_a_whole_domain_where_it_says_so() -> None:
    cluster = read_cluster("8x gb200")
    group = tensor_group(8, cluster)

    def seconds(size: float, *, whole_domain: bool) -> float:
        constants = cluster_collectives(cluster, all_reduce="trtllm", whole_domain=whole_domain)
        return float(collective_time("all_reduce", size, group=group, cluster=cluster, constants=constants))

    # Four ranks of a host were measured: beyond them the library sums, unless the engine's kernels go on.
    assert seconds(2.0**16, whole_domain=True) < 0.5 * seconds(2.0**16, whole_domain=False)
    assert seconds(2.0**28, whole_domain=True) == seconds(2.0**28, whole_domain=False)


def test_an_engines_own_sums_are_those_of_its_release() -> None:
    assert read_engine("tensorrt-llm", "1.2").all_reduce_library == "trtllm 1.2"
    assert read_engine("tensorrt-llm", "gpt-oss-dev").all_reduce_library == "trtllm"
    assert read_engine("tensorrt-llm", "0.8").all_reduce_library == "custom"


def test_a_reduce_takes_what_a_broadcast_moves_and_less_than_an_all_reduce() -> None:
    for ranks in (2, 8, 64):
        large = {kind: float(timed(kind, 2.0**30, ranks)) for kind in ("reduce", "broadcast", "all_reduce")}
        assert large["reduce"] == pytest.approx(large["broadcast"], rel=0.3)
        assert large["reduce"] < 1.05 * large["all_reduce"]
    assert timed("reduce", 1e9, 1) == 0
