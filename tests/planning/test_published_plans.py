"""Plans of large public trainings, held against the best that a search finds in the fields that they then had.

The aim is a step time within 5 % of the best one, both predicted. A case that misses it says why.
"""

from functools import cache
from pathlib import Path

import pytest

import sightline as sl
from sightline.catalog.yaml12 import parse
from sightline.quantities import BYTES, parse_quantity

AIM = 1.05
ROUNDED = 0.005
"""Half of the last digit of a ratio in the file."""
CASES = {case["name"]: case for case in parse(Path(__file__).with_name("published_plans.yaml").read_text("utf-8"))}
SEARCHED = [name for name, case in CASES.items() if "within" in case]
TOO_LARGE = [name for name, case in CASES.items() if "needs" in case]


def best(question, **fields):
    """The fastest plan with some of the fields as they are given."""
    answer = sl.plan(
        question, launchable=True, top=2, overrides={f"plan.{key}": value for key, value in fields.items()}
    )
    # A plan that surely fits goes before a faster one that may not, if the two cannot be told apart.
    return min(one.profile.step_time_s for one in answer.plans)


@cache
def ratios(name):
    """How much longer a published plan takes than the best of all, and than the best of those that recompute alike."""
    case = CASES[name]
    theirs = best(case["question"], **case["published"])
    alike = best(case["question"], recompute=case["published"]["recompute"])
    return theirs / best(case["question"]), theirs / alike


@pytest.mark.parametrize("name", SEARCHED)
def test_a_published_plan_is_as_far_from_the_best_as_its_case_says(name):
    within = CASES[name]["within"]
    stated = (within["of_all"], within["of_its_recomputation"])
    assert ratios(name) == pytest.approx(stated, abs=ROUNDED)
    assert min(ratios(name)) >= 1 - 1e-9


@pytest.mark.parametrize("name", SEARCHED)
def test_a_case_that_misses_the_aim_says_why(name):
    assert ("why" in CASES[name]) == (ratios(name)[0] > AIM)


def test_how_many_published_plans_reach_the_aim():
    reached, of_recomputation = (sum(ratios(name)[i] <= AIM for name in SEARCHED) for i in range(2))
    assert (len(SEARCHED), reached, of_recomputation) == (14, 7, 11)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_published_plan_that_we_say_does_not_fit_needs_what_its_case_says(name):
    case = CASES[name]
    overrides = {f"plan.{key}": value for key, value in case["published"].items()}
    profile = sl.predict(sl.load(case["question"], overrides))
    assert profile.memory_bytes["total"] == pytest.approx(parse_quantity(case["needs"], BYTES), rel=0.005)


def test_every_case_says_where_it_is_published():
    assert all(len(case["source"]) > 10 for case in CASES.values())
