"""A hand-made profile: figures chosen so that every sum can be checked by eye."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sightline.loading import scenario_from_mapping
from sightline.profile import Profile, Row
from sightline.scenario import Scenario

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
    advice = ("does not fit: 110.0 GiB of 80.0 GiB; recompute full would fit",)
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
