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
    GroupedMatmulOperation,
    MatmulOperation,
    OperatorScenario,
    Scenario,
)
from sightline.scenario.cluster import COLLECTIVES
from sightline.scenario.operation import ELEMENTWISE, FORMATS

MATMUL = {"operator": "matmul", "m": 16, "n": 32, "k": 64}
GROUPED = {"operator": "grouped_matmul", "tokens": 64, "per_token": 8, "experts": 128, "n": 1536, "k": 4096}
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
    expected = {"m": 16, "n": 32, "k": 64, "batch": 4, "weight_copies": None, "dtype": "bf16", "format": None}
    assert values(operation) == expected
    assert read(MATMUL | {"weight_copies": 5}).weight_copies == 5


def test_attention_takes_what_is_left_out_from_what_is_there():
    operation = read(ATTENTION)
    assert isinstance(operation, AttentionOperation)
    expected = {"batch": 1, "heads": 32, "kv_heads": 32, "head_dim": 128, "query_tokens": 2048, "context_tokens": 2048}
    plain = {"kv_dtype": None, "window": None, "value_dim": None, "latent": False}
    assert values(operation) == expected | {"causal": True, "dtype": "bf16"} | plain
    stated = read(
        ATTENTION | {"kv_heads": 8, "query_tokens": 1, "context_tokens": 99, "causal": False, "kv_dtype": "bf16"}
    )
    assert (stated.kv_heads, stated.query_tokens, stated.context_tokens, stated.causal) == (8, 1, 99, False)
    assert stated.kv_dtype is None


def test_a_latent_serves_all_heads():
    operation = read(ATTENTION | {"latent": True, "head_dim": 576, "value_dim": 512, "kv_dtype": "fp8", "window": 128})
    assert (operation.kv_heads, operation.value_dim, operation.kv_dtype, operation.window) == (1, 512, "fp8", 128)


@pytest.mark.parametrize(("stated", "kernel"), [({"dtype": "fp8"}, "fp8"), ({"dtype": "int8"}, "w8a8"), ({}, "16-bit")])
def test_a_dtype_stands_for_a_format(stated, kernel):
    assert read(MATMUL | stated, cluster="1x h100-sxm-80gb").kernel == kernel
    assert read(GROUPED | stated, cluster="1x h100-sxm-80gb").kernel == kernel
    assert read(MATMUL, plan=stated, cluster="1x h100-sxm-80gb").kernel == kernel


@pytest.mark.parametrize("chosen", FORMATS)
def test_every_format_is_read(chosen):
    assert read(MATMUL | {"format": chosen}).kernel == chosen


def test_experts_take_rows_or_tokens_and_their_choices():
    operation = read(GROUPED)
    assert isinstance(operation, GroupedMatmulOperation)
    assert (operation.rows, operation.per_token, operation.layout) == (512, 8, None)
    rows = {k: v for k, v in GROUPED.items() if k != "tokens"} | {"rows": 512, "layout": "masked"}
    assert (read(rows).rows, read(rows).layout) == (512, "masked")


