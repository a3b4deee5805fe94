"""A hand-made profile: figures chosen so that every sum can be checked by eye."""

from collections.abc import Callable
from typing import Any

import pytest

from sightline.profile import Profile, Row
from sightline.scenario import (
    Cluster,
    Device,
    Framework,
    Host,
    Interconnect,
    Model,
    Network,
    Plan,
    Pretrain,
    Scenario,
)
from sightline.scenario.framework import StateBytes

GIB = 2**30


def make_scenario(**plan: Any) -> Scenario:
    """Return Llama-2-7B with ZeRO-2 on eight devices."""
    device = Device(
        name="a800-sxm-80gb",
        peak_flops={"bf16": 312e12},
        memory_bytes=80.0 * GIB,
        memory_bandwidth=2039e9,
        l2_bytes=40.0 * 2**20,
        l2_bandwidth=5e12,
        compute_units=108,
        tdp_w=400.0,
        idle_w=60.0,
        calibration="a100-sxm",
        vector_flops=19.5e12,
        usd_per_hour=2.0,
    )
    cluster = Cluster(
        name="8x a800-sxm-80gb",
        devices=8,
        per_node=8,
        device=device,
        intra_node=Interconnect(name="nvlink3-a800", bandwidth=200e9, latency_s=2e-6, topology="switch"),
        network=Network(name="infiniband-hdr", bandwidth_per_node=200e9, latency_s=3e-6),
        host=Host(name="epyc-7742"),
    )
    model = Model(
        name="llama-2-7b",
        hidden_size=4096,
        layers=32,
        heads=32,
        kv_heads=32,
        head_dim=128,
        intermediate_size=11008,
        vocab_size=32000,
    )
    framework = Framework(
        name="deepspeed",
        states=StateBytes(weights=2, gradients=2, optimizer=12),
        gradient_reduce_bytes=2,
        fused=frozenset(),
        loss_bytes_per_logit=10,
        overlaps_gradients=True,
        overlaps_parameters=True,
        overlaps_pipeline=False,
        reduces_every_micro_batch=True,
        optimizer_traffic=30,
        pads_vocabulary=False,
        communication_buffer_bytes=1e9,
        context_bytes=1e9,
        regathers_every_micro_batch=False,
    )
    fields: dict[str, Any] = {"data_parallel": 8, "micro_batch": 2, "zero_stage": 2} | plan
    return Scenario(
        name="Llama-2-7B, ZeRO-2, 8 x A800",
        model=model,
        cluster=cluster,
        workload=Pretrain(sequence_length=350, global_batch=16, total_tokens=2e12),
        plan=Plan(framework=framework, **fields),
    )


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
