"""Bounds of a search against the plans that it evaluates."""

from functools import reduce

import numpy as np
import pytest

from sightline.loading.spaces import load_spaces
from sightline.planning.training.candidates import layout_of, open_plan
from sightline.planning.training.training_search import Bounds, pieces_of
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE, valid_plans
from sightline.prediction.training.priced import price
from sightline.prediction.training.step_profile import assembled

MODELS = {"dense": "llama-2-7b", "mixture": "mixtral-8x7b", "latent": "deepseek-v2-lite"}


@pytest.mark.parametrize("framework", ["megatron", "deepspeed", "fsdp"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_no_plan_takes_less_time_or_memory_than_the_bounds_of_its_row(model: str, framework: str) -> None:
    (space,) = load_spaces(
        {
            "model": model,
            "cluster": "8x a100-sxm-80gb",
            "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 16},
            "plan": {"framework": framework, "virtual_stages": 1, "offload": []},
        }
    )
    bounds, layout, compared = Bounds(space=space), layout_of(space), 0
    for choice, place in pieces_of(layout):
        piece = layout.axes(place, both_ways=choice.both_ways)
        with np.errstate(all="ignore"):
            plans = valid_plans(space, open_plan(space, piece, choice), piece, POSSIBLE).trimmed()
            if not plans.axes.count:
                continue
            times, ledgers = assembled(price(open_plan(space, plans.axes, choice)))
            there = plans.states & plans.schedules
            step_s = _least(sum(times.terms), there)
            memory = _least(reduce(np.maximum, [sum(m) for one in ledgers for m in one.moments]), there)
            compared += plans.axes.count
            assert (bounds.least_s(plans.axes, choice) <= step_s).all()
            assert (bounds.least_bytes(plans.axes, choice) <= memory).all()
    assert compared > 100


def _least(figure: object, there: np.ndarray) -> np.ndarray:
    """The least figure of each row's valid plans."""
    figures, there = np.broadcast_arrays(figure, there)
    return np.where(there, figures, np.inf).reshape(len(there), -1).min(axis=1)


def test_values_that_no_plan_has_are_not_priced() -> None:
    question = {"model": "gpt-3-175b", "cluster": "64x a100-sxm-80gb", "plan": {"framework": "megatron"}}
    workload = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    (space,) = load_spaces({**question, "workload": workload})
    layout = layout_of(space)
    choice, place = pieces_of(layout)[0]
    piece = layout.axes(place, both_ways=choice.both_ways)
    with np.errstate(all="ignore"):
        plans = valid_plans(space, open_plan(space, piece, choice), piece, LAUNCHABLE).trimmed()
    used = plans.used()
    assert used.count() == plans.count() > 0
    assert np.prod(used.axes.shape) < np.prod(plans.axes.shape)
