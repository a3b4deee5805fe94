"""Where nothing fits: the nearest plans that do, and commands that ask for them."""

import shlex

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.planning.rationale.nearest import Unmet, nearest_plans
from sightline.planning.search import plan
from sightline.prediction.training.step_profile import profile_of
from sightline.scenario.rules import breaks_no_rule
from sightline.scenario.space import TRAINING_FIELDS, Space

SMALL = {
    "model": "llama-3-8b",
    "cluster": "1x rtx-4090",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
    "plan": {"framework": "transformers", "micro_batch": 2},
}
LARGE = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
    "plan": {"framework": "deepspeed", "zero_stage": 1, "micro_batch": 8},
}
RUN = {
    "model": "gpt-1.3b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 512, "total_tokens": 1e12},
    "plan": {"framework": "megatron"},
}


def asked(mapping):
    """The nearest plans of a question whose plan is stated whole."""
    scenario = sl.load(mapping)
    values = {name: (getattr(scenario.plan, name),) for name in TRAINING_FIELDS}
    unmet = Unmet(space=Space(scenario=scenario, values=values), asked=sl.predict(scenario))
    return unmet.asked, nearest_plans(unmet, profile_of, "sightline predict FILE")


def settings(command):
    words = shlex.split(command)
    return [words[i + 1] for i, word in enumerate(words) if word == "--set"]


@pytest.mark.parametrize("question", [SMALL, LARGE])
def test_every_command_asks_for_a_plan_that_fits(question):
    profile, found = asked(question)
    assert not profile.fits
    assert found
    for one in found:
        tried = sl.predict(sl.load(question, settings(one.command)))
        assert tried.fits
        assert breaks_no_rule(tried.scenario)
        assert tried.step_time_s == pytest.approx(one.plan.profile.step_time_s)
        assert one.plan.profile.fits


def test_a_single_change_comes_first():
    _, found = asked(LARGE)
    assert found[0].set == {"plan.micro_batch": 1}
    assert "USD per hour" in found[0].sentence
    assert "x the time" in found[0].sentence


def test_several_changes_and_adapters_where_the_question_has_no_plan():
    _, found = asked(SMALL)
    assert {one.set.get("plan.adapter") for one in found} >= {"lora", "qlora"}
    assert all(one.set["workload.task"] == "finetune" for one in found if "plan.adapter" in one.set)
    assert any(len(one.set) > 2 for one in found)


def test_who_trains_lora_is_told_of_qlora():
    question = {
        "model": "llama-3-70b",
        "cluster": "1x h100-sxm-80gb",
        "workload": {"task": "finetune", "sequence_length": 1024, "global_batch": 8},
        "plan": {"framework": "transformers", "adapter": "lora"},
    }
    assert {"plan.adapter": "qlora"}.items() <= plan(question, launchable=True).nearest[0].set.items()


def test_an_adapter_is_not_suggested_to_who_trains_one():
    tuned = {"framework": "transformers", "adapter": {"kind": "qlora"}, "micro_batch": 2}
    _, found = asked(
        SMALL | {"model": "llama-3-70b", "workload": SMALL["workload"] | {"task": "finetune"}, "plan": tuned}
    )
    assert not [one for one in found if "plan.adapter" in one.set]


def test_more_devices_where_no_plan_helps():
    plan_of_one = {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1, "recompute": "full"}
    _, found = asked(LARGE | {"model": "llama-3-70b", "cluster": "2x a100-sxm-80gb", "plan": plan_of_one})
    (larger,) = [one for one in found if one.set.keys() == {"cluster"}]
    assert int(larger.set["cluster"].partition("x")[0]) in (4, 8, 16, 32)
    assert larger.plan.profile.scenario.cluster.devices == int(larger.set["cluster"].partition("x")[0])


def test_commands_have_limits_as_they_were_written():
    bound = plan(RUN, launchable=True, deadline="240h", budget="9M").nearest[1:]
    assert bound
    assert all("--deadline 240h --budget 9M" in one.command for one in bound)


