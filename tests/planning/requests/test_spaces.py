"""Spaces of scenarios: which fields are free, and which have the values of the scenario."""

import pytest

from sightline.errors import InputError
from sightline.loading import load
from sightline.planning.request_spaces import spaces_of, together
from sightline.planning.search import plan
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS, freed, opened

TRAINED = {
    "model": "llama-3.2-1b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
    "plan": {"framework": "megatron", "tensor_parallel": 2, "micro_batch": 1},
}
SERVED = {
    "model": "llama-3.2-1b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 4, "prompt_tokens": 10, "output_tokens": 10},
    "plan": {"framework": "vllm"},
}


COMPILED = {**TRAINED, "plan": {**TRAINED["plan"], "framework": "torchtitan"}}


@pytest.mark.parametrize(("question", "fields"), [(COMPILED, TRAINING_FIELDS), (SERVED, GENERATION_FIELDS)])
def test_without_names_every_field_is_free(question, fields):
    assert dict(opened(load(question)).values) == dict.fromkeys(fields)


def test_where_the_framework_has_one_value_nothing_is_free():
    assert dict(opened(load(TRAINED)).values) == dict.fromkeys(TRAINING_FIELDS) | {"compile": (False,)}


def test_fields_that_are_not_named_have_the_scenarios_values():
    scenario = load(TRAINED)
    space = opened(scenario, ["zero_stage"])
    assert space.values["zero_stage"] is None
    assert space.free == ("zero_stage",)
    assert {name: values for name, values in space.values.items() if values is not None} == {
        name: (getattr(scenario.plan, name),) for name in TRAINING_FIELDS if name != "zero_stage"
    }


@pytest.mark.parametrize(
    ("question", "degree", "replicas"),
    [(TRAINED, "tensor_parallel", "data_parallel"), (SERVED, "tensor_parallel", "replicas")],
)
def test_replicas_follow_a_free_degree(question, degree, replicas):
    space = opened(load(question), [degree])
    assert space.values[degree] is None
    assert space.values[replicas] is None


@pytest.mark.parametrize("question", [TRAINED, SERVED])
def test_a_field_that_no_search_looks_at_is_refused_with_the_nearest(question):
    with pytest.raises(InputError, match=r"free names 'tensor_paralel'.*did you mean 'tensor_parallel'"):
        opened(load(question), ["tensor_paralel"])


def test_operators_have_no_spaces():
    with pytest.raises(InputError, match=r"workload\.task is operator, which has no plan"):
        spaces_of(
            {"cluster": "1x h100-sxm-80gb", "workload": {"task": "operator", "operator": "adam", "elements": 1e9}}
        )


def found(question, free, **stated):
    """Return the scenarios of all plans of a question whose sections have further keys."""
    asked = {**question, **{key: {**question[key], **own} for key, own in stated.items()}}
    return [one.profile.scenario for one in plan(asked, free=free, top=1_000, launchable=False).plans]


@pytest.mark.parametrize(
    ("free", "allowed"),
    [
        (["tensor_parallel"], {"micro_batch": [2, 4]}),
        (["micro_batch"], {"micro_batch": [2, 4]}),
        (["zero_stage"], {"tensor_parallel": [1, 4], "recompute": ["none", "full"]}),
        (["tensor_parallel"], {"data_parallel": [2, 4]}),
    ],
)
def test_free_fields_of_training_leave_restricted_ones_their_values(free, allowed):
    several = {"plan": {name: {"any": values} for name, values in allowed.items()}, "workload": {"global_batch": 32}}
    plans = [one.plan for one in found(TRAINED, free, **several)]
    for name, values in allowed.items():
        assert {getattr(plan, name) for plan in plans} == set(values)


@pytest.mark.parametrize(
    ("free", "allowed"),
    [
        (["max_batched_tokens"], {"tensor_parallel": [1, 4]}),
        (["tensor_parallel"], {"tensor_parallel": [1, 4]}),
        (["tensor_parallel"], {"replicas": [2, 4]}),
        (["tensor_parallel"], {"quantization": [("fp8",), ()]}),
    ],
)
def test_free_fields_of_generation_leave_restricted_ones_their_values(free, allowed):
    scenarios = found(SERVED, free, plan={name: {"any": [*map(_stated, values)]} for name, values in allowed.items()})
    for name, values in allowed.items():
        assert {getattr(one.plan, name) for one in scenarios} == set(values)
    assert {one.plan.devices for one in scenarios} == {8}


def _stated(value):
    return (value[0] if value else "none") if isinstance(value, tuple) else value


def test_free_fields_leave_engines_and_batches_their_values():
    several = {"plan": {"framework": {"any": ["vllm", "sglang"]}}, "workload": {"batch": {"any": [1, 16]}}}
    scenarios = found(SERVED, ["tensor_parallel"], **several)
    assert {(one.plan.engine.name, one.workload.batch) for one in scenarios} == {
        *(("vllm", 1), ("vllm", 16), ("sglang", 1), ("sglang", 16))
    }
    assert {one.plan.tensor_parallel for one in scenarios} == {1, 2, 4, 8}


def test_free_fields_leave_the_sequences_in_flight_their_limit():
    several = {"plan": {"max_sequences": 2}, "workload": {"batch": 8}}
    assert {one.plan.replicas for one in found(SERVED, ["tensor_parallel"], **several)} == {4, 8}


@pytest.mark.parametrize("decode", [{}, {"decode": {"tensor_parallel": 2}}])
def test_free_fields_leave_workers_of_their_own_their_degrees(decode):
    pools = {"prefill": {"tensor_parallel": 2}, **decode}
    scenarios = found(SERVED, ["max_batched_tokens"], plan={"disaggregate": pools})
    assert {one.plan.disaggregate.prefill.tensor_parallel for one in scenarios} == {2}
    assert {one.plan.tensor_parallel for one in scenarios} == {2 if decode else 1}


def test_free_fields_leave_a_batch_its_limit():
    scenarios = found(TRAINED, ["tensor_parallel"], workload={"global_batch": {"at_most": 11}})
    assert {(one.plan.data_parallel, one.workload.global_batch) for one in scenarios} == {
        (1, 11),
        (2, 10),
        (4, 8),
        (8, 8),
    }


def test_free_fields_leave_clusters_by_which_they_are_told_apart():
    names = ["4x h100-sxm-80gb", "8x h100-sxm-80gb"]
    spaces = spaces_of({**TRAINED, "cluster": {"any": names}}, ["zero_stage"])
    assert [space.options for space in spaces] == [{"cluster": name} for name in names]
    (space,) = together(spaces)
    assert [cluster.devices for cluster in freed(space, ["recompute"]).sizes] == [4, 8]


def test_replicas_that_a_source_leaves_out_take_the_devices():
    assert {one.plan.data_parallel for one in found(TRAINED, ["zero_stage"])} == {4}
