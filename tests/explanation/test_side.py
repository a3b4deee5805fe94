"""The ratio of uncertain figures: its interval holds the truth as often as it says, noise is no difference."""

import math

import numpy as np
import pytest

from sightline.explanation.compared import (
    CERTAINTY,
    EXACT,
    RUN_TO_RUN,
    WIDER,
    Spread,
    difference,
    interval_of,
    ratio_spread,
    spread_of,
)
from sightline.profile.results import median_interval


def test_a_spread_is_the_distance_to_the_ends_in_the_logarithm():
    assert spread_of(2.0, (1.0, 8.0)) == pytest.approx((math.log(2), math.log(4)))


@pytest.mark.parametrize(("value", "ends"), [(1.0, None), (0.0, (0.5, 2.0)), (1.0, (0.0, 2.0)), (1.0, (2.0, 1.0))])
def test_an_interval_that_says_nothing_is_no_spread(value, ends):
    assert spread_of(value, ends) is None


def test_each_end_of_a_ratio_joins_the_ends_that_lead_there():
    found = ratio_spread(Spread(0.3, 0.4), Spread(0.4, 0.3))
    assert found == pytest.approx((math.hypot(0.4, 0.4), math.hypot(0.3, 0.3)))


def test_beside_an_exact_figure_a_ratio_is_as_uncertain_as_the_other():
    assert interval_of(2.0, ratio_spread(EXACT, Spread(0.1, 0.2))) == pytest.approx(
        (2.0 * math.exp(-0.1), 2.0 * math.exp(0.2))
    )
    assert ratio_spread(Spread(0.1, 0.2), EXACT) == Spread(0.2, 0.1)


def certainly(ratio, spread):
    """The difference by the interval that holds the ratio in 99 of 100 cases."""
    return difference(ratio, interval_of(ratio, spread, CERTAINTY))


def test_a_difference_is_what_the_interval_says():
    spread = Spread(0.1, 0.1)
    assert difference(1.15, interval_of(1.15, spread)) == 1
    assert certainly(1.15, spread) == 0
    assert certainly(math.exp(0.1 * WIDER * 1.01), spread) == 1
    assert certainly(math.exp(-0.1 * WIDER * 1.01), spread) == -1
    assert (difference(1.0005, None), difference(1.002, None), difference(0.998, None)) == (0, 1, -1)


def medians(generator, scale, runs, samples):
    """Medians of skewed samples with their rank intervals, as a measurement states them."""
    for taken in scale * (1.0 + generator.gamma(2.0, 0.05, (runs, samples))):
        yield spread_of(float(np.median(taken)), median_interval(list(taken))), float(np.median(taken))


def test_the_interval_of_a_ratio_holds_the_true_one_four_times_in_five():
    generator = np.random.default_rng(3)
    pairs = zip(medians(generator, 1.0, 1500, 40), medians(generator, 1.3, 1500, 25), strict=True)
    held = 0
    for (spread_a, a), (spread_b, b) in pairs:
        low, high = interval_of(b / a, ratio_spread(spread_a, spread_b))
        held += low <= 1.3 <= high
    assert 0.77 <= held / 1500 <= 0.87


def test_noise_alone_is_called_a_difference_once_in_a_hundred_times_at_most():
    generator = np.random.default_rng(4)
    pairs = zip(medians(generator, 1.0, 2000, 30), medians(generator, 1.0, 2000, 30), strict=True)
    found = sum(certainly(b / a, ratio_spread(sa, sb)) != 0 for (sa, a), (sb, b) in pairs)
    assert found / 2000 <= 0.02


def test_two_runs_three_per_cent_apart_are_not_told_apart_by_many_samples():
    another = Spread(RUN_TO_RUN, RUN_TO_RUN)
    assert certainly(1.028, ratio_spread(another, another)) == 0
    assert certainly(1.04, ratio_spread(another, another)) == 1
