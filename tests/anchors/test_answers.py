"""Answers of the public API with anchors in any form."""

import pytest
from anchor_steps import measured, steps

import sightline as sl
from sightline.anchors import anchored


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
