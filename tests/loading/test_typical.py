"""Scenarios that name no framework are answered as the typical one, and say so."""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sightline import predict
from sightline.answers.labels import subtitle
from sightline.errors import InputError
from sightline.loading import load, to_mapping
from sightline.loading.plans import NOT_NAMED

TRAINING = {"sequence_length": 2048, "global_batch": 32}


def asked(workload: dict[str, Any], plan: dict[str, Any], cluster: str = "8x h100-sxm-80gb") -> Any:
    return load({"model": "llama-2-7b", "cluster": cluster, "workload": workload, "plan": plan})


@pytest.mark.parametrize(
    ("task", "plan", "name"),
    [
        ("pretrain", {}, "megatron"),
        ("pretrain", {"zero_stage": 2}, "torchtitan"),
        ("pretrain", {"zero_stage": 2, "offload": "optimizer"}, "deepspeed"),
        ("pretrain", {"zero_stage": 2, "tensor_parallel": 2}, "torchtitan"),
        ("pretrain", {"zero_stage": 2, "tensor_parallel": 2, "dtype": "fp16"}, "megatron-deepspeed"),
        ("finetune", {}, "transformers"),
        ("finetune", {"adapter": "qlora"}, "transformers"),
        ("finetune", {"zero_stage": 3}, "fsdp"),
        ("finetune", {"zero_stage": 1}, "deepspeed"),
        ("finetune", {"adapter": "lora", "tensor_parallel": 2}, "megatron"),
        ("finetune", {"adapter": "qlora", "tensor_parallel": 2}, "torchtune"),
        ("finetune", {"adapter": "qlora", "quantization": "int4", "zero_stage": 3}, "fsdp"),
    ],
)
def test_the_first_typical_framework_that_offers_the_plan_answers(task: str, plan: dict[str, Any], name: str) -> None:
    scenario = asked(TRAINING | {"task": task}, plan)
    assert scenario.plan.framework.name == name
    (said,) = [warning for warning in scenario.warnings if warning.startswith(NOT_NAMED)]
    assert f"using {name}" in said


@pytest.mark.parametrize(
    ("plan", "name", "offloaded"),
    [
        ({}, "maxtext", {"activations"}),
        ({"offload": "none"}, "maxtext", set()),
        ({"recompute": ["activation", "layernorm"]}, "maxtext", set()),
        ({"framework": "maxtext"}, "maxtext", set()),
        ({"zero_stage": 1}, "maxtext", {"activations"}),
    ],
)
def test_tpus_are_answered_as_maxtext_with_the_inputs_of_layers_on_the_host(plan, name, offloaded) -> None:
    scenario = asked(TRAINING | {"task": "pretrain"}, plan, "8x tpu-v6e")
    assert scenario.plan.framework.name == name
    assert scenario.plan.offload == offloaded
    assert any("plan.offload" in warning for warning in scenario.warnings) == bool(offloaded)


@pytest.mark.parametrize(
    ("workload", "plan", "cluster", "name", "lacking"),
    [
        ({}, {"pipeline_parallel": 2, "schedule": "dualpipe"}, "8x h100-sxm-80gb", "megatron", ["schedule"]),
        ({}, {"zero_stage": 1, "recompute": "none"}, "8x tpu-v5p", "maxtext", ["zero_stage", "recompute"]),
        (
            {"task": "finetune"},
            {"adapter": "qlora", "quantization": "int4", "tensor_parallel": 2},
            "8x h100-sxm-80gb",
            "torchtune",
            ["quantization"],
        ),
        (
            {"task": "finetune", "preference": "dpo"},
            {"tensor_parallel": 2},
            "8x h100-sxm-80gb",
            "transformers",
            ["tensor_parallel"],
        ),
    ],
)
def test_where_no_framework_offers_the_plan_one_like_the_nearest_answers(
    workload: dict[str, Any], plan: dict[str, Any], cluster: str, name: str, lacking: list[str]
) -> None:
    profile = predict(asked(TRAINING | {"task": "pretrain"} | workload, plan, cluster))
    framework = profile.scenario.plan.framework
    assert (framework.name, framework.is_like) == (name, True)
    said = [warning for warning in profile.warnings if warning.startswith(f"like {name}, but plan.")]
    assert [sentence.split("plan.")[1].split()[0] for sentence in said] == lacking
    assert f"like {name}" in subtitle(profile.scenario)[1]
    assert profile.evidence["framework"] == "extrapolated"
    again: Any = load(to_mapping(profile.scenario))
    assert again.plan.to_dict() == profile.scenario.plan.to_dict()