def test_a_deadline_that_nothing_meets_is_answered_with_what_would():
    answer = plan(RUN, launchable=True, deadline="10d")
    assert not answer.plans
    looser, fewer, larger = answer.nearest
    days = float(looser.set["deadline"].removesuffix("d"))
    assert plan(RUN, launchable=True, deadline=looser.set["deadline"]).feasible
    assert not plan(RUN, launchable=True, deadline=f"{days - (1 if days >= 10 else 0.1):g}d").feasible
    for one in (fewer, larger):
        assert "--deadline 10d" in one.command
        assert plan(RUN, launchable=True, deadline="10d", overrides=settings(one.command)).feasible
    assert fewer.set["workload.total_tokens"] < 1e12
    assert larger.plan.figures["calendar_time_s"] <= 10 * 86400


def test_a_budget_that_nothing_meets_names_the_least():
    answer = plan(RUN, launchable=True, budget=1000)
    assert plan(RUN, launchable=True, budget=answer.nearest[0].set["budget"]).feasible
    assert answer.nearest[0].plan.figures["cost_usd"] > 1000


def test_a_search_that_finds_plans_has_no_nearest_and_says_what_it_rests_on():
    answer = plan(RUN, launchable=True, top=2)
    assert answer.plans
    assert not answer.nearest
    assert answer.neighbours
    assert answer.hardware
    assert "of wall-clock time" in answer.assumptions["availability"]
    assert all(one.loss is None or one.loss > -0.02 for one in answer.neighbours)


@pytest.mark.parametrize(
    ("framework", "devices"),
    [
        ("transformers", "2x rtx-4090"),
        ("megatron", "1x rtx-4090"),
        pytest.param("transformers", "1x rtx-4090", marks=pytest.mark.slow),
        pytest.param("megatron", "2x rtx-4090", marks=pytest.mark.slow),
    ],
)
def test_a_model_that_is_far_too_large_has_ways_that_were_tried(framework, devices):
    question = SMALL | {"model": "llama-3-70b", "cluster": devices, "plan": {"framework": framework}}
    answer = plan(question, launchable=True)
    assert not answer.plans
    assert any("cluster" in one.set for one in answer.nearest)
    for one in answer.nearest:
        assert plan(question, launchable=True, top=1, overrides=settings(one.command)).plans


def test_a_device_with_more_memory_is_one_that_stands_in():
    answer = plan(SMALL | {"model": "llama-3-70b", "plan": {"framework": "deepspeed"}}, launchable=True)
    clusters = [one.set["cluster"] for one in answer.nearest if "cluster" in one.set]
    (other,) = [cluster for cluster in clusters if not cluster.endswith("rtx-4090")]
    device = sl.load(SMALL | {"cluster": other}).cluster.device
    own = sl.load(SMALL).cluster.device
    assert device.memory_bytes > own.memory_bytes
    assert device.architecture.startswith("sm_")


@pytest.mark.parametrize("limits", [{}, {"deadline": "1 h", "budget": 0.5}])
def test_limits_that_nothing_meets_are_loosened_together(limits):
    question = SMALL | {"model": "llama-3.2-1b", "cluster": "4x a100-sxm-80gb", "plan": {"framework": "megatron"}}
    question |= {"workload": SMALL["workload"] | {"total_tokens": 1e9}}
    (found,) = plan(question, max_memory="1 GB", launchable=True, **limits).nearest
    assert found.set.keys() == {"max-memory"} | limits.keys()
    assert found.command.count("--max-memory") == 1
    looser = {name.replace("-", "_"): value for name, value in found.set.items()}
    assert plan(question, launchable=True, **looser).feasible
    # A digit less of any of them is too little.
    for name, tighter in {"max_memory": "3.9 GB", "deadline": "0.4 d", "budget": 100}.items():
        if name in looser:
            assert not plan(question, launchable=True, **(looser | {name: tighter})).feasible


def test_values_of_which_each_breaks_a_rule_are_refused_by_it():
    question = SMALL | {"cluster": "4x a100-sxm-80gb"}
    with pytest.raises(InputError, match=r"tensor_parallel is 3; allowed: a divisor.*\n(.*\n)*.*tensor_parallel is 5"):
        plan(question | {"plan": {"framework": "megatron", "tensor_parallel": {"any": [3, 5]}}})
    assert plan(question | {"plan": {"framework": "megatron", "tensor_parallel": {"any": [3, 4]}}}).evaluated


