"""What the catalog states: every entry has a source, is understood by loading and agrees with published figures."""

from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from sightline.catalog import KINDS, entry, names
from sightline.loading import scenario_from_mapping
from sightline.loading.models import resolve_model

EVIDENCE = {"datasheet", "measured", "fitted", "estimated", "listed"}
DESCRIPTIONS = [kind for kind in KINDS if kind != "calibrations"]
"""Calibrations carry their provenance part by part; their own tests look at it."""


def scenario(dtype="fp16", **keys):
    workload = {"task": "pretrain", "sequence_length": 1024, "global_batch": 4480 * 4608}
    plan = {"micro_batch": 1, "dtype": dtype}
    return scenario_from_mapping(
        {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb"} | keys | {"workload": workload, "plan": plan}
    )


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in DESCRIPTIONS for name in names(kind)])
def test_every_entry_says_where_it_comes_from(kind, name):
    stated = entry(kind, name)
    assert len(stated["source"]) > 10
    year, month = stated["date"].split("-")
    assert 2005 < int(year) < 2030
    assert kind == "launches" or int(year) > 2007
    assert 1 <= int(month) <= 12
    assert stated["evidence"] in EVIDENCE
    assert set(stated.get("evidences", {}).values()) <= EVIDENCE


@pytest.mark.parametrize("name", names("models"))
def test_parameters_agree_with_the_published_count(name):
    published = entry("models", name)["parameters"]
    digits = Decimal(repr(published)).normalize()
    rounding = float(Decimal(1).scaleb(digits.adjusted() - len(digits.as_tuple().digits) + 1)) / 2
    counted = resolve_model(name, Path()).model.parameters
    assert counted == pytest.approx(published, abs=max(0.005 * published, rounding))


def cluster_of(device):
    """8 devices in their usual servers; the TPUs know no fp16, the V100 no bf16."""
    dtype = "bf16" if "bf16" in entry("devices", device)["peak_flops"] else "fp16"
    return scenario(dtype, cluster=f"8x {device}").cluster


@pytest.mark.parametrize("name", names("devices"))
def test_every_device_stands_in_a_server(name):
    cluster = cluster_of(name)
    assert cluster.device.name == name
    in_server = entry("devices", name)["server"]["per_node"]
    assert cluster.per_node == min(8, in_server)
    assert 1e9 < cluster.intra_node.bandwidth < 2e12
    assert 1e9 <= cluster.network.bandwidth_per_node < 500e9 * in_server
    assert 1e-7 < cluster.intra_node.latency_s <= cluster.network.latency_s < 1e-3


@pytest.mark.parametrize("name", names("devices"))
def test_device_figures_are_of_the_right_order(name):
    device = cluster_of(name).device
    peak = max(device.peak_flops.get(dtype, 0) for dtype in ("fp16", "bf16"))
    assert 10 < peak / device.memory_bandwidth < 600
    assert device.memory_bandwidth < device.l2_bandwidth < 50e12
    assert device.l2_bytes < 0.01 * device.memory_bytes
    assert device.vector_flops <= peak
    assert 0 < device.idle_w < device.tdp_w / 3
    assert 0.1 < device.usd_per_hour < 15
    assert 2 <= device.compute_units <= 304


@pytest.mark.parametrize("name", names("devices"))
def test_narrower_numbers_are_never_slower(name):
    peaks = cluster_of(name).device.peak_flops
    widths = [peaks[d] for d in ("fp32", "tf32", "fp16", "bf16", "fp8", "mxfp4", "nvfp4") if d in peaks]
    assert all(wider <= narrower for wider, narrower in pairwise(widths))
    assert name == "gaudi3" or peaks.get("bf16") == peaks.get("fp16") or len({"bf16", "fp16"} & set(peaks)) == 1


@pytest.mark.parametrize("name", names("clusters"))
def test_every_cluster_is_whole_nodes(name):
    cluster = scenario(cluster=name).cluster
    assert cluster.devices == cluster.nodes * cluster.per_node
    assert cluster.name == name


@pytest.mark.parametrize("name", names("interconnects"))
def test_links_add_in_the_switch_only_from_nvlink4_on(name):
    link = entry("interconnects", name)
    assert link["in_network_reduction"] == name.startswith(("nvlink4", "nvlink5", "nvlink6"))
    assert link["peer_to_peer"] != name.endswith("no-p2p")
    assert not link["in_network_reduction"] or link["topology"] == "switch"
