"""Answers of the public API with anchors in any form, and what is asked of them."""

from inspect import Parameter, signature

import pytest
from anchor_steps import measured, steps
from serving_scenarios import serving

import sightline as sl
from sightline.anchors.corrected import anchored


def test_many_scenarios_learn_once():
    known = anchored([measured(steps(), 1.2)])
    assert anchored(known) is known
    answers = [sl.predict(steps(micro_batch=size), anchor=known) for size in (1, 2)]
    assert all(answer.anchor == known.to_dicts("training") for answer in answers)


def test_what_was_learned_answers_like_what_it_was_learned_from():
    own = measured(steps(), 1.2)
    known = sl.anchored([own])
    for of in (sl.predict, lambda scenario, anchor: sl.sensitivity(scenario, anchor=anchor).answer):
        assert of(steps(), anchor=known).step_time_s == pytest.approx(of(steps(), anchor=own).step_time_s)


@pytest.mark.parametrize("function", [sl.simulate, sl.find_capacity])
def test_options_are_spelled_out(function) -> None:
    named = signature(function).parameters
    assert all(one.kind is not Parameter.VAR_KEYWORD for one in named.values())
    described = function.__doc__.partition("Args:")[2].partition("Raises:")[0]
    assert [name for name in named if f"\n        {name}: " not in described] == []


@pytest.mark.parametrize("function", [sl.simulate, sl.find_capacity])
def test_other_tasks_are_refused(function) -> None:
    with pytest.raises(sl.InputError, match=r"workload.task is pretrain; allowed: "):
        function(steps())
    with pytest.raises(sl.InputError, match=r"list is not a scenario; allowed: "):
        function([serving()])


def test_the_capacity_is_found_with_its_interval() -> None:
    scenario = serving(slo={"ttft": "500 ms"})
    found = sl.find_capacity(scenario)
    low, high = found.interval
    assert low < found.rate < high
    assert isinstance(found, sl.Capacity)
    (at,) = [one for one in found.tried if one.rate == found.rate]
    assert at.good >= 0.9
    with pytest.raises(sl.InputError, match=r"workload.slo"):
        sl.find_capacity(serving())
