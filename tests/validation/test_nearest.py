"""The measured cases most like a scenario."""

from sightline.loading import load
from sightline.validation.nearest import nearest_cases

TRAINED = {
    "model": "llama-3-8b",
    "cluster": "128x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 1024},
    "plan": {"framework": "megatron"},
}


def test_cases_of_the_same_device_and_framework_come_first():
    found = nearest_cases(load(TRAINED))
    assert len(found) == 8
    both = [one for one in found if one.shares == ("device", "framework")]
    assert found[: len(both)] == both != []
    assert all("h100" in one.answer.case.scenario["cluster"]["devices"] for one in both)
    assert all(one.answer.predicted > 0 for one in found)
    assert {one.quantity for one in found} == {"step_time_s"}


def test_among_equals_the_sizes_decide():
    small, large = (nearest_cases(load({**TRAINED, "cluster": f"{count}x h100-sxm-80gb"})) for count in (64, 1024))
    assert small[0].answer.case.scenario["cluster"] != large[0].answer.case.scenario["cluster"]


def test_generation_is_compared_with_generation():
    workload = {"task": "generate", "batch": 1, "prompt_tokens": 512, "output_tokens": 128}
    found = nearest_cases(load({"model": "qwen2.5-7b", "cluster": "1x a100-sxm-80gb", "workload": workload}))
    assert found
    assert all(one.answer.case.scenario["workload"]["task"] == "generate" for one in found)


def test_where_nothing_is_alike_there_is_no_case():
    assert nearest_cases(load({**TRAINED, "cluster": "8x mi300x", "plan": {"framework": "torchtitan"}})) == []