def test_qlora_is_suggested_to_who_trains_lora():
    tuned = SMALL | {"model": "llama-2-13b", "workload": SMALL["workload"] | {"task": "finetune"}}
    question = tuned | {"plan": {"framework": "transformers", "adapter": "lora"}}
    (one,) = [one for one in plan(question, launchable=True).nearest if one.set == {"plan.adapter": "qlora"}]
    found = [each.profile for each in plan(question, launchable=True, overrides=settings(one.command)).plans]
    assert all(profile.fits and profile.scenario.plan.quantization == "nf4" for profile in found)
    # First may be one that fits more surely.
    assert min(profile.step_time_s for profile in found) == pytest.approx(one.plan.profile.step_time_s)


def test_only_the_limit_gives_way_where_only_a_limit_is_too_tight():
    stated = RUN | {"plan": {"framework": "megatron", "zero_stage": 1, "micro_batch": 4}}
    found = plan(stated, launchable=True, deadline="5d").nearest[0]
    assert set(found.set) == {"deadline"}
    assert "% beyond the deadline" in found.sentence
    assert (found.plan.profile.scenario.plan.zero_stage, found.plan.profile.scenario.plan.micro_batch) == (1, 4)
    assert plan(stated, launchable=True, deadline=found.set["deadline"]).feasible


def test_only_the_memory_limit_gives_way_first():
    stated = RUN | {"plan": {"framework": "megatron", "zero_stage": 0, "tensor_parallel": 1, "offload": "none"}}
    found = plan(stated | {"cluster": "1x h100-sxm-80gb"}, max_memory="10 GB").nearest[0]
    assert set(found.set) == {"max-memory"}
    assert "% beyond the max-memory" in found.sentence
    again = plan(stated | {"cluster": "1x h100-sxm-80gb"}, max_memory=found.set["max-memory"])
    assert again.feasible


def test_every_cluster_that_was_asked_for_is_tried_before_others():
    clusters = {"any": ["1x rtx-4090", "1x h100-sxm-80gb"]}
    asked_of_both = SMALL | {
        "cluster": clusters,
        "plan": {"framework": "deepspeed", "zero_stage": 0, "offload": "none"},
    }
    answer = plan(asked_of_both, launchable=True)
    assert not answer.plans
    assert "1x h100-sxm-80gb" in [one.set.get("cluster") for one in answer.nearest]
    assert all(one.set["cluster"] in clusters["any"] for one in answer.nearest)
    for one in answer.nearest:
        assert plan(asked_of_both, launchable=True, overrides=settings(one.command)).plans


def test_the_memory_of_a_host_that_nobody_stated_is_said():
    question = SMALL | {"plan": {"framework": "deepspeed", "zero_stage": 0, "offload": "none"}}
    described = [one.sentence for one in plan(question, launchable=True).nearest if "plan.offload" in one.set]
    assert described
    assert all("of host memory per node, assumed (epyc-7742)" in sentence for sentence in described)
    offloading = SMALL | {"plan": {"framework": "deepspeed", "offload": {"any": ["none", "optimizer"]}}}
    assert "GiB of host memory" in plan(offloading, launchable=True).assumptions["offloading"]


def test_a_stated_host_stays_on_other_devices():
    host = {"memory": "64 GB", "memory_bandwidth": "50 GB/s", "device_bandwidth": "12 GB/s"}
    own = SMALL | {"model": "llama-3-70b", "cluster": {"devices": "1x rtx-4090", "host": host}}
    for one in plan(own | {"plan": {"framework": "deepspeed"}}, launchable=True).nearest:
        assert float(one.plan.profile.scenario.cluster.host.memory_bytes) == 64e9
        assert "assumed" not in one.sentence


def test_the_memory_limit_gives_way_on_the_cluster_that_needs_the_least():
    stated = RUN | {"plan": {"framework": "megatron", "zero_stage": 1, "tensor_parallel": 1, "offload": "none"}}
    clusters = {"any": ["2x h100-sxm-80gb", "2x a100-sxm-80gb"]}
    question = stated | {"cluster": clusters}
    found = plan(question, max_memory="10 GB").nearest[0]
    assert set(found.set) == {"max-memory"}
    assert plan(question, max_memory=found.set["max-memory"]).feasible


def test_what_is_far_beyond_a_limit_is_told_in_times_and_not_as_a_run_of_no_tokens():
    near, far = (plan(RUN, launchable=True, deadline=deadline).nearest for deadline in ("10d", "2h"))
    assert "% beyond the deadline" in near[0].sentence
    assert any("workload.total_tokens" in one.set for one in near)
    assert "times the deadline" in far[0].sentence
    assert "%" not in far[0].sentence
    assert not any("workload.total_tokens" in one.set for one in far)
