"""Plans whose memory may be more than there is: said, and behind those that surely fit."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers.plan_sentences import TIGHT, chips, most_surely
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan
from sightline.planning.training.best import leading
from sightline.render.csv import plans_to_csv

ASKED = {
    "model": "llama-2-13b",
    "cluster": "4x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
    "plan": {
        "framework": "megatron",
        "tensor_parallel": 1,
        "context_parallel": 1,
        "micro_batch": {"any": [1, 2, 4]},
        "zero_stage": 1,
        "attention": "flash",
        "schedule": "1f1b",
        "virtual_stages": 1,
        "offload": "none",
    },
}


@pytest.fixture(scope="module")
def answer():
    """Of a question whose fastest plan may not fit."""
    return plan(ASKED, top=100, launchable=False)


def test_tight_plans_come_after_those_that_surely_fit(answer):
    fits = [one.profile.fit for one in answer.plans]
    assert fits == sorted(fits, reverse=True)
    assert {*fits} == {"yes", "tight"}
    for fit in ("yes", "tight"):
        times = [one.profile.step_time_s for one in answer.plans if one.profile.fit == fit]
        assert times == sorted(times)


@pytest.mark.parametrize("top", [1, 2])
def test_the_fastest_plan_is_shown_though_it_be_tight(answer, top):
    fastest = min(answer.plans, key=lambda one: one.profile.step_time_s)
    assert fastest.profile.tight
    assert [one.profile.step_time_s for one in plan(ASKED, top=top, launchable=False).plans] == [
        one.profile.step_time_s for one in (answer.plans[0], fastest)[:top]
    ]


def test_it_is_marked_in_every_form(answer):
    tight = [one.rank for one in answer.plans if one.profile.tight]
    assert [one["rank"] for one in json.loads(json.dumps(plans_to_dict(answer)))["plans"] if one["tight"]] == tight
    lines = plans_to_csv(answer).splitlines()
    assert lines[0].split(",")[4] == "tight"
    assert [int(line.split(",")[0]) for line in lines[1:] if line.split(",")[4] == "true"] == tight
    assert [one.rank for place, one in enumerate(answer.plans) if TIGHT in chips(answer, place)] == tight


def test_what_surely_fits_is_searched_with_the_limit_that_is_named(answer):
    limit = most_surely(answer.plans[-1].profile)
    assert not any(one.profile.tight for one in plan(ASKED, top=3, max_memory=limit).plans)


def test_nothing_moves_where_memory_itself_is_compared():
    least = plan(ASKED, top=5, objective="memory").plans
    assert [one.value for one in least] == sorted(one.value for one in least)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=30),
    st.integers(2, 9),
)
def test_a_search_keeps_the_fastest_plan_though_it_be_tight(plans, count):
    keys, tight = (np.array(column, float) for column in zip(*plans, strict=True))
    kept = leading(keys, tight, 0.5, count)
    assert len(kept) == len({*kept}) == min(count, len(plans))
    assert keys.min() in keys[kept]
    assert list(tight[kept]) == sorted(tight[kept])
    left = [i for i in range(len(plans)) if i not in kept and not tight[i]]
    sure = keys[kept][tight[kept] == 0]
    assert all(keys[i] >= sure.max(initial=0) for i in left)
