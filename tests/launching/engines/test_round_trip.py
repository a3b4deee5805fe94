"""Scripts of several servers are read back, each server with devices and a port of its own."""

import re
from typing import Any

import pytest
from generation_scenarios import generation

from sightline.launching import read, save, write
from sightline.launching.registry import ENGINE_WRITERS
from sightline.loading import generation_from_mapping
from sightline.loading.written import to_mapping
from sightline.scenario.precision import WEIGHT_FORMATS


def again(scenario: Any, reading: Any) -> Any:
    """What was read, asked about the cluster and the requests of the scenario that was written."""
    asked = to_mapping(scenario)
    return generation_from_mapping({**reading.scenario, "cluster": asked["cluster"], "workload": asked["workload"]})


def asked_of(scenario: Any) -> dict[str, Any]:
    """The plan, with the format of the weights that it comes to where it may be said in several ways."""
    plan = to_mapping(scenario)["plan"]
    # Where a plan does not say it, a command has what the batch comes to.
    plan.pop("max_sequences", None)
    words = [word for word in scenario.plan.quantization or () if not word.startswith("kv-")]
    published = "none" if scenario.model.weights in ("bf16", "fp16", "fp32") else scenario.model.weights
    weights = words[0] if words else published if scenario.plan.quantization is None else "none"
    cache = [word for word in scenario.plan.quantization or () if word.startswith("kv-")]
    return {**plan, "quantization": [WEIGHT_FORMATS.get(weights, weights), *cache]}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_prefill_and_decode_apart_are_read_back(engine, tmp_path):
    pools = {"prefill": {"tensor_parallel": 4, "replicas": 2, "batch": 2}, "decode": {"tensor_parallel": 8}}
    scenario = generation(
        model="llama-3.1-70b", cluster="16x h100-sxm-80gb", batch=64, plan={"framework": engine, "disaggregate": pools}
    )
    launch = write(scenario)
    save(launch, tmp_path)
    reading = read(tmp_path)
    assert reading.scenario["plan"]["disaggregate"] == pools
    assert asked_of(again(scenario, reading)) == asked_of(scenario)
    assert all(str(port) in launch.files["router.sh"] for port in _ports(launch.files["servers.sh"]))


def _ports(script: str) -> list[str]:
    return re.findall(r"--port (\d+)", script)


@pytest.mark.parametrize("engine", sorted(ENGINE_WRITERS))
def test_every_server_has_devices_and_a_port_of_its_own(engine):
    degrees = {"llama.cpp": {"pipeline_parallel": 2}, "transformers": {}}.get(engine, {"tensor_parallel": 2})
    replicas = 8 if degrees else 16
    plan = {"framework": engine, **degrees, "replicas": replicas}
    scenario = generation(cluster="16x a100-sxm-80gb", batch=64, plan=plan)
    lines = [line for line in write(scenario).files["servers.sh"].splitlines() if "CUDA_VISIBLE" in line]
    places = [re.findall(r'rank" = (\d)|DEVICES=(\S+)', line) for line in lines]
    devices = [(node, device) for (node, _), (_, listed) in places for device in listed.split(",")]
    assert sorted(devices) == sorted((node, str(n)) for node in "01" for n in range(8))
    assert len(set(_ports("\n".join(lines)))) == replicas
