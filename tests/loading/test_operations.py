"""``task: operator``: what is read, and what is refused in which words."""

from dataclasses import fields
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import load, operation_from_mapping, scenario_from_mapping, to_mapping
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    MatmulOperation,
    OperatorScenario,
    Scenario,
)
from sightline.scenario.operation import COLLECTIVES, ELEMENTWISE

MATMUL = {"operator": "matmul", "m": 16, "n": 32, "k": 64}
ATTENTION = {"operator": "attention", "heads": 32, "head_dim": 128, "query_tokens": 2048}


def mapping(workload: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"cluster": "8x a100-sxm-80gb", "workload": {"task": "operator", **workload}, **others}


def read(workload: dict[str, Any], **others: Any) -> Any:
    loaded = load(mapping(workload, **others))
    assert isinstance(loaded, OperatorScenario)
    return loaded.workload


def values(operation: Any) -> dict[str, Any]:
    return {field.name: getattr(operation, field.name) for field in fields(operation)}


def test_a_matmul():
    operation = read(MATMUL | {"batch": 4})
    assert isinstance(operation, MatmulOperation)
    assert values(operation) == {"m": 16, "n": 32, "k": 64, "batch": 4, "dtype": "bf16"}


def test_attention_takes_what_is_left_out_from_what_is_there():
    operation = read(ATTENTION)
    assert isinstance(operation, AttentionOperation)
    expected = {"batch": 1, "heads": 32, "kv_heads": 32, "head_dim": 128, "query_tokens": 2048, "context_tokens": 2048}
    assert values(operation) == expected | {"causal": True, "dtype": "bf16"}
    stated = read(
        ATTENTION | {"kv_heads": 8, "query_tokens": 1, "context_tokens": 99, "causal": False, "kv_dtype": "bf16"}
    )
    assert (stated.kv_heads, stated.query_tokens, stated.context_tokens, stated.causal) == (8, 1, 99, False)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_take_bytes_with_a_unit(name):
    operation = read({"operator": name, "bytes": "64 MiB"})
    assert isinstance(operation, CollectiveOperation)
    assert (operation.operator, operation.bytes) == (name, 2**26)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_kernels_take_elements_or_tokens_and_width(name):
    operation = read({"operator": name, "tokens": 8, "width": 16})
    assert isinstance(operation, ElementwiseOperation)
    assert operation.elements == read({"operator": name, "elements": 128}).elements == 128


def test_the_workloads_own_dtype_comes_before_the_plans():
    assert read(MATMUL, plan={"dtype": "fp16"}).dtype == "fp16"
    assert read(MATMUL | {"dtype": "tf32"}, plan={"dtype": "fp16"}).dtype == "tf32"


def test_a_model_is_not_looked_at():
    assert read(MATMUL, model="nobody-knows-it").m == 16


@pytest.mark.parametrize(
    "workload", [MATMUL, ATTENTION, {"operator": "all_gather", "bytes": 1}, {"operator": "adam", "elements": 5}]
)
def test_what_is_written_loads_back(workload):
    first = operation_from_mapping(mapping(workload, name="a", measured={"time_s": 1e-3}))
    written = to_mapping(first)
    assert "model" not in written
    assert to_mapping(operation_from_mapping(written)) == written


def test_operators_and_trainings_may_share_a_file():
    training = {"model": "llama-2-7b", "cluster": "8x a100-sxm-80gb"}
    training |= {"workload": {"task": "pretrain", "sequence_length": 128, "global_batch": 8}}
    loaded = load([mapping(MATMUL), training])
    assert isinstance(loaded, list)
    assert [type(s) for s in loaded] == [OperatorScenario, Scenario]


def test_sweeps_are_lists_of_scenarios():
    loaded = load(mapping(MATMUL), sweeps={"workload.m": [1, 2], "plan.dtype": ["bf16", "fp16"]})
    assert [(s.workload.m, s.workload.dtype) for s in loaded] == [(1, "bf16"), (1, "fp16"), (2, "bf16"), (2, "fp16")]


