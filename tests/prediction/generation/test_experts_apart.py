"""Experts on devices of their own, which take micro-batches of a decode step in turns with those of attention."""

from dataclasses import replace

import numpy as np
import pytest
from generation_scenarios import generation

from sightline.errors import InputError
from sightline.launching.engines.rules import refusals
from sightline.planning.search import plan
from sightline.prediction.generation.batch_profile import engine_constants, predict_generation
from sightline.prediction.generation.memory import generation_memory
from sightline.prediction.generation.phases import price_generation
from sightline.prediction.generation.policies import price_workers
from sightline.prediction.generation.replica import device_times

LAYERS = 32


def apart(attention: int = 4, experts: int = 4, micro_batches: int = 3, **decode):
    workers = {"prefill": {"tensor_parallel": 4}, "decode": {"data_parallel": attention} | decode}
    fields = {"expert_devices": experts, "expert_micro_batches": micro_batches}
    plan = {"framework": "vllm", "quantization": "none", "disaggregate": workers, **fields}
    return generation(model="mixtral-8x7b", cluster=f"{4 + attention + experts}x h100-sxm-80gb", batch=768, plan=plan)


def priced(scenario):
    """Seconds of a micro-batch with attention, with experts and on its way, and those of the whole step."""
    decoding = price_workers(scenario).decoding
    constants = engine_constants(scenario)[0].running_on(scenario.cluster)
    sides = map(float, decoding.decode.sides(decoding.decode.in_engine(constants)))
    return list(sides), float(device_times(decoding.worker, decoding.decode, constants).device_s)


def test_a_single_micro_batch_waits_for_each_side():
    sides, step_s = priced(apart(micro_batches=1))
    assert min(sides) > 0
    assert step_s == pytest.approx(sum(sides))


@pytest.mark.parametrize(("experts", "slower"), [(1, 1), (8, 1)])
def test_the_slower_side_sets_the_pace_once_micro_batches_cover_the_rest(experts, slower):
    sides, step_s = priced(apart(experts=experts, micro_batches=8))
    assert max(sides) == sides[slower]
    assert step_s - 8 * sides[slower] == pytest.approx((sum(sides) - sides[slower]) / LAYERS)


def test_micro_batches_that_cover_too_little_wait_for_the_way():
    sides, step_s = priced(apart(attention=8, experts=8, micro_batches=2))
    assert 2 * max(sides) < sum(sides)
    assert step_s == pytest.approx(sum(sides) + max(sides) / LAYERS)


def test_more_devices_with_experts_slow_no_device():
    attention_s, experts_s, _ = zip(*(priced(apart(experts=experts))[0] for experts in (1, 2, 4, 8)), strict=True)
    assert np.all(np.diff(experts_s) < 0)
    assert attention_s == pytest.approx([attention_s[0]] * 4)


def test_weights_of_both_sides_add_up_to_the_model():
    scenario = apart(attention=1, experts=4)
    few = replace(scenario.workload, batch=4)
    scenario = replace(scenario, workload=few, plan=replace(scenario.plan, disaggregate=None))
    decoding = price_generation(scenario)
    ledgers = [generation_memory(decoding, decoding, scenario.workload, experts=one) for one in (False, True)]
    with_attention, with_experts = (float(ledger["weights"]) for ledger in ledgers)
    alone = price_generation(replace(scenario, plan=replace(scenario.plan, expert_devices=0, expert_micro_batches=1)))
    whole = generation_memory(alone, alone, scenario.workload)
    assert with_attention + 4 * with_experts == pytest.approx(float(whole["weights"]))
    assert ledgers[0]["kv_cache"] == pytest.approx(whole["kv_cache"])
    assert ledgers[1]["kv_cache"] == 0


def test_the_fullest_device_may_be_one_with_experts():
    few, many = (predict_generation(apart(experts=experts)) for experts in (1, 4))
    assert not few.fits
    assert many.fits


def test_arrays_are_the_same_code():
    base, devices, turns = apart(), np.array([0, 2, 4, 8]), np.array([1, 1, 3, 2])
    together = predict_generation(
        replace(base, plan=replace(base.plan, expert_devices=devices, expert_micro_batches=turns))
    )
    for place, (experts, micro_batches) in enumerate(zip(devices.tolist(), turns.tolist(), strict=True)):
        alone = predict_generation(apart(experts=experts, micro_batches=micro_batches))
        assert together.tpot_s[place] == pytest.approx(float(alone.tpot_s))
        assert together.memory_bytes["total"][place] == pytest.approx(float(alone.memory_bytes["total"]))


@pytest.mark.parametrize(
    ("experts", "decode", "key"),
    [
        (3, {}, "plan.expert_devices is 3"),
        (4, {"expert_parallel": 4}, "expert_parallel is 4"),
        (4, {"pipeline_parallel": 2, "data_parallel": 2}, "pipeline_parallel is 2"),
        (0, {}, "plan.expert_micro_batches is 3"),
    ],
)
def test_what_cannot_be_is_refused(experts, decode, key):
    with pytest.raises(InputError, match=key):
        apart(experts=experts, **decode)


def test_prompts_need_workers_of_their_own():
    with pytest.raises(InputError, match=r"plan\.disaggregate"):
        generation(model="mixtral-8x7b", cluster="8x h100-sxm-80gb", plan={"framework": "vllm", "expert_devices": 4})


def test_no_engine_launches_them():
    assert any("expert_devices" in sentence for sentence in refusals(apart()))
    assert not any("expert_devices" in sentence for sentence in refusals(apart(experts=0, micro_batches=1)))


def test_a_search_finds_how_many_devices_hold_experts():
    question = {
        "model": "mixtral-8x7b",
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "generate", "batch": 256, "prompt_tokens": 512, "output_tokens": 128},
        "plan": {
            "framework": "vllm",
            "quantization": "none",
            "disaggregate": {"prefill": {"tensor_parallel": 2, "replicas": 1}, "decode": {"tensor_parallel": 1}},
            "expert_devices": {"any": [2, 4]},
            "expert_micro_batches": 2,
        },
    }
    plans = [one.profile.scenario.plan for one in plan(question, launchable=False, top=20).plans]
    assert {int(one.expert_devices) for one in plans} == {2, 4}
    assert {int(one.disaggregate.prefill.devices + one.devices) for one in plans} == {8}
    assert not plan(question).plans
