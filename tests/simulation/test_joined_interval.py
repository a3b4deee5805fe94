"""Intervals of independent errors, joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.simulation.simulate import joined_interval

shares = st.floats(0.0, 1.0)
above = st.floats(1.0, 100.0)


@given(st.floats(1e-6, 1e6), shares, st.none() | above, st.lists(st.tuples(st.floats(0.01, 1.0), above), max_size=3))
def test_it_holds_each_part(value, low, high, errors):
    """Also a low end of 0 and an upper end that is not known: nothing surer comes of them."""
    sampling = (value * low, None if high is None else value * high)
    ends = [(value * one, value * other) for one, other in errors]
    found_low, found_high = joined_interval(value, sampling, *ends)
    assert found_low <= min([sampling[0], *(one for one, _ in ends)]) * (1.0 + 1e-9)
    assert (found_high is None) == (high is None)
    if found_high is not None:
        assert found_high >= max([sampling[1], *(other for _, other in ends)]) * (1.0 - 1e-9)


def test_a_low_end_that_is_not_known_stays_unknown():
    assert joined_interval(2.0, (0.0, None), (1.9, 2.1)) == (0.0, None)
    assert joined_interval(2.0, (2.0, 2.0), (1.9, 2.1)) == pytest.approx((1.9, 2.1))
