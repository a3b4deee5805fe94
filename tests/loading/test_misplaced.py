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
