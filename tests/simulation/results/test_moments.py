"""A run over time, in pieces and in the same memory for any length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.simulation.outcome import Iterations
from sightline.simulation.results.iterations import FIRST_S, MOMENTS, Moments


def iterations(start_s, seconds, running) -> Iterations:
    start = np.asarray(start_s, np.float64)
    held = np.asarray(running, np.int64)
    nothing = np.zeros(start.size, np.int64)
    return Iterations(
        start_s=start,
        end_s=start + seconds,
        replica=nothing,
        prompt_tokens=nothing,
        decodes=held,
        running=held,
        waiting=nothing,
        kv_tokens=16 * held,
    )


@given(
    st.lists(st.tuples(st.floats(0.001, 20.0), st.floats(0.001, 5.0), st.integers(0, 100)), min_size=1, max_size=40),
    st.integers(1, 7),
)
def test_pieces_add_up_to_the_whole(rows, size) -> None:
    gaps, seconds, running = (np.array(column) for column in zip(*rows, strict=True))
    start = np.cumsum(gaps + np.concatenate([[0.0], seconds[:-1]]))
    moments = Moments()
    for first in range(0, len(rows), size):
        piece = slice(first, first + size)
        moments.add(iterations(start[piece], seconds[piece], running[piece]))
    held = float((running * seconds).sum())
    lengths = np.diff(moments.edges_s)
    assert moments.end_s == pytest.approx(start[-1] + seconds[-1])
    assert float((moments.means("running") * lengths).sum()) == pytest.approx(held, abs=1e-6)
    assert moments.means("running").max() <= running.max() + 1e-6
    assert moments.means("kv_tokens") == pytest.approx(16 * moments.means("running"))
    assert lengths.size <= MOMENTS


def test_what_runs_at_one_time_is_seen_there() -> None:
    moments = Moments()
    moments.add(iterations([0.0, 60.0], [10.0, 40.0], [4, 8]))
    means = moments.means("running")
    middle = moments.edges_s[:-1] + np.diff(moments.edges_s) / 2
    assert means[(middle > 1) & (middle < 9)] == pytest.approx(4.0)
    assert means[(middle > 12) & (middle < 58)] == pytest.approx(0.0)
    assert means[(middle > 62) & (middle < 99)] == pytest.approx(8.0)
    assert means.size > MOMENTS // 2


def test_nothing_has_no_moments() -> None:
    moments = Moments()
    moments.add(iterations([], 0.0, []))
    assert moments.end_s == 0.0
    assert moments.edges_s[-1] <= FIRST_S
