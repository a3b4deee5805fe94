"""Plans whose memory may be more than there is: said, and behind those that surely fit and are as fast."""

import json

import pytest

from sightline.answers.plan_sentences import most_surely, perhaps_too_large
from sightline.planning.plan_answer import plans_to_dict
from sightline.planning.search import plan
from sightline.render.csv import plans_to_csv

ASKED = {
    "model": "llama-3-70b",
    "cluster": "64x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 8192, "global_batch": 256},
    "plan": {"framework": "megatron", "micro_batch": 1, "attention": "flash", "recompute": "none", "schedule": "1f1b"},
}


@pytest.fixture(scope="module")
def answer():
    """Of a question whose fastest plan may not fit."""
    return plan(ASKED, top=12, launchable=False)


def test_a_plan_that_surely_fits_goes_before_a_tied_one_that_may_not(answer):
    first, *others = answer.plans
    assert not first.profile.tight
    assert others[0].profile.tight
    assert others[0].profile.step_time_s < first.profile.step_time_s
    assert others[0].tied
    assert others[0].better > 0.5
    assert [one.rank for one in answer.plans] == list(range(1, 13))
    times = [one.profile.step_time_s for one in others]
    assert times == sorted(times)


@pytest.mark.parametrize("top", [1, 2, 5])
def test_the_first_plan_does_not_depend_on_how_many_are_shown(answer, top):
    fewer = plan(ASKED, top=top, launchable=False)
    assert [one.profile.scenario.plan.to_dict() for one in fewer.plans] == [
        one.profile.scenario.plan.to_dict() for one in answer.plans[:top]
    ]


def test_it_is_marked_in_every_form(answer):
    tight = [one.rank for one in answer.plans if one.profile.tight]
    assert [one["rank"] for one in json.loads(json.dumps(plans_to_dict(answer)))["plans"] if one["tight"]] == tight
    lines = plans_to_csv(answer).splitlines()
    assert lines[0].split(",")[4] == "tight"
    assert [int(line.split(",")[0]) for line in lines[1:] if line.split(",")[4] == "true"] == tight
    (said,) = perhaps_too_large(answer)
    assert "may not fit" in said


def test_what_surely_fits_is_searched_with_the_limit_that_is_named(answer):
    limit = most_surely(answer.plans[1].profile)
    assert not any(one.profile.tight for one in plan(ASKED, top=3, max_memory=limit).plans)


def test_nothing_moves_where_memory_itself_is_compared():
    least = plan(ASKED, top=5, objective="memory").plans
    assert [one.value for one in least] == sorted(one.value for one in least)
