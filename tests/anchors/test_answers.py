"""Answers of the public API with anchors in any form."""

from dataclasses import replace

import pytest
from training_scenarios import training

import sightline as sl
from sightline.anchors import anchored


def _steps(**plan):
    settings = {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2} | plan
    return training(model="llama-2-7b", cluster="8x a800-sxm-80gb", sequence_length=350, global_batch=16, plan=settings)


def _measured(scenario, factor=1.0, **others):
    """The scenario as if it took ``factor`` times as long as predicted."""
    return replace(scenario, measured={"step_time_s": sl.predict(scenario).step_time_s * factor} | others, name="own")


def test_many_scenarios_learn_once():
    known = anchored([_measured(_steps(), 1.2)])
    assert anchored(known) is known
    answers = [sl.predict(_steps(micro_batch=size), anchor=known) for size in (1, 2)]
    assert all(answer.anchor == known.to_dicts("training") for answer in answers)


def test_what_was_learned_answers_like_what_it_was_learned_from():
    own = _measured(_steps(), 1.2)
    known = sl.anchored([own])
    for of in (sl.predict, lambda scenario, anchor: sl.sensitivity(scenario, anchor=anchor).answer):
        assert of(_steps(), anchor=known).step_time_s == pytest.approx(of(_steps(), anchor=own).step_time_s)
