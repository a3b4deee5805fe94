"""A question that names no framework is searched in others where the typical one has no plan."""

import pytest

from sightline.planning.search import plan
from sightline.progress import Progress

EIGHT = {"cluster": "8x h100-sxm-80gb", "workload": {"task": "finetune", "sequence_length": 2048, "global_batch": 64}}
TUNED = {"model": "llama-3.1-8b", **EIGHT}
ADAPTED = {"model": "llama-3.1-70b", **EIGHT, "plan": {"adapter": "lora"}}

PRETRAINED = {**TUNED, "workload": {**EIGHT["workload"], "task": "pretrain"}}


def in_framework(asked, name, **request):
    return plan({**asked, "plan": {**asked.get("plan", {}), "framework": name}}, top=1, **request)


@pytest.mark.parametrize(
    ("asked", "frameworks"),
    [
        (TUNED, ("transformers", "megatron", "deepspeed", "fsdp", "torchtitan", "torchtune", "maxtext")),
        (ADAPTED, ("fsdp", "deepspeed", "torchtune")),
    ],
)
def test_the_best_of_all_frameworks_answers_where_the_typical_one_has_no_plan(asked, frameworks):
    alone = [in_framework(asked, name) for name in frameworks]
    answer = plan(asked, top=1)
    best = min((one.plans[0] for one in alone if one.plans), key=lambda one: one.value)
    assert answer.plans[0].value == best.value
    assert answer.plans[0].profile.scenario.plan.framework.name == best.profile.scenario.plan.framework.name
    assert answer.feasible == sum(one.feasible for one in alone)
    assert "plan.framework" in answer.free
    assert "plan.framework" not in answer.held_fixed
    # Plans that cannot be launched are searched beside those that can.
    assert plan(asked, top=1, launchable=False).evaluated > answer.evaluated


def test_a_framework_that_has_a_plan_or_is_named_is_searched_alone():
    small = {**ADAPTED, "model": "llama-3.1-8b"}
    alone = in_framework(small, "transformers")
    assert plan(small, top=1).evaluated == alone.evaluated
    assert not in_framework(TUNED, "transformers").plans
    megatron = in_framework(PRETRAINED, "megatron")
    assert plan(PRETRAINED, top=1).evaluated == megatron.evaluated


def test_a_model_that_the_typical_framework_cannot_launch_is_searched_in_others():
    pretrained = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    answer = plan({"model": "gemma-2-9b", **EIGHT, "workload": pretrained}, top=1)
    assert answer.plans[0].profile.scenario.plan.framework.name in ("fsdp", "deepspeed")


def test_what_keeps_the_typical_framework_from_a_launch_is_named():
    answer = plan({**PRETRAINED, "plan": {"fused_norm": False}}, top=1)
    assert sum("megatron" in one and "plan.fused_norm is false" in one for one in answer.warnings) == 1
    assert answer.plans[0].profile.scenario.plan.framework.name != "megatron"
    # Where memory or a limit decides, no field is blamed.
    tuned = plan(TUNED, top=1)
    assert not any("transformers cannot launch" in warning for warning in tuned.warnings)


def test_a_version_that_others_do_not_have_leaves_the_typical_framework():
    answer = plan({**TUNED, "plan": {"framework_version": "4.46"}}, top=1)
    assert not answer.plans
    assert "plan.framework" in answer.held_fixed


def test_what_is_found_in_other_frameworks_is_kept_too(tmp_path):
    first = plan(TUNED, top=1, where=str(tmp_path))
    again = plan(TUNED, top=1, where=str(tmp_path), progress=Progress())
    assert first.plans[0].value == again.plans[0].value == plan(TUNED, top=1).plans[0].value


def test_nothing_fits_in_any_framework_leads_to_the_nearest_that_does():
    answer = plan({**TUNED, "model": "llama-3.1-405b", "cluster": "1x h100-sxm-80gb"}, top=1)
    assert not answer.plans
    assert all(one.plan.profile.fits and one.plan.launchable for one in answer.nearest)


def test_every_other_framework_with_a_plan_is_an_alternative():
    pretrained = {"model": "llama-2-7b", **EIGHT, "workload": {**EIGHT["workload"], "task": "pretrain"}}
    answer = plan(pretrained, top=1)
    losses = {one.set["plan.framework"]: one.loss for one in answer.alternatives}
    assert set(losses) == {"deepspeed", "fsdp", "maxtext", "torchtitan"}
    for name, loss in losses.items():
        assert loss == pytest.approx(in_framework(pretrained, name).plans[0].value / answer.plans[0].value - 1)
    assert not list(in_framework(pretrained, "megatron").alternatives)


def test_why_a_named_framework_launches_no_plan_is_a_warning():
    answer = in_framework({**TUNED, "plan": {"adapter": "lora"}}, "megatron")
    assert not answer.plans
    assert any("plan.adapter is lora" in one and "megatron-swift" in one for one in answer.warnings)
    assert not any("cannot launch" in one for one in in_framework(TUNED, "transformers").warnings)
