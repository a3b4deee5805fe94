"""No pass is faster than its arithmetic at the peak, nor than its weights, cache and activations through the memory."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product

import numpy as np
import pytest
from generation_scenarios import generation

from sightline import predict
from sightline.catalog import entry, names
from sightline.content import content
from sightline.errors import InputError
from sightline.frameworks.behavior import read_engine
from sightline.prediction.generation.batch_profile import predict_generation
from sightline.prediction.generation.engine_constants import InferenceConstants, load_inference
from sightline.prediction.generation.phases import decode_phase, price_generation
from sightline.prediction.generation.replica import worker_of
from sightline.profile import Profile
from sightline.program import Collective, Elementwise
from sightline.program.blocks.layer import cached_bytes
from sightline.scenario import GenerationScenario

CONTEXTS = np.array([1024.0, 8192.0, 32768.0, 131072.0])
FORMATS = {"bf16": 2.0, "fp8": 1.0, "w4a16": 0.5, "nvfp4": 0.5}
"""Bytes of a weight, without its scales."""
USUAL = ("h100-sxm-80gb", "mi300x")
"""Devices that are asked by default; the heavier suites ask all."""
OUTPUT_TOKENS = 4


def lines() -> Iterator[tuple[str, str]]:
    """Every engine with its release lines, known by behavior or by constants; none is the engine's own."""
    for engine in names("engines"):
        known = set(entry("engines", engine).get("versions") or {})
        if engine in names("inference"):
            known |= set(entry("inference", engine).get("versions") or {})
        yield from ((engine, line) for line in ["", *sorted(known)])


def without_repetition() -> Iterable[tuple[str, str]]:
    """The first of all lines whose passes on one device differ in constants alone."""
    first: dict[Hashable, tuple[str, str]] = {}
    for line in lines():
        engine = read_engine(*line)
        parts = (engine.kernels, engine.scheduling, engine.llama_cpp, engine.lmdeploy, engine.defaults)
        first.setdefault(content(parts, largest_array=0), line)
    return first.values()


def asked(engine: str, line: str, device: str, fmt: str, batches: tuple[int, ...]) -> GenerationScenario | None:
    """A dense model of 8B on one device, a row for each batch; None where engine or device have no such format."""
    plan = {"framework": engine} | ({"framework_version": line} if line else {})
    plan |= {} if fmt == "bf16" else {"quantization": fmt}
    try:
        scenario = generation(
            model="llama-3.1-8b", cluster=f"1x {device}", batch=batches[0], output_tokens=OUTPUT_TOKENS, plan=plan
        )
    except InputError:
        return None
    rows = np.array(batches, dtype=float)[:, np.newaxis]
    return replace(scenario, workload=replace(scenario.workload, batch=rows, prompt_tokens=CONTEXTS))


def least_step_s(scenario: GenerationScenario, fmt: str) -> np.ndarray:
    """Seconds that the weights of a decode step and the cache take from memory."""
    m, device = scenario.model, scenario.cluster.device
    attention = m.hidden_size * m.head_dim * 2 * (m.heads + m.kv_heads)
    weights = m.layers * (attention + 3 * m.hidden_size * m.intermediate_size) * FORMATS[fmt]
    head = m.hidden_size * m.vocab_size * FORMATS[fmt]
    cache = cached_bytes(m, worker_of(scenario).formats, CONTEXTS) * scenario.workload.batch
    return np.asarray((weights + head + cache) / device.memory_bandwidth)


def least_prompt_s(scenario: GenerationScenario, fmt: str) -> np.ndarray:
    """Seconds that the linear layers of all prompts take at the highest rate that the device has."""
    m, device = scenario.model, scenario.cluster.device
    attention = m.hidden_size * m.head_dim * 2 * (m.heads + m.kv_heads)
    parameters = m.layers * (attention + 3 * m.hidden_size * m.intermediate_size)
    peak = max(
        rate for name, rate in device.peak_flops.items() if fmt in ("fp8", "nvfp4") or "fp16" in name or "bf16" in name
    )
    return np.asarray(2.0 * parameters * CONTEXTS * scenario.workload.batch / peak)


def below(found: Profile, scenario: GenerationScenario, fmt: str) -> list[float]:
    """Predictions over their bounds where they are under them."""
    shares = [found.tpot_s / least_step_s(scenario, fmt), found.ttft_s / least_prompt_s(scenario, fmt)]
    return [float(share) for share in np.ravel(shares) if share < 1.0]


