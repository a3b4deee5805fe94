"""Growth over the years: the line that was there is found, with an interval that holds it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.exploration.growth import fit_growth, records

YEARS = np.linspace(2006, 2026, 41)


@given(doubling=st.floats(0.3, 20), start=st.floats(1e-3, 1e12))
def test_the_doubling_time_of_exact_growth_is_found(doubling, start):
    growth = fit_growth(YEARS, start * 2 ** ((YEARS - 2006) / doubling))
    assert growth.doubling_years == pytest.approx(doubling, rel=1e-6)
    assert growth.at(2006.0) == pytest.approx(start, rel=1e-6)
    assert growth.explained == pytest.approx(1)


@given(seed=st.integers(0, 999), doubling=st.floats(1, 10))
def test_the_interval_holds_the_estimate_and_widens_with_noise(seed, doubling):
    exact = 2 ** ((YEARS - 2006) / doubling)
    noise = np.random.default_rng(seed).normal(size=len(YEARS))
    little, much = (fit_growth(YEARS, exact * np.exp(scale * noise)) for scale in (0.05, 0.5))
    assert little.half_width < much.half_width
    for growth in (little, much):
        low, high = growth.interval_years
        assert low <= abs(growth.doubling_years) or growth.per_year < 0
        assert high >= growth.doubling_years


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    noise = np.random.default_rng(1).normal(scale=0.4, size=(400, len(YEARS)))
    exact = 2 ** ((YEARS - 2006) / 2.5)
    intervals = [fit_growth(YEARS, exact * np.exp(of)).interval_years for of in noise]
    held = np.mean([low < 2.5 < high for low, high in intervals])
    assert 0.91 < held < 0.98


def test_growth_that_is_not_told_from_none_has_no_upper_end():
    growth = fit_growth([2010, 2012, 2014, 2016, 2018], [1.0, 1.3, 0.8, 1.2, 1.0])
    assert growth.interval_years[1] == np.inf
    assert growth.in_words(2).endswith("years (not distinguishable from no growth)")


def test_growth_is_said_with_its_interval():
    noise = np.random.default_rng(1).normal(scale=0.1, size=len(YEARS))
    growth = fit_growth(YEARS, 2 ** ((YEARS - 2006) / 2.5) * np.exp(noise))
    low, high = growth.interval_years
    assert growth.in_words(1) == f"2.5 years ({low:.1f} to {high:.1f})"
    assert growth.to_dict() == {"years": growth.doubling_years, "interval": [low, high], "points": len(YEARS)}


def test_groups_at_other_levels_do_not_count_as_growth():
    early, late = YEARS[:25], YEARS[15:]
    years = np.concatenate((early, late))
    values = np.concatenate((2 ** ((early - 2006) / 3), 1e-3 * 2 ** ((late - 2006) / 3)))
    groups = ["cheap"] * len(early) + ["dear"] * len(late)
    assert fit_growth(years, values, groups).doubling_years == pytest.approx(3)
    assert fit_growth(years, values).per_year < 0


def test_too_few_points_have_no_line():
    assert fit_growth([2010, 2011, 2012], [1, 2, 3]) is None
    assert fit_growth([2010] * 5, [1, 2, 3, 4, 5]) is None
    assert fit_growth([2010, 2011, 2012, 2013], [1, 2, np.nan, 3]) is None


def test_records_are_above_all_before_them():
    found = records([2010, 2012, 2011, 2012, 2013], [5.0, 7.0, 4.0, 8.0, np.nan])
    assert found.tolist() == [True, False, False, True, False]
