"""What is written for an engine is read back as the same plan, but for what the launch says it has no words for."""

import re
import tempfile
from typing import Any

import pytest
from generation_scenarios import generation
from hypothesis import assume, given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.launching import read, save, write
from sightline.launching.registry import ENGINE_WRITERS
from sightline.loading import generation_from_mapping
from sightline.loading.written import to_mapping
from sightline.scenario.precision import WEIGHT_FORMATS

MODELS = ("llama-2-7b", "qwen3-32b", "qwen3-32b-fp8", "qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b")
PLANS = {
    "max_batched_tokens": st.sampled_from([512, 2048, 8192, 30_000]),
    "chunked_prefill": st.booleans(),
    "prefix_cache": st.booleans(),
    "cuda_graphs": st.booleans(),
    "kv_block_tokens": st.sampled_from([1, 16, 32]),
    "memory_fraction": st.sampled_from([0.5, 0.85, 0.9]),
    "dtype": st.sampled_from(["bf16", "fp16"]),
    "speculative": st.just({"tokens": 3, "acceptance": 0.7}),
    "quantization": st.sampled_from(
        [
            "none",
            "fp8",
            ["fp8"],
            ["fp8", "kv-fp8"],
            "kv-fp8",
            ["fp8-block", "kv-fp8"],
            "w4a16",
            "w8a8",
            "int8",
            "kv-int8",
        ]
    ),
}
DEGREES = {
    "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
    "pipeline_parallel": st.sampled_from([1, 1, 2]),
    "data_parallel": st.sampled_from([1, 1, 2, 8]),
    "replicas": st.sampled_from([1, 1, 2, 3]),
}


@st.composite
def served(draw: st.DrawFn, engine: str) -> dict[str, Any]:
    """A scenario file for an engine, on as many devices as its degrees take."""
    plan: dict[str, Any] = {"framework": engine}
    plan |= {key: draw(values) for key, values in DEGREES.items()}
    if engine == "llama.cpp":
        plan |= {"tensor_parallel": 1, "data_parallel": 1}
    if engine == "transformers":
        plan |= dict.fromkeys(DEGREES, 1) | {"replicas": plan["replicas"]}
    ranks = plan["tensor_parallel"] * plan["data_parallel"]
    plan["expert_parallel"] = draw(st.sampled_from([1, ranks]))
    chosen = draw(st.sets(st.sampled_from(sorted(PLANS))))
    plan |= {key: draw(PLANS[key]) for key in sorted(chosen)}
    devices = ranks * plan["pipeline_parallel"] * plan["replicas"]
    return {
        "model": draw(st.sampled_from(MODELS)),
        "cluster": f"{devices}x h100-sxm-80gb",
        "workload": {
            "task": "generate",
            "batch": draw(st.integers(1, 300)),
            "prompt_tokens": draw(st.sampled_from([16, 3000])),
            "output_tokens": 100,
        },
        "plan": plan,
    }


def launched(scenario: Any) -> tuple[Any, tuple[str, ...]]:
    """The launch, or None and what is in its way."""
    try:
        return write(scenario), ()
    except InputError as error:
        return None, error.problems


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


@pytest.mark.parametrize("engine", sorted(ENGINE_WRITERS))
@given(st.data())
def test_what_is_written_is_read_back(engine, data):
    mapping = data.draw(served(engine))
    try:
        scenario = generation_from_mapping(mapping)
    except InputError:
        assume(False)
    launch, problems = launched(scenario)
    assert all(re.match(r"plan\.|(a )?servers? of", problem) for problem in problems)
    assume(launch is not None)
    with tempfile.TemporaryDirectory() as folder:
        script, *_ = save(launch, folder)
        reading = read(script)
    ours, theirs = asked_of(scenario), asked_of(again(scenario, reading))
    assert reading.scenario["model"] == mapping["model"]
    said = " ".join([*launch.without_counterpart, *reading.without_counterpart])
    unlike = {key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}
    assert {key for key in unlike if f"plan.{key}" not in said} == set(), (launch.command, launch.files)


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
