"""The best of many designs at every point."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline.exploration.node_times import best_of

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS)
def test_best_is_the_least_possible_time_with_its_own_figures(seed):
    random = np.random.default_rng(seed)
    time_s, possible = random.random((3, 4, 2, 5)), random.random((3, 4, 2, 5)) < 0.7
    degree, share = np.arange(3).reshape(3, 1, 1, 1), np.arange(4).reshape(4, 1, 1)
    best = best_of(time_s, possible, {"degree": degree, "share": share}, (2, 5))
    for point in np.ndindex(2, 5):
        there = np.where(possible, time_s, np.inf)[(..., *point)]
        assert best.time_s[point] == there.min()
        if np.isfinite(there).any():
            chosen = (best.figures["degree"][point], best.figures["share"][point])
            assert there[chosen] == best.time_s[point]


def test_better_of_two_point_by_point():
    points = (2, 1)
    first = best_of(np.array([[[1.0], [4.0]]]), True, {"kind": "none"}, points)
    second = best_of(np.array([[[2.0], [3.0]]]), True, {"kind": "full"}, points)
    both = first.or_better(second)
    assert both.time_s.ravel().tolist() == [1.0, 3.0]
    assert both.figures["kind"].ravel().tolist() == ["none", "full"]


def test_nothing_possible_is_infinite():
    best = best_of(np.ones((2, 1, 1)), np.zeros((2, 1, 1), dtype=bool), {}, (1, 1))
    assert np.isinf(best.time_s).all()
