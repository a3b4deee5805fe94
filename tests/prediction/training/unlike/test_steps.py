"""Training steps on unlike devices: equal to those of equal devices where the groups are, and between them elsewhere."""

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading import load, to_mapping
from sightline.prediction import predict
from sightline.prediction.schedules.closed_forms import stage_layers
from sightline.prediction.sensitivity import sensitivity
from sightline.scenario import Scenario

A100, H100 = "8x a100-sxm-80gb", "8x h100-sxm-80gb"


def mixed(*devices: str, global_batch: int = 64, model: str = "llama-2-7b", **plan: object) -> Scenario:
    return training(
        model=model,
        cluster={"devices": list(devices)},
        global_batch=global_batch,
        plan={"framework": "megatron", "micro_batch": 1, **plan},
    )


def in_groups(scenario: Scenario, **plan: object) -> Scenario:
    """A scenario of two nodes whose cluster is described as two groups of the same devices."""
    node = replace(scenario.cluster, devices=8)
    return replace(
        scenario, cluster=replace(scenario.cluster, groups=(node, node)), plan=replace(scenario.plan, **plan)
    )


def test_groups_of_the_same_devices_are_loaded_as_one():
    whole, groups = mixed("16x h100-sxm-80gb"), mixed(H100, H100)
    assert groups.cluster.groups == ()
    assert to_mapping(groups) == to_mapping(whole)


@pytest.mark.parametrize("plan", [{}, {"zero_stage": 1}, {"tensor_parallel": 4}, {"pipeline_parallel": 4}])
def test_replicas_on_equal_groups_are_the_uniform_prediction(plan):
    scenario = training(
        model="llama-2-7b",
        cluster="16x h100-sxm-80gb",
        global_batch=64,
        plan={"framework": "megatron", "micro_batch": 1} | plan,
    )
    plain, groups = predict(scenario), predict(in_groups(scenario, split="data"))
    assert groups.scenario.plan.group_batches == (32, 32)
    assert groups.step_time_s == pytest.approx(plain.step_time_s, rel=1e-12)
    assert groups.energy_per_step_j == pytest.approx(plain.energy_per_step_j, rel=1e-12)
    assert dict(groups.memory_bytes) == pytest.approx(dict(plain.memory_bytes))
    assert groups.phases == pytest.approx(plain.phases)
    assert groups.mfu == pytest.approx(plain.mfu)


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"tensor_parallel": 4},
        {"schedule": "gpipe"},
        {"framework": "torchtitan", "schedule": "zero-bubble"},
        {"zero_stage": 1},
    ],
)
@pytest.mark.parametrize("stages", [2, 4])
def test_stages_on_equal_groups_are_the_uniform_prediction(stages, plan):
    scenario = training(
        model="gpt-3-175b",
        cluster="16x h100-sxm-80gb",
        global_batch=64,
        plan={"framework": "megatron", "micro_batch": 1, "pipeline_parallel": stages} | plan,
    )
    plain = predict(scenario)
    groups = predict(in_groups(scenario, split="pipeline", stage_layers=tuple(stage_layers(96, stages))))
    # Only what each stage does once a step is its own there, and the largest of any stage's here.
    assert groups.step_time_s == pytest.approx(plain.step_time_s, rel=0.01)
    assert groups.memory_bytes["total"] == pytest.approx(plain.memory_bytes["total"], rel=1e-9)


def test_stated_layers_on_equal_devices_are_those_of_the_framework():
    plan = {"framework": "megatron", "pipeline_parallel": 4, "tensor_parallel": 2, "micro_batch": 1}
    asked = {"model": "llama-2-7b", "cluster": "16x h100-sxm-80gb", "global_batch": 64}
    plain = predict(training(**asked, plan=plan))
    stated = predict(training(**asked, plan={**plan, "stage_layers": [8, 8, 8, 8]}))
    assert stated.step_time_s == pytest.approx(plain.step_time_s, rel=1e-12)
    assert stated.memory_bytes["total"] == pytest.approx(plain.memory_bytes["total"], rel=1e-12)
    assert sum(stated.phases.values()) == pytest.approx(stated.step_time_s)
    uneven = predict(training(**asked, plan={**plan, "stage_layers": [2, 10, 10, 10]}))
    assert uneven.step_time_s > stated.step_time_s


