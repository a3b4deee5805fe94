"""Loops of DeepSpeed over trained tensors: the host's time by their number, not by their size."""

from typing import Any

import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.training.priced import price
from sightline.prediction.training.step import step_times

LORA = {"kind": "lora", "rank": 8}


def loops_s(devices: int = 8, global_batch: int = 8, model: str = "llama-2-7b", **plan: Any) -> float:
    """Seconds of a step in loops over trained tensors."""
    chosen = {"framework": "deepspeed", "framework_version": "2023-11", "micro_batch": 1} | plan
    task = {"task": "finetune"} if "adapter" in plan else {}
    asked = training(model=model, cluster=f"{devices}x a100-sxm-80gb", global_batch=global_batch, plan=chosen, **task)
    return float(step_times(price(asked)).tensor_calls_s)


def test_loops_count_tensors_and_not_their_elements() -> None:
    narrow, wide = (loops_s(adapter={**LORA, "rank": rank}) for rank in (8, 64))
    assert narrow == wide > 0.0
    few = loops_s(adapter={**LORA, "targets": ["query", "value"]})
    assert few == pytest.approx(narrow * 2 / 7)
    # Quantized weights are not trained: norms, table and head are.
    assert loops_s(quantization="nf4") < loops_s()


def test_zero_leaves_a_rank_the_loops_over_its_shard() -> None:
    plain, eight, two = (
        loops_s(adapter=LORA),
        loops_s(adapter=LORA, zero_stage=2),
        loops_s(2, adapter=LORA, zero_stage=2),
    )
    assert eight < plain
    assert two == pytest.approx(4 * eight)


def test_optimizers_of_16_bits_loop_without_zero() -> None:
    assert loops_s() > 0.0
    assert loops_s(dtype="fp16") > 0.0
    assert loops_s(dtype="fp32") == 0.0
    assert loops_s(zero_stage=3) == 0.0
    assert loops_s(framework="fsdp", framework_version="2024-01") == 0.0


def test_fp16_looks_for_overflows_in_every_tensor_of_a_shard() -> None:
    for version, calls in (("0.12", (5, 8)), ("0.18", (3, 11))):
        bf16_s, fp16_s = (
            loops_s(framework_version=version, adapter=LORA, zero_stage=2, dtype=dtype) for dtype in ("bf16", "fp16")
        )
        assert fp16_s / bf16_s == pytest.approx(calls[1] / calls[0])


def test_gradients_are_added_up_behind_every_backward_pass() -> None:
    once, twice, thrice = (loops_s(global_batch=8 * m, adapter=LORA) for m in (1, 2, 3))
    assert twice - once == pytest.approx(thrice - twice)
    assert 0.0 < twice - once < once
    assert loops_s(global_batch=16, adapter=LORA, zero_stage=2) == loops_s(adapter=LORA, zero_stage=2)


def test_releases_of_2024_read_norms_together() -> None:
    old, new = (loops_s(adapter=LORA, zero_stage=2, framework_version=date) for date in ("2023-11", "2024-05"))
    assert new < old


def test_the_table_says_what_the_loops_take() -> None:
    scenario = training(
        model="llama-2-7b",
        global_batch=8,
        cluster="8x a100-sxm-80gb",
        task="finetune",
        plan={"framework": "deepspeed", "micro_batch": 1, "adapter": LORA},
    )
    profile = predict(scenario)
    (row,) = [row for row in profile.rows if row.operator == "framework, per trained tensor"]
    assert row.phase == row.bound == "host"
    assert row.exposed_s == pytest.approx(float(step_times(price(scenario)).tensor_calls_s))
    assert sum(row.exposed_s for row in profile.rows if row.phase == "host") == pytest.approx(profile.phases["host"])
