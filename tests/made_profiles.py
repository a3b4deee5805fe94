"""Hand-made profiles: figures chosen so that every sum can be checked by eye."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.profile import Profile, Row
from sightline.scenario import GenerationScenario, Scenario

GIB = 2**30


def make_scenario(**plan: Any) -> Scenario:
    """Return Llama-2-7B with ZeRO-2 on eight devices of 80 GiB."""
    fields: dict[str, Any] = {"framework": "deepspeed", "micro_batch": 2, "zero_stage": 2} | plan
    mapping = {
        "name": "Llama-2-7B, ZeRO-2, 8 x A800",
        "model": "llama-2-7b",
        "cluster": "8x a800-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 64, "total_tokens": 2e12},
        "plan": fields,
    }
    return scenario_from_mapping(mapping)


def make_profile(**changes: Any) -> Profile:
    """Return a profile whose phases sum to 1.25 s and whose memory sums to 60 GiB."""
    rows = [
        _row("forward", "mlp", 0.16),
        _row("forward", "attention core", 0.03),
        _row("forward", "qkv", 0.08),
        _row("backward", "mlp", 0.32),
        _row("backward", "attention core", 0.07),
        _row("backward", "qkv", 0.16),
        _row("optimizer", "adam", 0.05),
    ]
    parts = {
        "weights": 12.5 * GIB,
        "gradients": 12.5 * GIB,
        "optimizer": 10.0 * GIB,
        "activations": 20.0 * GIB,
        "kv_cache": 0.0,
        "buffers": 3.0 * GIB,
        "framework": 2.0 * GIB,
    }
    fields: dict[str, Any] = {
        "scenario": make_scenario(),
        "source": "predicted",
        "step_time_s": 1.25,
        "phases": {
            "forward": 0.27,
            "backward": 0.55,
            "recompute": 0.0,
            "optimizer": 0.05,
            "communication_exposed": 0.30,
            "pipeline_bubble": 0.0,
            "host": 0.08,
        },
        "memory_bytes": parts | {"total": sum(parts.values())},
        "fits": True,
        "model_flops": 2.4e14,
        "hardware_flops": 2.4e14,
        "limits": {"compute": 0.7, "memory": 0.17, "network": 0.30, "host": 0.08, "bubble": 0.0},
        "energy_per_step_j": 3000.0,
        "rows": rows,
        "evidence": {"matmul": "calibrated"},
    }
    return Profile(**(fields | changes))


def make_generation_scenario(plan: dict[str, Any] | None = None, **workload: Any) -> GenerationScenario:
    """Return Llama-2-7B answering eight prompts on two H100."""
    mapping = {
        "name": "Llama-2-7B on 2 x H100",
        "model": "llama-2-7b",
        "cluster": "2x h100-sxm-80gb",
        "workload": {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 101} | workload,
        "plan": {"framework": "vllm", "tensor_parallel": 2} | (plan or {}),
    }
    return generation_from_mapping(mapping)


def make_generation(**changes: Any) -> Profile:
    """Return a profile with 0.5 s to the first token and 20 ms for each of a hundred more."""
    parts = {"weights": 6.0 * GIB, "activations": 1.0 * GIB, "kv_cache": 1.0 * GIB, "framework": 2.0 * GIB}
    fields: dict[str, Any] = {
        "scenario": make_generation_scenario(),
        "source": "predicted",
        "ttft_s": 0.5,
        "tpot_s": 0.02,
        "phases": {"prefill": 0.4, "decode": 1.5, "communication": 0.25, "transfer": 0.0, "host": 0.35},
        "memory_bytes": parts | {"total": sum(parts.values())},
        "fits": True,
        "limits": {"compute": 0.4, "memory": 1.5, "network": 0.25, "host": 0.35, "bubble": 0.0},
        "energy_j": 3600.0,
        "rows": [_row("prefill", "mlp", 0.3), _row("decode", "mlp", 0.9), _row("decode", "attention core", 0.6)],
        "evidence": {"framework": "calibrated"},
        "interval": {"ttft_s": (0.4, 0.625), "tpot_s": (0.016, 0.025), "latency_s": (2.0, 3.1)},
    }
    return Profile(**(fields | changes))


def _row(phase: str, module: str, time_s: float) -> Row:
    return Row(
        phase=phase,
        block="decoder",
        module=module,
        operator="matmul",
        count=32,
        flops=1e12,
        bytes=1e9,
        network_bytes=0.0,
        time_s=time_s,
        exposed_s=time_s,
        bound="compute",
    )


@pytest.fixture
def profile() -> Profile:
    """A prediction that fits."""
    return make_profile()


@pytest.fixture
def too_large() -> Profile:
    """A prediction that needs more memory than there is."""
    memory = {**make_profile().memory_bytes, "activations": 70.0 * GIB, "total": 110.0 * GIB}
    advice = ("does not fit: 110.0 GiB of 80.0 GiB", "recompute full would fit")
    return make_profile(memory_bytes=memory, fits=False, advice=advice)


@pytest.fixture
def build() -> Callable[..., Profile]:
    """The factory of profiles, for tests that vary them."""
    return make_profile


@pytest.fixture(name="make_scenario")
def scenario_factory() -> Callable[..., Scenario]:
    """The factory of scenarios, for tests that vary the plan."""
    return make_scenario


@pytest.fixture
def without_total_tokens() -> Scenario:
    """A scenario that does not say how long the run is."""
    scenario = make_scenario()
    return replace(scenario, workload=replace(scenario.workload, total_tokens=None))


@pytest.fixture
def generation() -> Profile:
    """A prediction of generation."""
    return make_generation()


@pytest.fixture
def too_large_generation() -> Profile:
    """A prediction of generation that needs more memory than there is."""
    parts = {"weights": 32.1 * GIB, "activations": 0.6 * GIB, "kv_cache": 180.0 * GIB, "framework": 1.9 * GIB}
    return make_generation(ttft_s=147.0, memory_bytes=parts | {"total": 214.6 * GIB}, fits=False)


@pytest.fixture
def generations() -> list[Profile]:
    """The same over four batches; the largest does not fit."""
    return [
        make_generation(scenario=make_generation_scenario(batch=batch), tpot_s=0.01 + batch / 1000, fits=batch < 64)
        for batch in (1, 4, 16, 64)
    ]
