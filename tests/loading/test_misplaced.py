"""Keys in the wrong part of a scenario: refused with the part that they belong to."""

import pytest

from sightline import load
from sightline.errors import InputError

RIGHT = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    "plan": {"framework": "megatron", "micro_batch": 1},
}


def problems_of(scenario: dict) -> tuple[str, ...]:
    with pytest.raises(InputError) as refused:
        load(scenario)
    return refused.value.problems


def test_a_workload_at_the_top_is_told_where_it_belongs_and_nothing_else() -> None:
    flat = {**{k: v for k, v in RIGHT.items() if k != "workload"}, **RIGHT["workload"]}
    assert problems_of(flat) == tuple(
        f"{key} is not a known key of the top level of the scenario; use workload.{key}" for key in RIGHT["workload"]
    )


@pytest.mark.parametrize(
    ("changed", "home"),
    [
        ({"micro_batch": 2}, "plan"),
        ({"workload": {**RIGHT["workload"], "zero_stage": 1}}, "plan"),
        ({"plan": {"sequence_length": 4096}}, "workload"),
        ({"plan": {"per_node": 4}}, "cluster"),
        ({"cluster": {"devices": "8x a100-sxm-80gb", "tensor_parallel": 2}}, "plan"),
        ({"step_time_s": 1.2}, "measured"),
        ({"hidden_size": 4096}, "model"),
        (
            {"workload": {"task": "generate", "batch": 1, "prompt_tokens": 8, "output_tokens": 8, "max_sequences": 4}},
            "plan",
        ),
    ],
)
def test_every_part_knows_the_keys_of_the_others(changed: dict, home: str) -> None:
    (problem,) = [one for one in problems_of(RIGHT | changed) if "; use " in one]
    assert f"; use {home}." in problem


def test_what_else_is_wrong_is_said_of_what_was_meant() -> None:
    found = problems_of({**RIGHT, "zero_stage": 7, "zero_stagee": 1})
    assert any("use plan." in one for one in found)
    assert any(one.startswith("plan.zero_stage is 7; allowed: 0, 1, 2, 3") for one in found)
    assert any(one.startswith("zero_stagee is not a known key") for one in found)


def test_a_scenario_without_misplaced_keys_is_read_as_it_is() -> None:
    assert load(RIGHT).plan.micro_batch == 1


def test_keys_of_another_task_are_said_to_be_that() -> None:
    found = problems_of({**RIGHT, "workload": {**RIGHT["workload"], "task": "generate"}})
    assert "workload.sequence_length applies to pretrain, finetune; workload.task is generate" in found
    assert "workload.global_batch applies to pretrain, finetune; workload.task is generate" in found
    assert not [one for one in found if "did you mean" in one]
    assert any(one.startswith("workload.batch is missing") for one in found)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plan": {"tp": 2}}, "plan.tp is not a known key - did you mean 'tensor_parallel'?"),
        (
            {"workload": {**RIGHT["workload"], "gbs": 2}},
            "workload.gbs is not a known key - did you mean 'global_batch'?",
        ),
        ({"plan": {"dtype": "bfloat16"}}, "did you mean 'bf16'?"),
        ({"plan": {"framework": ["megatron", "fsdp"]}}, "plan.framework is "),
        (
            {"plan": {"framework": "megatron", "framework_version": "0.2", "zero_stage": 3}},
            "plan.zero_stage is 3",
        ),
    ],
)
def test_what_others_call_it_is_understood_far_enough_to_say_our_name(changed: dict, said: str) -> None:
    assert any(said in one for one in problems_of(RIGHT | changed))


def test_fields_that_are_left_to_a_search_are_told_who_searches() -> None:
    plan = {**RIGHT["plan"], "micro_batch": {"from": 1, "to": 4}, "adapter": {"any": ["none", "lora"]}}
    said = problems_of({**RIGHT, "cluster": {"any": ["8x a100-sxm-80gb", "8x h100-sxm-80gb"]}, "plan": plan})
    values = (
        "cluster is {'any': ['8x a100-sxm-80gb', '8x h100-sxm-80gb']}; allowed: one value",
        "plan.micro_batch is {'from': 1, 'to': 4}; allowed: one value",
        "plan.adapter is {'any': ['none', 'lora']}; allowed: one value",
    )
    assert all(problem.startswith(value) for problem, value in zip(said, values, strict=True))
    assert all("`sightline plan`" in problem for problem in said)


def test_a_list_that_no_search_takes_either_is_refused_as_before() -> None:
    (said,) = problems_of({**RIGHT, "plan": {**RIGHT["plan"], "micro_batch": {"any": 2}}})
    assert said.startswith("plan.micro_batch is ")
    assert "sightline plan" not in said
