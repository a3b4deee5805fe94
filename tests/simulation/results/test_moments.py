"""A run over time, in the same memory for any length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served_outcomes import work_of

from sightline.simulation.engine.records import FIRST_S, MOMENTS
from sightline.simulation.outcome import Iterations, PoolLimits
from sightline.simulation.results.iterations import Moments

ROOM = PoolLimits(kv_capacity_tokens=10_000)


def moments_of(start_s, seconds, running) -> Moments:
    start = np.asarray(start_s, np.float64)
    held = np.asarray(running, np.int64)
    nothing = np.zeros(start.size, np.int64)
    return Moments(
        work_of(
            Iterations(
                start_s=start,
                end_s=start + seconds,
                replica=nothing,
                prompt_tokens=nothing,
                decodes=held,
                running=held,
                waiting=nothing,
                kv_tokens=16 * held,
            ),
            ROOM,
        )
    )


@given(st.lists(st.tuples(st.floats(0.001, 20.0), st.floats(0.001, 5.0), st.integers(0, 100)), min_size=1, max_size=40))
def test_moments_add_up_to_the_whole(rows) -> None:
    gaps, seconds, running = (np.array(column) for column in zip(*rows, strict=True))
    start = np.cumsum(gaps + np.concatenate([[0.0], seconds[:-1]]))
    moments = moments_of(start, seconds, running)
    held = float((running * seconds).sum())
    lengths = np.diff(moments.edges_s)
    assert moments.end_s == pytest.approx(start[-1] + seconds[-1])
    assert float((moments.means("running") * lengths).sum()) == pytest.approx(held, abs=1e-6)
    assert moments.means("running").max() <= running.max() + 1e-6
    assert moments.means("kv_tokens") == pytest.approx(16 * moments.means("running"))
    assert lengths.size <= MOMENTS


def test_what_runs_at_one_time_is_seen_there() -> None:
    moments = moments_of([0.0, 60.0], [10.0, 40.0], [4, 8])
    means = moments.means("running")
    middle = moments.edges_s[:-1] + np.diff(moments.edges_s) / 2
    assert means[(middle > 1) & (middle < 9)] == pytest.approx(4.0)
    assert means[(middle > 12) & (middle < 58)] == pytest.approx(0.0)
    assert means[(middle > 62) & (middle < 99)] == pytest.approx(8.0)
    assert means.size > MOMENTS // 2


def test_nothing_has_no_moments() -> None:
    moments = moments_of([], 0.0, [])
    assert moments.end_s == 0.0
    assert moments.edges_s[-1] <= FIRST_S