def test_tpus_are_answered_as_maxtext() -> None:
    scenario = asked(TRAINING | {"task": "pretrain"}, {}, "8x tpu-v5p")
    assert (scenario.plan.framework.name, scenario.plan.framework.is_like) == ("maxtext", False)


PLANS = st.fixed_dictionaries(
    {},
    optional={
        "tensor_parallel": st.sampled_from([1, 2, 4]),
        "pipeline_parallel": st.sampled_from([1, 2]),
        "context_parallel": st.sampled_from([1, 2]),
        "virtual_stages": st.sampled_from([1, 2]),
        "schedule": st.sampled_from(["gpipe", "1f1b", "zero-bubble", "dualpipe"]),
        "zero_stage": st.sampled_from([0, 1, 2, 3]),
        "sequence_parallel": st.booleans(),
        "context_exchange": st.sampled_from(["ring", "all-gather", "all-to-all"]),
        "recompute": st.sampled_from(["none", "selective", "full", "mlp"]),
        "attention": st.sampled_from(["flash", "eager"]),
        "dtype": st.sampled_from(["fp32", "fp16", "bf16", "fp8"]),
        "optimizer": st.sampled_from(["adamw", "adamw-8bit", "muon", "sgd"]),
        "offload": st.sampled_from(["none", "optimizer", "parameters", "activations"]),
        "quantization": st.sampled_from(["none", "nf4", "int4"]),
        "adapter": st.sampled_from(["none", "lora", "qlora"]),
        "fused_loss": st.booleans(),
        "state_dtype": st.sampled_from(["fp32", "bf16"]),
        "compile": st.booleans(),
    },
)


@settings(max_examples=25)
@given(
    PLANS,
    st.sampled_from(["pretrain", "finetune"]),
    st.sampled_from(["8x h100-sxm-80gb", "8x a100-sxm-80gb", "8x mi300x", "8x tpu-v5p", "8x gaudi2"]),
)
def test_a_framework_that_is_not_named_is_never_a_bound(plan: dict[str, Any], task: str, cluster: str) -> None:
    problems: list[str] = []
    try:
        scenario = asked(TRAINING | {"task": task}, plan, cluster)
    except InputError as refused:
        problems = list(refused.problems)
    # What no framework could run is refused; that the one that answers does not offer it is no reason.
    assert not any(" offers " in problem or "no such choice" in problem for problem in problems)
    assume(not problems)
    profile = predict(scenario)
    assert scenario.plan.framework.ideal is None
    assert profile.evidence["framework"] != "datasheet"
    low, high = profile.interval["step_time_s"]
    assert low < profile.step_time_s < high
    again: Any = load(to_mapping(profile.scenario))
    assert again.plan.to_dict() == profile.scenario.plan.to_dict()


def test_generation_is_answered_as_vllm() -> None:
    scenario = asked({"task": "generate", "batch": 1, "prompt_tokens": 8, "output_tokens": 8}, {}, "1x h100-sxm-80gb")
    assert scenario.plan.engine.name == "vllm"
    assert scenario.warnings[0].startswith(f"{NOT_NAMED}; using vllm")
    assert "vllm (assumed)" in subtitle(scenario)[1]


def test_who_names_a_framework_is_told_nothing() -> None:
    scenario = asked(TRAINING | {"task": "pretrain"}, {"framework": "megatron", "micro_batch": 1})
    assert not scenario.warnings
    assert "not named" not in subtitle(scenario)[1]


def test_a_mistake_in_a_plan_without_a_framework_is_said_once() -> None:
    with pytest.raises(InputError) as refused:
        asked(TRAINING | {"task": "pretrain"}, {"tensor_parallel": 3})
    assert len(refused.value.problems) == 2
