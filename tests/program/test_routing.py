"""Expected loads of experts and ranks, against exact values and sampling."""

import numpy as np
import pytest

from sightline.program.routing import busiest_active, busiest_share, expected_active


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
