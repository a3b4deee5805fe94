"""Which points of a mesh break no rule of plans."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from generation_scenarios import generation
from training_scenarios import training

from sightline.exploration.base import possible_points
from sightline.scenario.rules import breaks_no_rule

DEGREES = np.array([1.0, 2.0, 3.0, 8.0])


def _counted(scenario, left):
    counts: Counter[str] = Counter()
    return possible_points(scenario, left, lambda said, count: counts.update({said: count})), counts


def _training():
    plan = {"framework": "megatron", "micro_batch": 1}
    return training(model="llama-2-7b", cluster="8x a100-sxm-80gb", global_batch=64, plan=plan)


def test_points_of_training_are_possible_where_each_alone_is():
    scenario = _training()
    split = {"tensor_parallel": DEGREES[:, None], "pipeline_parallel": DEGREES}
    mesh = replace(scenario.plan, **split, data_parallel=8.0 / (DEGREES[:, None] * DEGREES))
    left = np.ones((4, 4), dtype=bool)
    possible, counts = _counted(replace(scenario, plan=mesh), left)
    for place in np.ndindex(4, 4):
        degrees = {"tensor_parallel": int(DEGREES[place[0]]), "pipeline_parallel": int(DEGREES[place[1]])}
        one = replace(scenario.plan, **degrees, data_parallel=8.0 / (DEGREES[place[0]] * DEGREES[place[1]]))
        assert possible[place] == breaks_no_rule(replace(scenario, plan=one))
    # Every point that is left out is counted once, for the first rule that it breaks.
    assert sum(counts.values()) == np.count_nonzero(~possible)
    assert any("plan.tensor_parallel is 3; allowed: a divisor of the model's 32" in said for said in counts)


def test_points_that_are_impossible_before_stay_so_and_are_not_counted():
    scenario = _training()
    mesh = replace(scenario, plan=replace(scenario.plan, tensor_parallel=DEGREES, data_parallel=8.0 / DEGREES))
    possible, counts = _counted(mesh, np.zeros(4, dtype=bool))
    assert not possible.any()
    assert not counts


def test_points_of_generation_are_possible_where_heads_can_be_split():
    scenario = generation(model="llama-2-7b", cluster="8x a100-sxm-80gb")
    plan = replace(scenario.plan, tensor_parallel=DEGREES, replicas=8.0 / DEGREES)
    possible, counts = _counted(replace(scenario, plan=plan), np.ones(4, dtype=bool))
    assert possible.tolist() == [True, True, False, True]
    assert counts


@pytest.mark.parametrize("dimensions", [2, 3])
def test_arrays_lie_along_the_last_dimensions(dimensions):
    scenario = _training()
    mesh = replace(scenario, plan=replace(scenario.plan, tensor_parallel=DEGREES, data_parallel=8.0 / DEGREES))
    possible, _ = _counted(mesh, np.ones((2,) * (dimensions - 1) + (4,), dtype=bool))
    assert (possible == [True, True, False, True]).all()