@pytest.mark.parametrize(
    ("workload", "others", "sentences"),
    [
        ({}, {}, ["workload.operator is missing; needed: one of matmul, attention, all_reduce"]),
        ({"operator": "matmull"}, {}, ["workload.operator is 'matmull'; allowed: matmul,", "did you mean 'matmul'?"]),
        ({"operator": ["matmul"]}, {}, ["workload.operator is ['matmul']; allowed: matmul,"]),
        (
            {"operator": "matmul"},
            {},
            [f"workload.{key} is missing; needed: a whole number of 1 or more" for key in "mnk"],
        ),
        (MATMUL | {"m": 0}, {}, ["workload.m is 0; allowed: a whole number of 1 or more"]),
        (MATMUL | {"batc": 2}, {}, ["workload.batc is not a known key - did you mean 'batch'?"]),
        (MATMUL | {"dtype": "bf61"}, {}, ["workload.dtype is 'bf61'; allowed: fp32,", "did you mean 'bf16'?"]),
        (MATMUL | {"dtype": "fp8"}, {}, ["workload.dtype is 'fp8'; this version predicts only fp32, tf32, fp16, bf16"]),
        (MATMUL, {"plan": {"dtype": "fp8"}}, ["plan.dtype is 'fp8'; this version predicts only"]),
        (MATMUL, {"plan": {"dtyp": "bf16"}}, ["plan.dtyp is not a known key - did you mean 'dtype'?"]),
        (MATMUL, {"cluster": "1x v100-pcie-16gb"}, ["plan.dtype is 'bf16' (the default); v100-pcie-16gb computes in"]),
        (MATMUL, {"cluster": "1x a100"}, ["cluster", "a100"]),
        (MATMUL, {"cluster": None}, ["cluster is missing"]),
        (ATTENTION, {"plan": {"attention": "eager"}}, ["plan.attention is 'eager'; a single operator is only flash"]),
        (ATTENTION | {"kv_heads": 5}, {}, ["workload.kv_heads is 5; allowed: a divisor of the 32 heads"]),
        (ATTENTION | {"context_tokens": 5}, {}, ["workload.context_tokens is 5; allowed with causal: the 2048 query"]),
        (
            ATTENTION | {"kv_dtype": "fp8"},
            {},
            ["workload.kv_dtype is 'fp8'; this version predicts only the dtype, bf16"],
        ),
        ({"operator": "all_reduce"}, {}, ["workload.bytes is missing; needed: bytes, such as '64 MiB'"]),
        ({"operator": "all_reduce", "bytes": "5 us"}, {}, ["workload.bytes is '5 us'"]),
        ({"operator": "all_reduce", "bytes": 0}, {}, ["workload.bytes is 0"]),
        ({"operator": "norm"}, {}, ["workload gives nothing as the size; needed: elements, or tokens and width"]),
        ({"operator": "norm", "tokens": 5}, {}, ["workload gives tokens as the size; needed: elements, or"]),
        ({"operator": "norm", "elements": 5, "width": 5}, {}, ["workload gives elements and width as the size"]),
        ({"operator": "norm", "elements": -1}, {}, ["workload.elements is -1; allowed: a whole number of 1 or more"]),
    ],
)
def test_wrong_operators_are_refused_in_words(workload, others, sentences):
    with pytest.raises(InputError) as caught:
        operation_from_mapping(mapping(workload, **others))
    said = "\n".join(caught.value.problems)
    for sentence in sentences:
        assert sentence in said


def test_all_mistakes_are_told_at_once():
    with pytest.raises(InputError) as caught:
        load(mapping(MATMUL | {"m": 0, "x": 1}, cluster="8x a100", plan={"zero_stage": 9}))
    assert len(caught.value.problems) == 4


def test_a_training_scenario_is_not_an_operator():
    with pytest.raises(InputError, match=r"workload\.task is 'operator'; needed here: pretrain, finetune"):
        scenario_from_mapping(mapping(MATMUL))
