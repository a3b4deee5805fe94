"""Keys of a plan that are for another task: refused with any value that asks for something, the default among them."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest
from generation_scenarios import generation
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading import operation_from_mapping
from sightline.scenario import GenerationPlan, Plan
from sightline.scenario.generation import SERVING_ONLY

Values = tuple[Any, ...]

TRAINING_ONLY: Mapping[str, tuple[Values, Values]] = {
    "context_parallel": ((1,), (2,)),
    "context_exchange": ((), ("ring", "all-to-all")),
    "data_parallel_shard": ((1,), (2,)),
    "expert_capacity": ((0, 0.0), (1, 1.5)),
    "expert_dispatch": ((), ("all-to-all", "deduplicated")),
    "expert_overlap": ((False,), (True,)),
    "prediction_layers": ((0,), (1,)),
    "micro_batch": ((), (1, 2)),
    "virtual_stages": ((1,), (2,)),
    "zero_stage": ((0,), (1, 3)),
    "sequence_parallel": ((False,), (True,)),
    "tensor_overlap": (("none",), ("backward", "all")),
    "overlap_gradient_reduce": ((False,), (True,)),
    "overlap_parameter_gather": ((False,), (True,)),
    "gradient_reduce_dtype": ((), ("fp32", "bf16")),
    "schedule": ((), ("1f1b", "gpipe")),
    "recompute": (("none", []), ("full", ["mlp"], {"modules": "full", "layers": 4})),
    # Engines have one attention.
    "attention": (("flash",), ("eager",)),
    "attention_kernel": ((), ("flash-2", "cudnn")),
    **dict.fromkeys(("fused_loss", "fused_norm", "fused_rope", "fused_activation"), ((False,), (True,))),
    "expert_launches": ((), ("grouped", "each")),
    "vocabulary_parallel": ((False,), (True,)),
    "state_dtype": ((), ("fp32", "bf16")),
    "fp8_recipe": ((), ("current", "delayed")),
    "fp8_parameter_gather": ((False,), (True,)),
    "fp8_transpose_cache": ((False,), (True,)),
    "bf16_layers": ((0,), (1, 2)),
    "narrow_head": ((False,), (True,)),
    "adapter": (("none", {"kind": "none"}), ("lora", {"kind": "lora"})),
    "adapter_exchange": ((), ("all-gather", "all-to-all")),
    "offload": (("none", [], ["none"]), ("optimizer", ["parameters"])),
    "optimizer": ((), ("adamw", "muon")),
    "compile": ((False,), (True,)),
    "launch_blocking": ((False,), (True,)),
    "split": ((), ("pipeline", "data")),
    "stage_layers": ((), ([16, 16],)),
}
"""The values that say that nothing is used, and others: the default, where it asks for something, and one more."""

GENERATION_ONLY: Mapping[str, tuple[Values, Values]] = {
    "replicas": ((1,), (2,)),
    "chunked_prefill": ((False,), (True,)),
    "max_batched_tokens": ((), (1, 8192)),
    "max_sequences": ((), (1, 8)),
    "cuda_graphs": ((False,), (True,)),
    "async_scheduling": ((False,), (True,)),
    "prefix_cache": ((False,), (True,)),
    "kv_block_tokens": ((), (1, 16, 32)),
    "memory_fraction": ((0,), (0.9, 0.5)),
    "speculative": (("none",), ({"tokens": 3, "acceptance": 0.7},)),
    "disaggregate": (("none",), ({"prefill": {}, "decode": {}},)),
    "expert_spread": ((0,), (0.9,)),
    "balanced_prompts": ((False,), (True,)),
    "redundant_experts": ((0,), (8,)),
    "expert_devices": ((0,), (8,)),
    "expert_micro_batches": ((), (1, 3)),
}
"""The same for generation."""


def unused(keys: Mapping[str, tuple[Values, Values]]) -> list[tuple[str, Any]]:
    return [(key, value) for key, (values, _) in keys.items() for value in values]


def used(keys: Mapping[str, tuple[Values, Values]]) -> list[tuple[str, Any]]:
    return [(key, value) for key, (_, values) in keys.items() for value in values]


def operator(plan: dict[str, Any]) -> object:
    workload = {"task": "operator", "operator": "matmul", "m": 16, "n": 32, "k": 64}
    return operation_from_mapping({"cluster": "1x h100-sxm-80gb", "workload": workload, "plan": plan})


def test_every_key_of_one_task_alone_is_tested_here() -> None:
    trains, generates = ({f.name for f in fields(plan)} for plan in (Plan, GenerationPlan))
    # The rest are degrees that both tasks state, though one of them works it out.
    assert trains - generates == TRAINING_ONLY.keys() | {"framework", "expert_tensor_parallel"}
    assert generates - trains == GENERATION_ONLY.keys() | {"engine", *SERVING_ONLY}


@pytest.mark.parametrize(("key", "value"), used(TRAINING_ONLY))
def test_generation_refuses_keys_of_training(key: str, value: Any) -> None:
    with pytest.raises(InputError) as refused:
        generation(plan={key: value})
    (said,) = refused.value.problems
    assert said.startswith(f"plan.{key} ")
    assert said.endswith("applies to training, not to generation")


@pytest.mark.parametrize(("key", "value"), unused(TRAINING_ONLY))
def test_generation_takes_keys_of_training_that_ask_for_nothing(key: str, value: Any) -> None:
    assert generation(plan={key: value}).plan.to_dict() == generation().plan.to_dict()


@pytest.mark.parametrize(("key", "value"), used(GENERATION_ONLY))
def test_training_and_operators_refuse_keys_of_generation(key: str, value: Any) -> None:
    for read, task in ((lambda plan: training(model="gpt-125m", plan=plan), "training"), (operator, "an operator")):
        with pytest.raises(InputError) as refused:
            read({key: value})
        (said,) = refused.value.problems
        assert said.startswith(f"plan.{key} ")
        assert said.endswith(f"applies to generation, not to {task}")
        assert "{" not in said


@pytest.mark.parametrize(("key", "value"), unused(GENERATION_ONLY))
def test_training_and_operators_take_keys_of_generation_that_ask_for_nothing(key: str, value: Any) -> None:
    assert training(model="gpt-125m", plan={key: value}).plan.to_dict() == training(model="gpt-125m").plan.to_dict()
    assert operator({key: value})


def test_pools_are_named_by_their_keys() -> None:
    with pytest.raises(InputError) as refused:
        generation(plan={"disaggregate": {"prefil": {"tensor_parallel": 2}, "decode": {}}})
    assert refused.value.problems[0].startswith("plan.disaggregate has the keys prefil, decode")
