"""Spaces of scenarios: which fields are free, and which have the values of the scenario."""

import pytest

from sightline.errors import InputError
from sightline.loading import load
from sightline.planning.requests.spaces import spaces_of
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS, opened

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


@pytest.mark.parametrize(("question", "fields"), [(TRAINED, TRAINING_FIELDS), (SERVED, GENERATION_FIELDS)])
def test_without_names_every_field_is_free(question, fields):
    assert dict(opened(load(question)).values) == dict.fromkeys(fields)


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
