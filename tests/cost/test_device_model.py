"""A device as prices see it: constants resolved once, backends chosen by it, and no catalog needed."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generation_scenarios import generation
from training_scenarios import training

import sightline
from sightline.catalog import names
from sightline.cost.device_model import KernelChoice, device_model
from sightline.loading.clusters import read_cluster
from sightline.scenario import Device

NUMBERS = {
    "peak_flops": {"fp32": 5e13, "tf32": 4e14, "fp16": 8e14, "bf16": 8e14, "fp8": 1.6e15},
    "vector_flops": 5e13,
    "memory_bytes": 1.2e11,
    "memory_bandwidth": 4e12,
    "l2_bytes": 6e7,
    "l2_bandwidth": 8e12,
    "compute_units": 120.0,
    "tdp_w": 700.0,
    "idle_w": 70.0,
}


def on(scenario, **numbers):
    cluster = replace(scenario.cluster, device=Device(name="imagined", **{**NUMBERS, **numbers}))
    return replace(scenario, cluster=cluster)


@pytest.mark.parametrize("model", ["llama-2-7b", "deepseek-v3"])
def test_a_device_of_plain_numbers_prices_a_training_step(model):
    scenario = training(model=model, cluster="8x h100-sxm-80gb", plan={"tensor_parallel": 8, "micro_batch": 1})
    profile = sightline.predict(on(scenario))
    assert profile.step_time_s > 0
    assert set(profile.evidence.values()) <= {"datasheet", "estimated", "extrapolated"}
    assert sightline.predict(on(scenario, memory_bandwidth=8e12)).step_time_s < profile.step_time_s


def test_a_device_of_plain_numbers_prices_a_generation():
    scenario = generation(model="llama-2-7b", cluster="1x h100-sxm-80gb")
    profile = sightline.predict(on(scenario))
    assert profile.tpot_s > 0
    assert profile.evidence["matmul"] == "datasheet"
    assert sightline.predict(on(scenario, memory_bandwidth=8e12)).tpot_s < profile.tpot_s


def test_arrays_of_devices_cost_what_each_device_costs():
    scenario = training(model="llama-2-7b", cluster="8x h100-sxm-80gb", plan={"tensor_parallel": 8, "micro_batch": 1})
    bandwidths = np.array([2e12, 4e12, 8e12])
    together = sightline.predict(on(scenario, memory_bandwidth=bandwidths)).step_time_s
    each = [sightline.predict(on(scenario, memory_bandwidth=b)).step_time_s for b in bandwidths]
    assert together == pytest.approx(each)


def test_constants_are_resolved_once_for_equal_devices():
    device, kernels = read_cluster("1x h100-sxm-80gb").device, KernelChoice(dtype="bf16")
    model, resolved = device_model(device, kernels), []

    def constants(_, kernel):
        resolved.append(kernel)
        return kernel

    assert model.constants(constants, "fp8") == model.constants(constants, "fp8") == "fp8"
    assert resolved == ["fp8"]
    assert device_model(replace(device), replace(kernels)) is model
    assert device_model(replace(device, l2_bytes=1e7), kernels) is not model


def test_prices_know_no_framework_and_no_engine_by_name():
    known = {*names("frameworks"), *names("engines")} - {"reference"}
    for path in (Path(sightline.__file__).parent / "cost").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        stated = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is str}
        assert not stated & known, path


def test_only_what_is_met_is_imported():
    code = (
        "import sys; from sightline import load, predict;"
        "predict(load({'model': 'gpt-125m', 'cluster': '1x a100-sxm-80gb', 'plan': {'micro_batch': 1},"
        "'workload': {'task': 'pretrain', 'sequence_length': 128, 'global_batch': 1}}));"
        "print(*(name for name in sys.modules if name.startswith('sightline.cost.')))"
    )
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "sightline.cost.matmul" in there
    assert not [
        name
        for name in there
        if name.startswith(("sightline.cost.processor", "sightline.cost.recurrent", "sightline.cost.recurrent"))
    ]
