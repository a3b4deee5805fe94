"""Scenarios that are predicted together have the answers that each has alone."""

from collections.abc import Callable
from math import isclose
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from strategies import questions

from sightline.content import flatten
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.written import to_mapping
from sightline.prediction.training.step_profile import predict
from sightline.prediction.training.together import Together
from sightline.profile.results import answer_to_dict
from sightline.scenario import Scenario

ROUNDING = 1e-9
"""Intervals rest on differences of logarithms."""


@st.composite
def alike(draw: st.DrawFn) -> tuple[Callable[[], list[Scenario]]]:
    """Return a training step, and others on its devices whose numbers differ."""
    first = draw(questions().filter(lambda one: isinstance(one, Scenario)))
    mapping, found = to_mapping(first), [first]
    for _ in range(5):
        tensor, pipeline, context = (draw(st.sampled_from([1, 2, 3, 4, 8])) for _ in range(3))
        if draw(st.booleans()):
            tensor, pipeline, context = first.plan.tensor_parallel, first.plan.pipeline_parallel, 1
        data, micro_batch = first.cluster.devices // (tensor * pipeline * context), draw(st.sampled_from([1, 2, 4]))
        numbers = {
            "tensor_parallel": tensor,
            "pipeline_parallel": pipeline,
            "context_parallel": context,
            "data_parallel": data,
            "micro_batch": micro_batch,
            "zero_stage": draw(st.sampled_from([0, 1, 2, 3])),
            "virtual_stages": draw(st.sampled_from([1, 2])),
            "sequence_parallel": draw(st.booleans()),
        }
        workload = {**mapping["workload"], "global_batch": data * micro_batch * draw(st.sampled_from([1, 4, 24]))}
        try:
            found.append(scenario_from_mapping({**mapping, "workload": workload, "plan": mapping["plan"] | numbers}))
        except InputError:
            continue
    return (lambda: found,)  # shown short where it fails


def figures(profile: Any) -> dict[str, Any]:
    return flatten(answer_to_dict(profile.replace(advice=())))


@given(alike())
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
def test_each_has_its_own_answer(drawn):
    (scenarios,) = (found() for found in drawn)
    together = Together(scenarios)
    for scenario in scenarios:
        found, alone = figures(together.predict(scenario)), figures(predict(scenario))
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            assert same(found[key], value), (key, found[key], value, scenario.plan)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isclose(one, other, rel_tol=ROUNDING, abs_tol=1e-15) if isinstance(one, float) else one == other


def test_rows_and_advice_are_there_too():
    one = scenario_from_mapping(
        {
            "model": "llama-2-7b",
            "cluster": "8x a800-sxm-80gb",
            "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 32},
            "plan": {"framework": "megatron", "data_parallel": 8, "micro_batch": 4, "zero_stage": 0},
        }
    )
    other = scenario_from_mapping(to_mapping(one) | {"plan": to_mapping(one)["plan"] | {"micro_batch": 1}})
    together = Together([one, other])
    for scenario in (one, other):
        found, alone = together.predict(scenario), predict(scenario)
        assert found.advice == alone.advice
        assert [row.operator for row in found.rows] == [row.operator for row in alone.rows]
        assert found.stage_times.keys() == alone.stage_times.keys()
