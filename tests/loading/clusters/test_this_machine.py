"""The machine at hand as a cluster: detected, shared among processes, or as the user's catalog states it."""

import os
import subprocess
import sys

import pytest

from sightline.loading import load, to_mapping
from sightline.loading.clusters import read_cluster, this_machine
from sightline.loading.clusters.this_machine import copy_bandwidth
from sightline.prediction import predict

SCENARIO = {"workload": {"task": "operator", "operator": "matmul", "m": 256, "n": 256, "k": 256, "dtype": "fp32"}}


def test_figures_are_those_of_a_processor() -> None:
    device = read_cluster("this-machine").device
    assert device.name == "this-machine"
    assert 1e9 < device.peak_flops["fp32"] < 1e15
    assert 1e8 < device.memory_bandwidth < 1e13
    assert device.memory_bytes > 2**28
    assert device.compute_units == this_machine.processor().cores


def test_processes_share_the_machine() -> None:
    one, four = read_cluster("this-machine"), read_cluster("4x this-machine")
    assert (four.devices, four.per_node, four.nodes) == (4, 4, 1)
    for figure in ("memory_bytes", "memory_bandwidth", "l2_bytes", "vector_flops"):
        assert getattr(four.device, figure) * 4 == pytest.approx(getattr(one.device, figure))
    assert four.device.peak_flops["bf16"] * 4 == pytest.approx(one.device.peak_flops["bf16"])
    assert four.device.compute_units >= 1


def test_single_figures_can_be_stated() -> None:
    stated = {"devices": "2x this-machine", "power_cap": "9 W", "host": {"cores": 3}, "device": {"memory": "1 GB"}}
    cluster = read_cluster(stated)
    assert (cluster.power_cap_w, cluster.host.cores, cluster.device.memory_bytes) == (9.0, 3, 1e9)
    assert cluster.host.memory_bytes == read_cluster("this-machine").host.memory_bytes
    assert cluster.device.vector_flops * 2 == read_cluster("this-machine").device.vector_flops


def test_the_machine_is_predicted_and_written_out() -> None:
    scenario = load({"cluster": "this-machine", **SCENARIO})
    again = load(to_mapping(scenario))
    assert predict(again).time_s == predict(scenario).time_s > 0


def test_more_threads_copy_what_they_say() -> None:
    assert 1e7 < copy_bandwidth(2**20, 2) < 1e13


def test_widths_of_vectors_count(monkeypatch) -> None:
    plain = this_machine.Processor("x", 2, 3e9, frozenset({"sse"}), 2**20, 1e9)
    for flags, flops in (({"sse"}, 48e9), ({"avx", "fma"}, 192e9), ({"fma", "avx512f"}, 384e9)):
        monkeypatch.setattr(this_machine, "processor", lambda f=flags: plain._replace(flags=frozenset(f)))
        assert this_machine.detected.__wrapped__()["peak_flops"]["fp32"] == flops
    monkeypatch.setattr(this_machine, "processor", lambda: plain._replace(flags=frozenset({"avx512f", "amx_bf16"})))
    peaks = this_machine.detected.__wrapped__()["peak_flops"]
    assert peaks["bf16"] == 16 * peaks["fp32"] == 16 * peaks["fp16"]


def test_an_entry_of_the_users_catalog_is_taken(tmp_path) -> None:
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "this-machine.yaml").write_text(
        "peak_flops: {fp32: 4 TFLOP/s}\nmemory: 8 GB\nmemory_bandwidth: 40 GB/s\nl2: 8 MB\nl2_bandwidth: 80 GB/s\n"
        "compute_units: 8\ntdp: 80 W\nidle_power: 20 W\nvector_flops: 4 TFLOP/s\nsource: mine\n"
    )
    code = (
        "from sightline.loading.clusters import read_cluster as r; d = r('2x this-machine').device;"
        "print(d.peak_flops['fp32'], d.memory_bandwidth, d.compute_units)"
    )
    environment = os.environ | {"SIGHTLINE_CATALOG": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["2000000000000.0", "20000000000.0", "4"]
