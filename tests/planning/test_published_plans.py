"""Plans of large public trainings, held against the best that a search finds in the fields that they then had.

The aim is a step time within 5 % of the best one, both predicted. What is not reached is held to what is.
"""

from pathlib import Path

import pytest

import sightline as sl
from sightline.catalog.yaml12 import parse
from sightline.quantities import BYTES, parse_quantity

AIM = 1.05
CASES = {case["name"]: case for case in parse(Path(__file__).with_name("published_plans.yaml").read_text("utf-8"))}
SEARCHED = [name for name, case in CASES.items() if "within" in case]
TOO_LARGE = [name for name, case in CASES.items() if "needs" in case]


def best(question, **fields):
    """The fastest plan with some of the fields as they are given."""
    answer = sl.plan(
        question, launchable=True, top=1, overrides={f"plan.{key}": value for key, value in fields.items()}
    )
    return answer.plans[0].profile.step_time_s


@pytest.mark.parametrize("name", SEARCHED)
def test_a_published_plan_is_about_the_best(name):
    case = CASES[name]
    question, published, within = case["question"], case["published"], case["within"]
    theirs = best(question, **published)
    assert 1 - 1e-9 <= theirs / best(question) <= within["of_all"]
    assert 1 - 1e-9 <= theirs / best(question, recompute=published["recompute"]) <= within["of_its_recomputation"]


def test_how_many_published_plans_reach_the_aim():
    # Those that miss it by their recomputation alone ran with full recomputation where, by our memory, a micro-batch of
    # 1 fits without. The others are small (3.6, 18.4 and 22 billion parameters), or 175 billion on eight servers.
    reached = [name for name in SEARCHED if CASES[name]["within"]["of_all"] <= AIM]
    of_recomputation = [name for name in SEARCHED if CASES[name]["within"]["of_its_recomputation"] <= AIM]
    assert (len(SEARCHED), len(reached), len(of_recomputation)) == (14, 5, 9)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_published_plan_that_we_say_does_not_fit_needs_no_more_than_before(name):
    case = CASES[name]
    overrides = {f"plan.{key}": value for key, value in case["published"].items()}
    profile = sl.predict(sl.load(case["question"], overrides))
    assert profile.memory_bytes["total"] <= parse_quantity(case["needs"], BYTES)


def test_every_case_says_where_it_is_published():
    assert all(len(case["source"]) > 10 for case in CASES.values())