@pytest.mark.parametrize("plan", [{}, {"pipeline_parallel": 2}, {"pipeline_parallel": 4, "split": "pipeline"}])
def test_a_mixed_step_lies_between_those_of_its_devices(plan):
    slow, fast = (
        predict(mixed(f"16x {name}", **{k: v for k, v in plan.items() if k != "split"}))
        for name in ("a100-sxm-80gb", "h100-sxm-80gb")
    )
    both = predict(mixed(A100, H100, **plan))
    assert fast.step_time_s < both.step_time_s < slow.step_time_s
    assert sum(both.phases.values()) == pytest.approx(both.step_time_s)
    assert sum(row.exposed_s for row in both.rows) == pytest.approx(both.step_time_s)
    low, high = both.interval["step_time_s"]
    assert low < both.step_time_s < high
    assert fast.cost_usd is both.cost_usd is None
    assert both.peak_flops == pytest.approx((slow.peak_flops + fast.peak_flops) / 2)


def test_the_faster_devices_get_more_layers_and_say_so():
    profile = predict(mixed(A100, H100, pipeline_parallel=2, split="pipeline"))
    first, last = profile.scenario.plan.stage_layers
    assert first + last == 32
    assert last > 1.5 * first
    assert f"stage 1 on 8 x a100-sxm-80gb: {first} layers and the embedding" in profile.warnings
    assert f"stage 2 on 8 x h100-sxm-80gb: {last} layers and the head" in profile.warnings
    assert [stage.stage for stage in profile.stages] == ["stage 1 on 8 x a100-sxm-80gb", "stage 2 on 8 x h100-sxm-80gb"]
    other = predict(mixed(H100, A100, pipeline_parallel=2, split="pipeline"))
    assert other.scenario.plan.stage_layers[0] > other.scenario.plan.stage_layers[1]


def test_the_layers_are_the_fastest_of_all_that_fit():
    chosen = predict(mixed(A100, H100, pipeline_parallel=2, split="pipeline"))
    tried = [
        predict(mixed(A100, H100, pipeline_parallel=2, split="pipeline", stage_layers=[n, 32 - n])) for n in range(33)
    ]
    assert chosen.step_time_s <= min(p.step_time_s for p in tried if p.fits) * 1.005


def test_memory_limits_the_layers_of_the_smaller_device():
    # Without the limit the L40S, with its 48 GB, would get more.
    small, large = "8x l40s-48gb", "8x a100-sxm-80gb"
    tight = predict(mixed(small, large, pipeline_parallel=2, split="pipeline", model="llama-2-13b", zero_stage=1))
    assert tight.fits
    taken = [stage.total for stage in tight.stages]
    assert taken[0] <= 48 * 2**30
    one_more = tight.scenario.plan.stage_layers[0] + 1
    more = predict(
        mixed(small, large, pipeline_parallel=2, split="pipeline", model="llama-2-13b", zero_stage=1,
              stage_layers=[one_more, 40 - one_more])
    )  # fmt: skip
    assert not more.fits or more.step_time_s >= tight.step_time_s * 0.995


def test_the_better_split_is_taken_and_the_other_named():
    chosen = predict(mixed(A100, H100, pipeline_parallel=2))
    forced = {split: predict(mixed(A100, H100, pipeline_parallel=2, split=split)) for split in ("pipeline", "data")}
    fitting = {split: profile.step_time_s for split, profile in forced.items() if profile.fits}
    assert chosen.scenario.plan.split == min(fitting, key=fitting.__getitem__)
    assert any("would take" in sentence for sentence in chosen.warnings)
    assert not any("would take" in sentence for sentence in forced["data"].warnings)


def test_shares_of_the_batch_follow_speed_and_may_be_stated():
    profile = predict(mixed(A100, H100, pipeline_parallel=2, split="data", global_batch=256))
    slow, fast = profile.scenario.plan.group_batches
    assert slow + fast == 256
    assert 1.8 < fast / slow < 3.5
    stated = predict(mixed(A100, H100, pipeline_parallel=2, group_batches=[128, 128], global_batch=256))
    assert stated.scenario.plan.split == "data"
    assert stated.step_time_s > profile.step_time_s
    assert re.search(r"idle \d+ % of the step", " ".join(stated.warnings))


def test_groups_of_different_sizes_share_batches_that_all_together_do_not_divide():
    profile = predict(mixed(A100, "4x h100-sxm-80gb", global_batch=64))
    slow, fast = profile.scenario.plan.group_batches
    assert (slow % 8, fast % 4, slow + fast) == (0, 0, 64)


