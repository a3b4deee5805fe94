"""Rotation in latent attention: only the rotary part turns, and a fused kernel moves each element once."""

from dataclasses import replace
from typing import Any

import pytest
from training_scenarios import behaving, training

from sightline.prediction.training.step_profile import profile_of
from sightline.program import Operator, write_out
from sightline.scenario import Scenario

TOKENS, HEADS = 4096, 128
ROTARY, NOPE, VALUE = 64, 128, 128
"""DeepSeek V3's heads."""


def scenario(version: str, model: str = "deepseek-v3", **plan: Any) -> Scenario:
    return training(
        model=model,
        cluster="8x b200-sxm-180gb",
        sequence_length=TOKENS,
        global_batch=8,
        plan={"framework": "megatron", "framework_version": version, "micro_batch": 1} | plan,
    )


def operators(version: str, *names: str, **plan: Any) -> dict[str, Operator]:
    layer = write_out(scenario(version, **plan)).layers[0]
    return {op.name: op for op in (*layer.forward, *layer.backward) if op.name in names}


@pytest.mark.parametrize("name", ["rope", "rope gradient"])
def test_every_query_heads_rotary_part_turns_and_the_one_key_that_heads_share(name):
    turned = 2.0 * TOKENS * ROTARY * (HEADS + 1)
    assert operators("bridge-26.06", name)[name].bytes == pytest.approx(2.0 * turned)
    assert operators("core", name)[name].bytes == pytest.approx(10.0 * turned)


def test_fused_with_the_rotation_queries_stay_and_keys_and_values_are_written_once():
    fused, apart = (operators(v, "heads joined", "heads joined gradient") for v in ("bridge-26.06", "core"))
    written = 2.0 * TOKENS * HEADS * (NOPE + ROTARY + VALUE)
    read = 2.0 * TOKENS * HEADS * (NOPE + VALUE)
    for name in ("heads joined", "heads joined gradient"):
        assert fused[name].bytes == pytest.approx(read + written)
        assert apart[name].bytes > fused[name].bytes
        assert apart[name].kernels > fused[name].kernels


def test_ranks_share_the_heads_out_but_not_the_key():
    whole, half = (operators("bridge-26.06", "rope", tensor_parallel=t)["rope"].bytes for t in (1, 2))
    assert half / whole == pytest.approx((HEADS / 2 + 1) / (HEADS + 1))


def test_other_attention_is_rotated_as_before():
    fused = scenario("bridge-26.06", "llama-3-8b")
    framework = fused.plan.framework
    without = behaving(framework, {"fusion.fused": framework.fusion.fused - {"latent-rope"}})
    assert profile_of(fused).phases == profile_of(replace(fused, plan=replace(fused.plan, framework=without))).phases
