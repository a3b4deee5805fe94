"""Compilation is searched where the framework has it."""

import pytest

from sightline.planning.search import plan

ASKED = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
}
FIXED = {"tensor_parallel": 1, "pipeline_parallel": 1, "micro_batch": 1, "zero_stage": 3, "recompute": "none"}


def found(framework, **stated):
    return plan({**ASKED, "plan": {"framework": framework, **FIXED, **stated}}, top=10)


def compiled(answer):
    return {one.profile.scenario.plan.compile for one in answer.plans}


@pytest.mark.parametrize("framework", ["torchtitan", "deepspeed", "fsdp"])
def test_both_are_searched_where_a_framework_has_both(framework):
    answer = found(framework)
    assert "compile" in answer.free
    assert "plan.compile" not in answer.held_fixed
    assert compiled(answer) == {False, True}
    assert answer.evaluated == sum(found(framework, compile=value).evaluated for value in (False, True))


@pytest.mark.parametrize("value", [False, True])
def test_what_is_stated_stays(value):
    answer = found("torchtitan", compile=value)
    assert answer.held_fixed["plan.compile"] is value
    assert compiled(answer) == {value}


def test_where_there_is_no_choice_nothing_is_searched():
    answer = found("megatron")
    assert "compile" not in answer.free
    assert answer.held_fixed["plan.compile"] is False
