"""What the catalog states: every entry has a source, is understood by loading and agrees with published figures."""

from decimal import Decimal
from itertools import pairwise

import pytest

from sightline.catalog import KINDS, entry, names
from sightline.loading import scenario_from_mapping

EVIDENCE = {"datasheet", "measured", "fitted", "estimated"}
DESCRIPTIONS = [kind for kind in KINDS if kind != "calibrations"]
"""Calibrations carry their provenance part by part; their own tests look at it."""


def scenario(**keys):
    workload = {"task": "pretrain", "sequence_length": 1024, "global_batch": 4480 * 4608}
    plan = {"micro_batch": 1, "dtype": "fp16"}
    return scenario_from_mapping(
        {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb"} | keys | {"workload": workload, "plan": plan}
    )


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in DESCRIPTIONS for name in names(kind)])
def test_every_entry_says_where_it_comes_from(kind, name):
    stated = entry(kind, name)
    assert len(stated["source"]) > 10
    year, month = stated["date"].split("-")
    assert 2009 < int(year) < 2030
    assert 1 <= int(month) <= 12
    assert stated["evidence"] in EVIDENCE
    assert set(stated.get("evidences", {}).values()) <= EVIDENCE


@pytest.mark.parametrize("name", names("models"))
def test_parameters_agree_with_the_published_count(name):
    published = entry("models", name)["parameters"]
    digits = Decimal(repr(published)).normalize()
    rounding = float(Decimal(1).scaleb(digits.adjusted() - len(digits.as_tuple().digits) + 1)) / 2
    counted = scenario(model=name).model.parameters
    assert counted == pytest.approx(published, abs=max(0.005 * published, rounding))


@pytest.mark.parametrize("name", names("devices"))
def test_every_device_stands_in_a_server(name):
    cluster = scenario(cluster=f"8x {name}").cluster
    assert cluster.device.name == name
    assert cluster.per_node == entry("devices", name)["server"]["per_node"]
    assert 1e9 < cluster.intra_node.bandwidth < 2e12
    assert 1e9 <= cluster.network.bandwidth_per_node < 2e12
    assert 1e-7 < cluster.intra_node.latency_s <= cluster.network.latency_s < 1e-3


@pytest.mark.parametrize("name", names("devices"))
def test_device_figures_are_of_the_right_order(name):
    device = scenario(cluster=f"8x {name}").cluster.device
    assert 10 < device.peak_flops["fp16"] / device.memory_bandwidth < 500
    assert device.memory_bandwidth < device.l2_bandwidth < 15e12
    assert device.l2_bytes < 0.01 * device.memory_bytes
    assert device.vector_flops <= device.peak_flops["fp16"]
    assert 0 < device.idle_w < device.tdp_w / 3
    assert 0.1 < device.usd_per_hour < 10
    assert 50 < device.compute_units < 200


@pytest.mark.parametrize("name", names("devices"))
def test_narrower_numbers_are_never_slower(name):
    peaks = scenario(cluster=f"8x {name}").cluster.device.peak_flops
    widths = [peaks[d] for d in ("fp32", "tf32", "fp16", "fp8", "nvfp4") if d in peaks]
    assert all(wider <= narrower for wider, narrower in pairwise(widths))
    assert peaks.get("bf16", peaks["fp16"]) == peaks["fp16"]


@pytest.mark.parametrize("name", names("clusters"))
def test_every_cluster_is_whole_nodes(name):
    cluster = scenario(cluster=name).cluster
    assert cluster.devices == cluster.nodes * cluster.per_node
    assert cluster.name == name


@pytest.mark.parametrize("name", names("interconnects"))
def test_links_add_in_the_switch_only_from_nvlink4_on(name):
    link = entry("interconnects", name)
    assert link["in_network_reduction"] == name.startswith(("nvlink4", "nvlink5"))
    assert link["peer_to_peer"] != name.endswith("no-p2p")
    assert not link["in_network_reduction"] or link["topology"] == "switch"