def scenarios(
    engines: Iterable[tuple[str, str]], devices: Sequence[str], batches: tuple[int, ...]
) -> Iterator[tuple[GenerationScenario, str]]:
    """Every combination that there is, and its format; every format is among them."""
    seen = set()
    for (engine, line), device, fmt in product(engines, devices, FORMATS):
        scenario = asked(engine, line, device, fmt, batches)
        if scenario is not None:
            seen.add(fmt)
            yield scenario, fmt
    assert seen == set(FORMATS)


def test_no_engine_is_faster_than_memory_or_arithmetic():
    for scenario, fmt in scenarios(lines(), USUAL, (8,)):
        assert not below(predict(scenario), scenario, fmt), (scenario.plan.engine, scenario.cluster.name, fmt)


@pytest.mark.slow
def test_no_constants_of_an_engine_make_it_faster_on_any_device():
    constants = impossible()
    for scenario, fmt in scenarios(without_repetition(), names("devices"), (1, 64)):
        found = predict_generation(scenario, constants)
        assert not below(found, scenario, fmt), (scenario.plan.engine, scenario.cluster.name, fmt)


def impossible() -> InferenceConstants:
    """Kernels a hundred times faster than alone, and a host that takes no time."""
    values = {f.name: getattr(load_inference("vllm")[0], f.name) for f in fields(InferenceConstants)}
    faster = {
        name: 0.01 if name.endswith("_slowdown") else 0.0 for name in values if name.endswith(("_slowdown", "_s"))
    }
    return InferenceConstants(**values | faster)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "qwen3-next-80b-a3b"])
@pytest.mark.parametrize("drafts", [None, {"tokens": 3, "acceptance": 0.7}])
def test_constants_of_engines_change_nothing_below_the_floor(model, drafts):
    plan = {"framework": "vllm", "tensor_parallel": 8} | ({"speculative": drafts} if drafts else {})
    scenario = generation(model=model, cluster="8x h200-sxm-141gb", batch=16, prompt_tokens=8192, plan=plan)
    priced, constants = price_generation(scenario), impossible()
    for one in (priced.prefill, priced.decode):
        prices = one.in_engine(constants)
        for op in one.program.operators:
            if isinstance(op, Collective | Elementwise):
                continue
            bandwidth = scenario.cluster.device.memory_bandwidth
            assert prices[id(op)].time_s >= max(prices[id(op)].compute_s, op.bytes / bandwidth * 0.999), op.name
    step_s = decode_phase(priced, constants).pass_s
    device = scenario.cluster.device
    assert step_s >= sum(
        block.count * op.count * op.bytes / device.memory_bandwidth
        for block in priced.decode.program.blocks
        for op in block.operators
        if not isinstance(op, Collective | Elementwise)
    )


def test_every_draft_reads_the_weights_again():
    """Three drafts take at least three passes of the prediction layer and the head through the memory."""
    plan = {"framework": "vllm", "tensor_parallel": 8}
    cases = [plan, plan | {"speculative": {"tokens": 3, "acceptance": 0.7}}]
    alone, drafted = (
        price_generation(generation(model="deepseek-v3", cluster="8x h200-sxm-141gb", plan=case)) for case in cases
    )
    blocks = (drafted.decode.program.layers[-1], drafted.decode.program.head)
    bandwidth = drafted.scenario.cluster.device.memory_bandwidth
    read_s = sum(
        op.count * op.bytes / bandwidth for block in blocks for op in block.operators if not isinstance(op, Collective)
    )
    constants = impossible()
    assert decode_phase(drafted, constants).pass_s >= decode_phase(alone, constants).pass_s + 2.5 * read_s


@pytest.mark.parametrize("device", ["4x h100-sxm-80gb", "8x mi300x"])
@pytest.mark.parametrize("batch", [1, 64])
def test_the_reference_is_a_bound_on_what_engines_reach(device: str, batch: int) -> None:
    """A one-sided interval, no host, and no engine of today is faster."""

    def answer(engine: str) -> Profile:
        plan = {"framework": engine, "tensor_parallel": 4}
        return predict(generation(model="llama-3.1-70b", cluster=device, batch=batch, plan=plan))

    bound = answer("reference")
    assert bound.evidence["framework"] == "datasheet"
    assert bound.phases["host"] == 0.0
    assert set(bound.interval) == {"ttft_s", "tpot_s", "latency_s"}
    for key, (low, high) in bound.interval.items():
        assert (low, high) == (getattr(bound, key), None)
        assert all(low < getattr(answer(engine), key) for engine in ("vllm", "sglang", "tensorrt-llm", "lightllm"))


def test_an_anchor_moves_no_bound() -> None:
    asked = generation(plan={"framework": "reference"})
    own = replace(asked, measured={"tpot_s": 3 * predict(asked).tpot_s})
    assert predict(asked, anchor=[own]).tpot_s == predict(asked).tpot_s
