"""Single changes of a plan that serves a load: each alone, on the same devices, and allowed."""

from dataclasses import replace

import pytest
from serving_scenarios import serving

from sightline.planning.serving.serving_search import single_changes
from sightline.scenario.rules import breaks_no_rule
from sightline.scenario.space import Space
from sightline.simulation.deployment import alike

PLAN = {"tensor_parallel": 2, "replicas": 2, "max_batched_tokens": 2048, "quantization": "fp8"}


@pytest.fixture(scope="module")
def changes():
    scenario = serving(cluster="4x h100-sxm-80gb", plan=PLAN)
    return scenario, [(stated, plan) for stated, plan in single_changes(scenario, Space(scenario=scenario))]


def test_degrees_change_at_the_expense_of_replicas(changes):
    scenario, found = changes
    degrees = {key: plan for stated, plan in found for key in stated if key.endswith("_parallel")}
    assert {"plan.tensor_parallel", "plan.pipeline_parallel", "plan.data_parallel"} >= degrees.keys() > set()
    assert all(plan.devices == scenario.plan.devices for plan in degrees.values())


def test_iterations_are_halved_and_doubled(changes):
    sizes = {plan.max_batched_tokens for stated, plan in changes[1] if "plan.max_batched_tokens" in stated}
    assert sizes == {1024, 4096}


def test_other_formats_are_tried_and_that_of_the_checkpoint(changes):
    formats = {plan.quantization for stated, plan in changes[1] if "plan.quantization" in stated}
    assert formats == {None, ("w8a8",), ("w4a16",), ("fp8", "kv-fp8")}


def test_every_change_breaks_no_rule(changes):
    scenario, found = changes
    for stated, plan in found:
        assert stated
        assert breaks_no_rule(alike(replace(scenario, plan=plan), 1, 1))