def test_collectives_may_name_their_library():
    stated = read({"operator": "all_reduce", "bytes": 1, "library": "vllm", "version": "0.14.0"})
    assert (stated.library, stated.version) == ("vllm", "0.14.0")


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
    "workload",
    [
        MATMUL,
        MATMUL | {"format": "w4a16"},
        GROUPED,
        ATTENTION,
        ATTENTION | {"latent": True, "value_dim": 64, "kv_dtype": "fp8", "window": 9},
        {"operator": "all_gather", "bytes": 1},
        {"operator": "all_reduce", "bytes": 1, "library": "vllm", "version": "0.14.0"},
        {"operator": "adam", "elements": 5},
    ],
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
        ({}, {}, ["workload.operator is missing"]),
        ({"operator": "matmull"}, {}, ["workload.operator is 'matmull'; allowed: matmul,", "did you mean 'matmul'?"]),
        ({"operator": ["matmul"]}, {}, ["workload.operator is ['matmul']; allowed: matmul,"]),
        (
            {"operator": "matmul"},
            {},
            [f"workload.{key} is missing" for key in "mnk"],
        ),
        (MATMUL | {"m": 0}, {}, ["workload.m is 0"]),
        (MATMUL | {"batc": 2}, {}, ["workload.batc is not a known key - did you mean 'batch'?"]),
        (MATMUL | {"dtype": "bf61"}, {}, ["workload.dtype is 'bf61'; allowed: fp32,", "did you mean 'bf16'?"]),
        (MATMUL | {"dtype": "mxfp8"}, {}, ["workload.dtype is 'mxfp8'"]),
        (MATMUL | {"dtype": "w4a16"}, {}, ["workload.dtype is 'w4a16'; use workload.format"]),
        (MATMUL | {"dtype": "fp8"}, {}, ["workload.dtype is 'fp8'"]),
        (MATMUL, {"plan": {"dtype": "fp8"}}, ["plan.dtype is 'fp8'"]),
        (ATTENTION, {"plan": {"dtype": "fp8"}}, ["plan.dtype is 'fp8'"]),
        (
            MATMUL | {"format": "w4a61"},
            {},
            ["workload.format is 'w4a61'; allowed: 16-bit, fp8,", "did you mean 'w4a16'?"],
        ),
        (
            MATMUL | {"format": "w4a16", "dtype": "tf32"},
            {},
            ["workload.format is 'w4a16' with dtype tf32"],
        ),
        (GROUPED | {"rows": 5}, {}, ["workload has rows and tokens"]),
        (GROUPED | {"tokens": None}, {}, ["workload has neither of tokens and rows"]),
        (GROUPED | {"per_token": None}, {}, ["workload.per_token is missing"]),
        (GROUPED | {"per_token": 129}, {}, ["workload.per_token is 129"]),
        (GROUPED | {"tokens": None, "rows": 9}, {}, ["workload.rows is 9"]),
        (GROUPED | {"layout": "maskd"}, {}, ["workload.layout is 'maskd'; allowed: masked, contiguous"]),
        (ATTENTION | {"latent": True, "kv_heads": 8}, {}, ["workload.kv_heads is 8"]),
        (ATTENTION | {"latent": True, "value_dim": 256}, {}, ["workload.value_dim is 256"]),
        (ATTENTION | {"window": 5, "causal": False}, {}, ["workload.window is 5"]),
        (
            {"operator": "all_reduce", "bytes": 1, "library": "nicl"},
            {},
            ["workload.library is 'nicl'; allowed: nccl, custom, vllm", "did you mean 'nccl'?"],
        ),
        (
            {"operator": "all_gather", "bytes": 1, "library": "custom"},
            {},
            ["workload.library is 'custom'"],
        ),
        (
            {"operator": "all_reduce", "bytes": 1, "library": "custom", "version": "1"},
            {},
            ["workload.version is '1' "],
        ),
        (
            {"operator": "all_reduce", "bytes": 1, "library": "vllm", "version": "new"},
            {},
            ["workload.version is 'new'"],
        ),
        (MATMUL, {"plan": {"dtyp": "bf16"}}, ["plan.dtyp is not a known key - did you mean 'dtype'?"]),
        (MATMUL, {"cluster": "1x v100-pcie-16gb"}, ["plan.dtype is 'bf16' (the default)"]),
        (MATMUL, {"cluster": "1x a100"}, ["cluster", "a100"]),
        (MATMUL, {"cluster": None}, ["cluster is missing"]),
        (ATTENTION, {"plan": {"attention": "eager"}}, ["plan.attention is 'eager'"]),
        (ATTENTION | {"kv_heads": 5}, {}, ["workload.kv_heads is 5"]),
        (ATTENTION | {"context_tokens": 5}, {}, ["workload.context_tokens is 5"]),
        (
            ATTENTION | {"kv_dtype": "fp9"},
            {},
            ["workload.kv_dtype is 'fp9'", "did you mean 'fp8'?"],
        ),
        ({"operator": "all_reduce"}, {}, ["workload.bytes is missing"]),
        ({"operator": "all_reduce", "bytes": "5 us"}, {}, ["workload.bytes is '5 us'"]),
        ({"operator": "all_reduce", "bytes": 0}, {}, ["workload.bytes is 0"]),
        ({"operator": "norm"}, {}, ["workload has nothing as its size"]),
        ({"operator": "norm", "tokens": 5}, {}, ["workload has tokens as its size"]),
        ({"operator": "norm", "elements": 5, "width": 5}, {}, ["workload has elements and width as its size"]),
        ({"operator": "norm", "elements": -1}, {}, ["workload.elements is -1"]),
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
    with pytest.raises(InputError, match=r"workload\.task is 'operator'; allowed: pretrain, finetune"):
        scenario_from_mapping(mapping(MATMUL))
