"""Limits that a plan meets: just loose enough, of two digits, and readable as options."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.planning.plan_limits import read_limits
from sightline.planning.rationale.relaxed import looser
from sightline.planning.training.objectives import RunLimits

LIMITS = RunLimits(deadline_s=1.0, budget_usd=0.01, typed={"deadline": "1 s"})


def options_of(takes_s: float, cost: float, limits: RunLimits = LIMITS) -> dict[str, str]:
    return looser(limits, {"calendar_time_s": takes_s, "cost_usd": cost})[0]


@given(takes_s=st.floats(2.0, 1e8), cost=st.floats(0.02, 1e9))
def test_looser_limits_suffice_and_exceed_by_a_tenth_at_most(takes_s, cost):
    found = read_limits(**options_of(takes_s, cost))
    for name, needed in {"deadline": takes_s, "budget": cost}.items():
        assert needed * (1 - 1e-9) <= found[name] <= 1.1001 * needed


@pytest.mark.parametrize(
    ("takes_s", "cost", "deadline", "budget"),
    [(190, 2.09, "3.2min", "2.1"), (50_000, 5432, "14h", "5.5k"), (1.3e6, 104, "16d", "110"), (1.01e7, 1, "117d", "1")],
)
def test_units_are_those_that_one_would_type(takes_s, cost, deadline, budget):
    assert options_of(takes_s, cost) == {"deadline": deadline, "budget": budget}


def test_a_limit_that_is_met_stays_as_it_was_asked_for():
    limits = RunLimits(deadline_s=3600.0, budget_usd=1.0, typed={"deadline": "1 h"})
    options, beyond = looser(limits, {"calendar_time_s": 190.0, "cost_usd": 2.0})
    assert options == {"deadline": "1h", "budget": "2"}
    assert beyond == ["100 % beyond the budget"]
