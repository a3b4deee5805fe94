"""Pareto fronts, and which of their plans are answered."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.planning.ranking import best_in_words, dominated, front_of, spread_over

FIGURES = st.integers(0, 4) | st.just(float("inf"))
NUMBERS = st.floats(min_value=1.0, max_value=1e6)


POINTS = st.lists(st.tuples(FIGURES, FIGURES), max_size=12)


def beats(a, b):
    """Whether a point is as good as another in both figures, and better in one."""
    return a[0] <= b[0] and a[1] <= b[1] and a != b


def columns(points):
    return np.array(points, dtype=float).reshape(-1, 2).T


@given(POINTS)
def test_a_front_has_every_finite_point_that_no_other_beats_once(points):
    finite = [point for point in points if np.isfinite(point).all()]
    best = sorted({point for point in finite if not any(beats(other, point) for other in finite)})
    assert [points[place] for place in front_of(columns(points))] == best


@given(POINTS, POINTS)
def test_points_are_dominated_by_what_is_as_good_in_both_figures(points, by):
    finite = [other for other in by if np.isfinite(other).all()]
    expected = [any(other == point or beats(other, point) for other in finite) for point in points]
    assert dominated(columns(points), columns(by)).tolist() == expected


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=40), st.integers(min_value=2, max_value=20))
def test_a_thinned_front_keeps_its_ends_and_no_two_alike(points, count):
    xs, ys = zip(*points, strict=True) if points else ((), ())
    front = list(zip(sorted(xs), sorted(ys, reverse=True), strict=True))
    kept = spread_over(front, count)
    assert kept == sorted(set(kept))
    alike = [tuple(f"{figure:.3g}" for figure in front[place]) for place in kept]
    distinct = {tuple(f"{figure:.3g}" for figure in point) for point in front}
    assert len(set(alike)) == len(alike) == min(count, len(distinct))
    if front:
        ends = [tuple(f"{figure:.3g}" for figure in front[place]) for place in (0, -1)]
        assert [alike[0], alike[-1]] == ends


def test_plans_lie_evenly_where_the_front_does_not():
    front = [(1.0 + i / 100, 10.0 - i / 100) for i in range(50)] + [(float(x), 8.5 - x) for x in range(2, 9)]
    kept = spread_over(front, 8)
    assert len([place for place in kept if place >= 50]) >= 5


def test_a_front_has_as_many_plans_as_are_asked_for():
    work = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    question = {
        "model": "llama-2-7b",
        "cluster": "8x a100-sxm-80gb",
        "workload": work,
        "plan": {"framework": "fsdp", "offload": "none"},
    }
    long, short = (sl.plan(question, pareto=("time", "memory"), top=top, launchable=False) for top in (1000, 5))
    usual = sl.plan(question, pareto=("time", "memory"), launchable=False)
    assert len(short.plans) == 5 < len(usual.plans) <= 15 <= len(long.plans)
    assert short.pareto == tuple(range(5))
    for place in (0, -1):
        assert short.plans[place].value == long.plans[place].value


def test_the_best_of_a_search_that_goes_on_names_its_degrees():
    plan = {"tensor_parallel": 8, "pipeline_parallel": 1, "expert_parallel": 4}
    assert best_in_words("5.7 requests/s", plan) == "5.7 requests/s, tp 8, ep 4"
