"""Time on the calendar, rent and energy of a run, and the limits on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.errors import InputError
from sightline.planning.plan_limits import read_limits
from sightline.planning.training.objectives import Run, read_availability, read_run_limits, usual_availability

counts = st.integers(1, 10**6)


def run(**changes):
    return Run(**{"step_time_s": 2.0, "steps": 1000.0, "devices": 64, "usd_per_hour": 1.5} | changes)


def test_the_usual_availability_is_that_of_the_run_it_is_taken_from():
    assert usual_availability(16_384) == pytest.approx(0.9)
    assert usual_availability(8) > 0.9999


@given(counts, counts)
def test_more_devices_lose_more_time(a, b):
    few, many = sorted((a, b))
    assert 0 < usual_availability(many) <= usual_availability(few) <= 1


def test_lost_time_is_on_the_calendar_and_paid():
    whole, lossy = run(availability=1.0), run(availability=0.8)
    assert whole.calendar_time_s == whole.run_time_s == lossy.run_time_s
    assert lossy.calendar_time_s == pytest.approx(whole.calendar_time_s / 0.8)
    assert lossy.cost_usd == pytest.approx(whole.cost_usd / 0.8)


@given(st.floats(1e9, 1e12), st.floats(60.0, 1e8))
def test_numbers_that_can_be_meant_in_the_base_unit_need_none(size, time_s):
    assert read_run_limits(deadline=time_s).deadline_s == time_s
    assert read_limits(max_memory=size) == {"max_memory": size}


@given(st.floats(1e-3, 59.0))
def test_a_unit_that_is_stated_is_taken_as_it_is(seconds):
    assert read_run_limits(deadline=f"{seconds!r} s").deadline_s == pytest.approx(seconds)
    with pytest.raises(InputError, match="add a unit"):
        read_run_limits(deadline=seconds)


def test_a_run_without_a_price_costs_nothing_known_and_meets_no_budget():
    unknown = run(usd_per_hour=None)
    assert unknown.cost_usd is None
    assert read_run_limits(budget="1M").broken(unknown)["budget"].all()


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20), st.floats(0.5, 200), st.floats(1, 5e4))
def test_arrays_say_what_numbers_say(times, hours, dollars):
    limits = read_run_limits(deadline=f"{hours} h", budget=dollars)
    devices = np.arange(1, len(times) + 1) * 8
    together = limits.broken(run(step_time_s=np.array(times), devices=devices))
    for place, (time, count) in enumerate(zip(times, devices, strict=True)):
        alone = limits.broken(run(step_time_s=time, devices=int(count)))
        assert {name: bool(mask) for name, mask in alone.items()} == {n: bool(m[place]) for n, m in together.items()}


def test_without_a_limit_nothing_is_broken():
    assert read_run_limits().broken(run()) == {}


@pytest.mark.parametrize(
    ("deadline", "seconds"), [("30d", 30 * 86400), ("72h", 72 * 3600), ("2 weeks", 14 * 86400), (90, 90)]
)
def test_deadlines_as_people_write_them(deadline, seconds):
    assert read_run_limits(deadline=deadline).deadline_s == seconds


@pytest.mark.parametrize(
    ("budget", "dollars"),
    [("1M", 1e6), ("$2M", 2e6), ("2.5 M USD", 2.5e6), ("500k$", 5e5), ("1e6", 1e6), ("$750", 750)],
)
def test_budgets_as_people_write_them(budget, dollars):
    assert read_run_limits(budget=budget).budget_usd == dollars


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"deadline": "soon"}, "deadline is 'soon'"),
        ({"budget": "-1M"}, "budget is '-1M'"),
        ({"budget": "3 h"}, "budget"),
    ],
)
def test_other_limits_are_refused_by_name(limits, said):
    with pytest.raises(InputError, match=said):
        read_run_limits(**limits)


def test_availability_is_a_share():
    assert read_availability(None) is None
    assert read_availability("0.9") == 0.9
    for wrong in ("1.5", 0, "often"):
        with pytest.raises(InputError, match="availability is"):
            read_availability(wrong)
