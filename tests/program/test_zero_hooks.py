"""Hooks of ZeRO around weights: host time for what a stage gathers or reduces, and nothing else."""

from typing import Any

import pytest
from training_scenarios import training

from sightline.frameworks.behavior import read_framework
from sightline.prediction import predict
from sightline.program import write_out


def calls(adapter: bool = False, **plan: Any) -> tuple[float, float]:
    """The host's calls besides launches in a layer's forward and backward pass."""
    tuned = {"task": "finetune"} if adapter else {}
    kind = {"adapter": {"kind": "lora", "rank": 8, "targets": "all-linear"}} if adapter else {}
    chosen = {"framework": "deepspeed", "micro_batch": 1} | kind | plan
    layer = write_out(training(model="llama-2-7b", cluster="8x a100-sxm-80gb", global_batch=8, plan=chosen, **tuned))
    block = layer.layers[0]
    return tuple(float(sum(op.count * op.host_calls for op in ops)) for ops in (block.forward, block.backward))


def test_only_the_stages_that_shard_gradients_or_weights_call_hooks() -> None:
    assert calls(zero_stage=0) == calls(zero_stage=1) == (0.0, 0.0)
    forward, backward = calls(zero_stage=2)
    assert forward == 0.0
    assert 0.0 < backward < calls(zero_stage=3)[1]
    assert calls(zero_stage=3)[0] > 0.0
    assert calls(framework="fsdp", zero_stage=3) == (0.0, 0.0)


def test_frozen_weights_are_gathered_and_have_no_gradient_to_copy() -> None:
    whole, adapted = calls(zero_stage=2)[1], calls(adapter=True, zero_stage=2)[1]
    # Each of a layer's seven matrices has the two of an adapter.
    assert adapted == pytest.approx(2.0 * whole)
    assert calls(adapter=True, zero_stage=3)[0] > calls(zero_stage=3)[0]


def test_hooks_lengthen_small_passes_and_hide_behind_long_ones() -> None:
    def host_s(tokens: int, stage: int) -> float:
        plan = {"framework": "deepspeed", "micro_batch": 1, "zero_stage": stage}
        scenario = training(model="mpt-125m", sequence_length=tokens, global_batch=8, plan=plan)
        return float(predict(scenario).phases["host"])

    assert host_s(64, 2) > host_s(64, 1)
    assert host_s(8192, 2) == pytest.approx(host_s(8192, 1))


@pytest.mark.parametrize("version", ["2023-11", "2026-01"])
def test_each_of_seven_weights_is_gathered_in_both_passes_and_reduced_where_it_is_trained(version: str) -> None:
    engine = read_framework("deepspeed", version).zero_engine
    gathers, reduces = engine.gather_calls, engine.reduce_calls[3]
    plan = {"zero_stage": 3, "framework_version": version}
    assert calls(**plan) == pytest.approx((7 * gathers, 7 * (gathers + reduces)))
    # Frozen weights, and two trained matrices of an adapter at each.
    assert calls(adapter=True, **plan) == pytest.approx((21 * gathers, 21 * gathers + 14 * reduces))


def test_releases_differ_in_what_they_call() -> None:
    assert calls(zero_stage=3, framework_version="2023-11") != calls(zero_stage=3, framework_version="2026-01")
