"""Times of requests: what every table, figure and suite takes them from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_outcomes import outcome

from sightline.simulation.outcome import NO_ROOM
from sightline.simulation.results.times import request_times, times_of


@given(st.floats(0, 1e3), st.floats(1e-3, 10), st.floats(0, 100), st.integers(2, 900))
def test_the_first_token_and_all_further_ones_make_the_latency(arrival_s, first_s, decode_s, tokens):
    at = np.array([arrival_s])
    found = request_times(at, at + first_s, at + first_s + decode_s, np.array([tokens]))
    assert found["ttft_s"] + (tokens - 1) * found["tpot_s"] == pytest.approx(found["latency_s"], abs=1e-9)


def test_an_answer_of_one_token_has_no_time_per_further_token():
    found = request_times(*(np.array([seconds, seconds]) for seconds in (0.0, 1.0, 2.0)), np.array([1, 3]))
    assert found["tpot_s"].tolist() == [pytest.approx(np.nan, nan_ok=True), 0.5]


def test_requests_that_were_refused_have_no_times():
    found = times_of(outcome([0.0, 1.0], status=[0, NO_ROOM]))
    assert all(np.isfinite(times[0]) and np.isnan(times[1]) for times in found.values())
