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
        f"{key} is no key of the top of the scenario; {key} belongs under workload: write workload.{key}"
        for key in RIGHT["workload"]
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
    (problem,) = [one for one in problems_of(RIGHT | changed) if "belongs under" in one]
    assert f"belongs under {home}: write {home}." in problem


def test_what_else_is_wrong_is_said_of_what_was_meant() -> None:
    found = problems_of({**RIGHT, "zero_stage": 7, "zero_stagee": 1})
    assert any("belongs under plan" in one for one in found)
    assert any(one.startswith("plan.zero_stage is 7; allowed: 0, 1, 2, 3") for one in found)
    assert any(one.startswith("zero_stagee is not a known key") for one in found)


def test_a_scenario_without_misplaced_keys_is_read_as_it_is() -> None:
    assert load(RIGHT).plan.micro_batch == 1


def test_keys_of_another_task_are_said_to_be_that() -> None:
    found = problems_of({**RIGHT, "workload": {**RIGHT["workload"], "task": "generate"}})
    assert "workload.sequence_length is a key of pretrain, finetune; workload.task is generate" in found
    assert "workload.global_batch is a key of pretrain, finetune; workload.task is generate" in found
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
        ({"plan": {"framework": ["megatron", "fsdp"]}}, "allowed: text (several values: list them under 'sweep')"),
        (
            {"plan": {"framework": "megatron", "framework_version": "0.2", "zero_stage": 3}},
            "plan.zero_stage is 3; megatron 0.2 offers 0, 1 (it is offered by: deepspeed, fsdp, galvatron, litgpt, llmq, newer",
        ),
    ],
)
def test_what_others_call_it_is_understood_far_enough_to_say_our_name(changed: dict, said: str) -> None:
    assert any(said in one for one in problems_of(RIGHT | changed))


def test_fields_that_are_left_to_a_search_are_told_who_searches() -> None:
    plan = {**RIGHT["plan"], "micro_batch": {"from": 1, "to": 4}, "adapter": {"any": ["none", "lora"]}}
    said = problems_of({**RIGHT, "cluster": {"any": ["8x a100-sxm-80gb", "8x h100-sxm-80gb"]}, "plan": plan})
    one = "; allowed: one value - `sightline plan` finds the best of several"
    assert said == (
        f"cluster is {{'any': ['8x a100-sxm-80gb', '8x h100-sxm-80gb']}}{one}",
        f"plan.micro_batch is {{'from': 1, 'to': 4}}{one}",
        f"plan.adapter is {{'any': ['none', 'lora']}}{one}",
    )


def test_a_list_that_no_search_takes_either_is_refused_as_before() -> None:
    (said,) = problems_of({**RIGHT, "plan": {**RIGHT["plan"], "micro_batch": {"any": 2}}})
    assert said.startswith("plan.micro_batch is ")
    assert "sightline plan" not in said
