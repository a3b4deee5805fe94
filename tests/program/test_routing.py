"""Expected loads of experts and ranks, against exact values and sampling."""

import numpy as np
import pytest

from sightline.program.routing import busiest_active, busiest_count, busiest_share, expected_active, lasting_excess


def test_active_experts_of_a_uniform_choice():
    assert expected_active(256, 8, 1, spread=0) == pytest.approx(8)
    assert expected_active(256, 8, 32, spread=0) == pytest.approx(256 * (1 - (1 - 1 / 32) ** 32))
    assert expected_active(8, 8, 1, spread=0) == pytest.approx(8)
    assert expected_active(8, 2, 10_000, spread=0) == pytest.approx(8)


def test_popular_experts_leave_others_idle():
    random = np.random.default_rng(0)
    popularity = random.gamma(1 / 0.8**2, 0.8**2, size=(400, 128))
    popularity /= popularity.sum(axis=1, keepdims=True)
    for tokens in (8, 64, 256):
        sampled = (1 - (1 - popularity) ** (4 * tokens)).sum(axis=1).mean()
        assert expected_active(128, 4, tokens, spread=0.8) == pytest.approx(sampled, rel=0.05)
        assert expected_active(128, 4, tokens, spread=0.8) < expected_active(128, 4, tokens, spread=0)
    assert expected_active(128, 4, 1, spread=0.8) == pytest.approx(4)


def test_the_busiest_rank_has_what_sampling_finds():
    random = np.random.default_rng(0)
    for ranks, tokens in ((2, 200), (8, 4096), (32, 4096), (64, 100_000)):
        sampled = random.multinomial(tokens, [1 / ranks] * ranks, size=4000).max(axis=1).mean() / tokens
        assert busiest_share(ranks, tokens) == pytest.approx(sampled, rel=0.02)
    assert busiest_share(1, 10) == 1
    assert busiest_share(8, 1e12) == pytest.approx(1 / 8, rel=1e-4)
    assert busiest_share(8, 1e12, skew=0.2) > 1.2 / 8


def test_the_busiest_rank_reads_as_many_experts_as_sampling_finds():
    random = np.random.default_rng(0)
    for experts, ranks, tokens in ((128, 8, 8), (128, 4, 32), (256, 8, 16)):
        most, everywhere = [], []
        for _ in range(300):
            log_popularity = np.log(random.gamma(1 / 0.81, 0.81, size=experts))
            scores = log_popularity + random.gumbel(size=(tokens, experts))
            touched = np.zeros(experts, bool)
            touched[np.argsort(scores)[:, -8:]] = True
            most.append(touched.reshape(ranks, -1).sum(axis=1).max())
            everywhere.append(touched.sum())
        assert busiest_active(experts, np.mean(everywhere), ranks) == pytest.approx(np.mean(most), rel=0.03)
    assert busiest_active(128, 40.0, 1) == pytest.approx(40)
    assert busiest_active(128, 128.0, 8) == busiest_active(128, 1e3, 8) == 16


def test_the_busiest_of_ranks_has_as_many_arrivals_as_sampling_finds():
    random = np.random.default_rng(0)
    means = np.array([0.01, 0.5, 3.0, 40.0, 400.0])
    for ranks in (1, 8, 32):
        largest = random.poisson(means, size=(20_000, ranks, 5)).max(axis=1)
        sampled = largest.sum(axis=0) / (largest > 0).sum(axis=0)
        assert busiest_count(ranks, means) == pytest.approx(sampled, rel=0.02)


def placed_by_load(popularity: np.ndarray, ranks: int, copies: int) -> float:
    """The busiest rank's load over the mean after EPLB: the heaviest gets each copy, the lightest rank each expert."""
    counts = np.ones(popularity.size)
    for _ in range(copies):
        counts[np.argmax(popularity / counts)] += 1
    loads, held = np.zeros(ranks), np.zeros(ranks)
    for load in sorted(np.repeat(popularity / counts, counts.astype(int)), reverse=True):
        rank = np.argmin(np.where(held < (popularity.size + copies) / ranks, loads, np.inf))
        loads[rank] += load
        held[rank] += 1
    return float(loads.max() / loads.mean())


@pytest.mark.parametrize(
    ("experts", "ranks", "spread", "copies"),
    [
        (256, 8, 0.9, 0),
        (256, 64, 0.9, 0),
        (256, 320, 0.9, 64),
        (256, 64, 1.5, 0),
        (256, 144, 0.9, 32),
        (128, 16, 0.3, 16),
        (256, 32, 3.0, 0),
        (256, 32, 3.0, 32),
    ],
)
def test_copies_of_busy_experts_even_ranks_out_as_far_as_sampling_finds(
    experts: int, ranks: int, spread: float, copies: int
) -> None:
    random = np.random.default_rng(0)
    drawn = random.gamma(1 / spread**2, spread**2, size=(240, experts))
    sampled = np.mean([placed_by_load(row, ranks, copies) for row in drawn])
    assert 1 + lasting_excess(experts, ranks, spread=spread, copies=copies) == pytest.approx(sampled, rel=0.05)


def test_ranks_with_experts_as_numbered_are_as_uneven_as_sampling_finds() -> None:
    random = np.random.default_rng(0)
    for ranks in (8, 32, 256):
        loads = random.gamma(1 / 0.81, 0.81, size=(300, ranks, 256 // ranks)).sum(axis=2)
        sampled = np.mean(loads.max(axis=1) / loads.mean(axis=1))
        assert 1 + lasting_excess(256, ranks, spread=0.9) == pytest.approx(sampled, rel=0.02)
    assert lasting_excess(256, 1, spread=0.9) == lasting_excess(256, 8, spread=0.0) == 0
    assert busiest_share(8, 1e12, lasting=0.25) == pytest.approx(1.25 / 8, rel=1e-4)
