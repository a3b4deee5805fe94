"""Scenarios that name no framework are answered as the typical one, and say so."""

from typing import Any

import pytest

from sightline.answers.labels import subtitle
from sightline.errors import InputError
from sightline.loading import load
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
        ("pretrain", {"pipeline_parallel": 2, "schedule": "dualpipe"}, "reference"),
        ("finetune", {}, "transformers"),
        ("finetune", {"adapter": "qlora"}, "transformers"),
        ("finetune", {"zero_stage": 3}, "fsdp"),
        ("finetune", {"zero_stage": 1}, "deepspeed"),
        ("finetune", {"adapter": "lora", "tensor_parallel": 2}, "megatron"),
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
        ({"zero_stage": 1}, "megatron", set()),
    ],
)
def test_tpus_are_answered_as_maxtext_with_the_inputs_of_layers_on_the_host(plan, name, offloaded) -> None:
    scenario = asked(TRAINING | {"task": "pretrain"}, plan, "8x tpu-v6e")
    assert scenario.plan.framework.name == name
    assert scenario.plan.offload == offloaded
    assert any("plan.offload" in warning for warning in scenario.warnings) == bool(offloaded)


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
