"""The layers of an uneven pipeline, and the shares of a batch, against every choice there is."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.prediction.schedules.timeline import simulate
from sightline.prediction.shares import balanced_shares
from sightline.prediction.training.heterogeneous import fastest_layers

LAYERS = st.integers(1, 9)
SPEEDS = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=4)


def table(layers: int, seconds: float, fixed_s: float = 0.0, most: int | None = None) -> np.ndarray:
    """Seconds of a stage by range of layers, of which its memory holds ``most``."""
    held = np.arange(layers + 1)[None, :] - np.arange(layers + 1)[:, None]
    return np.where((held >= 0) & (held <= (layers if most is None else most)), fixed_s + seconds * held, np.inf)


def pipeline_s(stages: list[np.ndarray], counts: tuple[int, ...], micro_batches: int) -> float:
    ends = np.cumsum((0, *counts))
    times = [stage[a, b] for stage, a, b in zip(stages, ends[:-1], ends[1:], strict=True)]
    return float((micro_batches - 1) * max(times) + sum(times)) if np.isfinite(max(times)) else np.inf


@given(LAYERS, SPEEDS, st.floats(0.0, 3.0), st.integers(1, 12), st.data())
def test_the_split_is_the_best_of_all(layers, speeds, head_s, micro_batches, data):
    most = [data.draw(st.none() | st.integers(0, layers)) for _ in speeds]
    stages = [table(layers, seconds, most=limit) for seconds, limit in zip(speeds, most, strict=True)]
    stages[-1] = stages[-1] + head_s
    splits = [c for c in product(range(layers + 1), repeat=len(speeds)) if sum(c) == layers]
    best = min(pipeline_s(stages, counts, micro_batches) for counts in splits)
    found = fastest_layers(stages, micro_batches)
    if found is None:
        assert best == np.inf
    else:
        assert sum(found) == layers
        assert pipeline_s(stages, found, micro_batches) == pytest.approx(best, rel=1e-12)


@given(LAYERS, SPEEDS, st.floats(0.1, 10.0), st.integers(1, 12), st.integers(0, 4))
def test_one_more_stage_never_slows_the_best_split(layers, speeds, slower, micro_batches, place):
    fewer = [table(layers, seconds) for seconds in speeds]
    place = min(place, len(fewer))
    more = [*fewer[:place], table(layers, slower), *fewer[place:]]
    before, after = fastest_layers(fewer, micro_batches), fastest_layers(more, micro_batches)
    assert pipeline_s(more, after, micro_batches) <= pipeline_s(fewer, before, micro_batches) * (1 + 1e-12)


@settings(max_examples=30)
@given(st.integers(2, 9), st.lists(st.floats(0.5, 2.0), min_size=2, max_size=4), st.integers(4, 8))
def test_the_split_is_as_fast_when_played_out(layers, speeds, rounds):
    """The closed form that the split minimizes is the 1F1B schedule within its stated error."""
    micro_batches = rounds * len(speeds)
    stages = [table(layers, 3.0 * seconds) for seconds in speeds]

    def played_s(counts: tuple[int, ...]) -> float:
        forward = [[seconds * count] for seconds, count in zip(speeds, counts, strict=True)]
        backward = [[2.0 * s for s in of] for of in forward]
        return simulate("1f1b", forward, backward, micro_batches).total_s

    found = fastest_layers(stages, micro_batches)
    best = min(played_s(c) for c in product(range(layers + 1), repeat=len(speeds)) if sum(c) == layers)
    assert played_s(found) == pytest.approx(pipeline_s(stages, found, micro_batches), rel=0.06)
    assert played_s(found) <= best * 1.07


def shares_of(replicas: list[int], whole: int) -> list[tuple[int, ...]]:
    ranges = [range(1, whole // count + 1) for count in replicas]
    return [c for c in product(*ranges) if sum(k * n for k, n in zip(c, replicas, strict=True)) == whole]


@given(
    st.lists(st.tuples(st.integers(1, 4), st.floats(0.1, 10.0), st.floats(0.0, 5.0)), min_size=1, max_size=3),
    st.integers(1, 30),
)
def test_the_shares_are_the_best_of_all(groups, whole):
    replicas = [count for count, _, _ in groups]
    seconds = [fixed_s + each_s * np.arange(1.0, whole + 1.0) for _, each_s, fixed_s in groups]

    def step_s(shares: tuple[int, ...]) -> float:
        return max(float(times[share - 1]) for times, share in zip(seconds, shares, strict=True))

    found = balanced_shares(replicas, seconds, whole)
    possible = shares_of(replicas, whole)
    if not possible:
        assert found is None
    else:
        assert found in possible
        assert step_s(found) == pytest.approx(min(map(step_s, possible)), rel=1e-12)


def test_speed_sets_the_shares_of_a_large_batch():
    seconds = [np.arange(1.0, 5001.0) * each_s for each_s in (3.0, 1.0)]
    assert balanced_shares([4, 4], seconds, 16000) == (1000, 3000)
