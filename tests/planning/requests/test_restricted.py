"""Values that a search is restricted to: those that cannot be are refused or named, and counts add up."""

import pytest

from sightline.errors import InputError
from sightline.loading.spaces import load_spaces
from sightline.planning.request_spaces import together
from sightline.planning.search import plan

FIXED = {"framework": "megatron", "pipeline_parallel": 1, "context_parallel": 1, "offload": "none"}


def asked(stated=(), devices="4x a100-sxm-80gb", model="llama-3.2-1b", **work):
    work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 8} | work
    return {"model": model, "cluster": devices, "workload": work, "plan": FIXED | dict(stated)}


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (asked(devices={"any": ["1x rtx-4090", "1x foo-gpu"]}), "cluster.device is 'foo-gpu'"),
        (asked({"adapter": {"any": ["lora", "dora"]}}, task="finetune"), "plan.adapter.kind is 'dora'"),
        (asked({"dtype": {"any": ["bf16", "fp9"]}}), "plan.dtype is 'fp9'"),
        (asked(model={"any": ["llama-3-70b", "llama-4-99b"]}), "model is 'llama-4-99b'"),
        (asked({"framework": {"any": ["megatron", "megatrom"]}}), "plan.framework is 'megatrom'"),
    ],
)
def test_a_value_that_nobody_knows_is_refused(question, said):
    with pytest.raises(InputError) as error:
        load_spaces(question)
    assert [problem for problem in error.value.problems if said in problem] == list(error.value.problems)


def test_a_value_that_a_rule_excludes_is_left_out_with_a_warning():
    answer = plan(asked({"dtype": {"any": ["bf16", "fp8", "mxfp8"]}}))
    assert answer.plans
    assert [w.partition(";")[0] for w in answer.warnings] == [
        "left out: plan.dtype is 'fp8'",
        "left out: plan.dtype is 'mxfp8'",
    ]


def test_values_of_which_a_rule_leaves_none_are_refused():
    with pytest.raises(InputError, match=r"plan\.dtype is 'fp8'"):
        load_spaces(asked({"dtype": {"any": ["fp8", "mxfp8"]}}))


def test_a_value_without_a_valid_plan_is_a_warning():
    answer = plan(asked({"data_parallel": 4}, global_batch={"any": [256, 255]}))
    assert answer.plans
    assert "workload.global_batch 255 has no valid plan" in answer.warnings
    assert not [w for w in answer.warnings if "256" in w]


def test_several_scenarios_are_refused_by_name():
    several = "\n---\n".join(f"name: {name}\nmodel: llama-3.2-1b\ncluster: 1x h100-sxm" for name in ("first", "second"))
    with pytest.raises(InputError, match=r"got 2 scenarios .*'first', 'second'"):
        load_spaces(several)


def test_only_sizes_of_one_cluster_of_the_same_question_are_searched_together():
    sizes = {"any": ["8x a100-sxm-80gb", "16x a100-sxm-80gb"]}
    (both,) = together(load_spaces(asked(devices=sizes)))
    assert [cluster.devices for cluster in both.sizes] == [8, 16]
    for other in (
        asked({"dtype": {"any": ["bf16", "fp16"]}}, devices=sizes),
        asked(model={"any": ["llama-3.2-1b", "llama-3.2-3b"]}, devices=sizes),
    ):
        assert len(together(load_spaces(other))) == 2
    swept = asked(devices=sizes) | {"sweep": {"model": ["llama-3.2-1b", "llama-3.2-3b"]}}
    assert {space.scenario.model.name for space in together(load_spaces(swept))} == {"llama-3.2-1b", "llama-3.2-3b"}


@pytest.mark.parametrize("limits", [{}, {"max_memory": "8 GB"}, {"deadline": "1h", "budget": "60"}])
def test_evaluated_plans_are_feasible_or_beyond_a_limit(limits):
    question = asked(model="llama-2-7b", sequence_length=16384, total_tokens=1e9, global_batch=64)
    answer = plan(question, **limits)
    counts = answer.rejected
    beyond = sum(counts.get(name, 0) for name in ("memory", "deadline", "budget"))
    assert answer.evaluated == answer.feasible + beyond
    assert counts["micro_batch"] > 0


def test_stated_layers_of_stages_are_not_searched():
    with pytest.raises(InputError, match=r"plan.stage_layers is 8, 8"):
        plan(asked({"pipeline_parallel": 2, "stage_layers": [8, 8]}))


def test_stated_layers_of_stages_on_unlike_devices_are_kept():
    stated = {"pipeline_parallel": 2, "stage_layers": [6, 10], "split": "pipeline"}
    devices = {"devices": ["2x a100-sxm-80gb", "2x h100-sxm-80gb"]}
    assert not plan(asked(stated, devices)).plans
    found = plan(asked(stated, devices), launchable=False)
    assert {one.profile.scenario.plan.stage_layers for one in found.plans} == {(6, 10)}
