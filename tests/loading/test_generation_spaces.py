"""What a scenario of generation leaves out is free, and what it restricts is read value by value."""

import pytest

from sightline.errors import InputError
from sightline.loading.spaces import load_spaces


def spaces(plan=None, batch=8, **top):
    work = {"task": "generate", "batch": batch, "prompt_tokens": 100, "output_tokens": 10}
    return load_spaces(
        {"model": "qwen3-8b", "cluster": "8x h100-sxm-80gb", "workload": work, "plan": plan or {}, **top}
    )


def space(plan=None, batch=8):
    (found,) = spaces(plan, batch)
    return found


def test_every_field_that_is_left_out_is_free():
    found = space({"tensor_parallel": 4})
    assert "tensor_parallel" not in found.values
    assert found.scenario.plan.tensor_parallel == 4
    for name in ("framework", "replicas", "quantization", "disaggregate", "memory_fraction"):
        assert found.values[name] is None, name
    assert not found.scenario.warnings


def test_degrees_need_not_fill_the_cluster_while_others_are_free():
    assert space({"tensor_parallel": 2, "data_parallel": 1}).scenario.plan.tensor_parallel == 2
    with pytest.raises(InputError, match="32 attention heads"):
        space({"tensor_parallel": 5})


def test_restricted_values_are_read_as_a_plan_holds_them():
    plan = {
        "framework": {"any": ["TRT-LLM", "vllm"]},
        "quantization": {"any": ["none", ["fp8", "kv-fp8"]]},
        "tensor_parallel": {"from": 1, "to": 8},
        "max_sequences": 64,
    }
    values = space(plan, {"any": [1, 64]}).values
    assert values["framework"] == ("tensorrt-llm", "vllm")
    assert values["quantization"] == ((), ("fp8", "kv-fp8"))
    assert values["tensor_parallel"] == (1, 2, 4, 8)
    assert values["batch"] == (1, 64)
    assert values["max_sequences"] == (64,)


def test_what_disaggregated_workers_leave_out_is_free_too():
    pools = {"prefill": {"tensor_parallel": {"any": [1, 2]}, "batch": 4}, "decode": {"tensor_parallel": 4}}
    values = space({"disaggregate": pools}).values
    assert values["disaggregate"] == (True,)
    assert values["prefill.tensor_parallel"] == (1, 2)
    assert (values["prefill.batch"], values["decode.tensor_parallel"]) == ((4,), (4,))
    assert "prefill.replicas" not in values


@pytest.mark.parametrize("said", ["none", None, False])
def test_workers_that_do_both_may_be_asked_for(said):
    found = space({"disaggregate": said})
    assert "disaggregate" not in found.values
    assert found.scenario.plan.disaggregate is None


def test_what_no_search_lays_out_makes_a_space_for_each_value():
    found = spaces(cluster={"any": ["8x h100-sxm-80gb", "4x h200-sxm-141gb"]})
    assert [one.scenario.cluster.devices for one in found] == [8, 4]
    assert [one.options["cluster"] for one in found] == ["8x h100-sxm-80gb", "4x h200-sxm-141gb"]


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ({"framework": {"any": ["vlm"]}}, "did you mean 'vllm'"),
        ({"quantization": {"any": ["fp9"]}}, "fp9"),
        ({"tensor_parallel": {"any": [0]}}, "plan.tensor_parallel is 0"),
        (
            {"disaggregate": {"prefill": {"tensor_parallel": {"any": ["x"]}}}},
            "plan.disaggregate.prefill.tensor_parallel",
        ),
        ({"disaggregate": {"any": ["maybe"]}}, "none, true"),
        ({"disaggregate": {"prefil": {}}}, "prefil"),
    ],
)
def test_wrong_values_are_named(plan, problem):
    with pytest.raises(InputError, match=problem):
        space(plan)