def test_a_single_micro_batch_is_said_as_one():
    profile = predict(mixed(A100, H100, global_batch=2, tensor_parallel=8, split="data"))
    said = " ".join(profile.warnings)
    assert "1 of 2 sequences, 1 micro-batch of 1 on each of 1 replica" in said
    assert "1 micro-batches" not in said


def test_a_micro_batch_is_chosen_where_none_is_stated():
    open_ = predict(mixed(A100, H100, pipeline_parallel=2, split="pipeline", micro_batch=1))
    chosen = predict(
        training(
            model="llama-2-7b",
            cluster={"devices": [A100, H100]},
            global_batch=64,
            plan={"framework": "megatron", "pipeline_parallel": 2, "split": "pipeline"},
        )
    )
    assert chosen.fits
    assert chosen.step_time_s <= open_.step_time_s


def test_what_a_result_says_loads_as_the_same_answer():
    for plan in ({"pipeline_parallel": 2, "split": "pipeline"}, {"split": "data"}):
        profile = predict(mixed(A100, H100, **plan))
        again = predict(load(profile.to_dict()["scenario"]))
        assert again.step_time_s == profile.step_time_s
        assert again.scenario.plan.to_dict() == profile.scenario.plan.to_dict()
        assert to_mapping(again.scenario) == to_mapping(profile.scenario)


def test_leading_layers_stay_at_the_front():
    profile = predict(
        training(
            model="deepseek-v3",
            cluster={"devices": ["128x h800-sxm-80gb", "128x h200-sxm-141gb"]},
            sequence_length=4096,
            global_batch=1024,
            plan={"framework": "megatron", "pipeline_parallel": 16, "expert_parallel": 16, "micro_batch": 1,
                  "zero_stage": 1, "split": "pipeline"},
        )
    )  # fmt: skip
    assert sum(profile.scenario.plan.stage_layers) == 61
    assert profile.step_time_s > 0


@settings(max_examples=15)
@given(st.sampled_from(["llama-2-7b", "mixtral-8x7b", "mpt-7b"]), st.sampled_from([1, 2]), st.sampled_from([0, 1, 3]))
def test_every_answer_is_consistent(model, tensor, zero):
    degrees = {"tensor_parallel": tensor, "zero_stage": zero}
    for split, stages in product(("pipeline", "data"), (2, 4)):
        profile = predict(mixed(A100, H100, model=model, pipeline_parallel=stages, split=split, **degrees))
        assert sum(profile.phases.values()) == pytest.approx(profile.step_time_s)
        assert sum(profile.limits.values()) == pytest.approx(profile.step_time_s)
        assert 0 < profile.mfu < 1
        totals = [float(stage.total) for stage in profile.stages]
        assert float(profile.memory_bytes["total"]) in totals


@pytest.mark.parametrize(
    ("devices", "plan", "said"),
    [
        (["4x a100-sxm-80gb", "12x h100-sxm-80gb"], {"tensor_parallel": 8}, "would span heterogeneous devices"),
        ([A100, H100], {"pipeline_parallel": 16, "split": "data"}, "plan.split is data, with replicas of 16 devices"),
        ([A100, H100], {"split": "pipeline"}, "plan.split is pipeline, with stages of 16 devices in 1 stages"),
        ([A100, H100], {"pipeline_parallel": 2, "stage_layers": [16, 15]}, "allowed: the model's 32 layers"),
        ([A100, H100], {"pipeline_parallel": 2, "stage_layers": [32]}, "one number of layers per stage"),
        ([A100, H100], {"group_batches": [60, 4]}, "a multiple of replicas x plan.micro_batch"),
        ([A100, H100], {"group_batches": [60, 5]}, "allowed: workload.global_batch 64"),
        (["16x h100-sxm-80gb"], {"split": "data"}, "all devices of the cluster are equal"),
        ([A100, H100], {"dtype": "fp8"}, "allowed on a100-sxm-80gb: "),
        ([H100, A100], {"dtype": "fp8"}, "allowed on a100-sxm-80gb: "),
        ([A100, H100], {"split": "rows"}, "plan.split is 'rows'; allowed: pipeline, data"),
        ([A100, H100], {"micro_batch": 8}, "workload.global_batch is 64"),
    ],
)
def test_what_is_refused(devices, plan, said):
    with pytest.raises(InputError, match=said.replace("[", "\\[")):
        mixed(*devices, **plan)


def test_what_asks_for_equal_devices_says_so():
    with pytest.raises(InputError, match="heterogeneous devices"):
        sensitivity(mixed(A100, H100))
