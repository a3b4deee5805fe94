"""What near plans have in common, and how wide intervals are where anchors contradict each other."""

from unittest.mock import Mock

import numpy as np
import pytest

from sightline.prediction.anchoring.posterior import (
    Description,
    Spreads,
    Unexplained,
    contradicting,
    covariance_of,
    likeness,
    widest,
)
from sightline.prediction.anchoring.timed import Timed

SPREADS = Spreads(shared=0.5, constants=1.0, doublings=4.0, choices=4.0)


def _part(*, tokens=1.0, recompute="none", host=0.0, beyond=0.0):
    description = Description(numbers={"tokens": tokens}, choices={"recompute": recompute})
    return Unexplained(
        description=description, noise=0.03, near={"case": 0.04, "host": host}, common={"devices": beyond}
    )


def test_the_same_plan_has_all_but_its_noise_in_common():
    one = _part(host=0.2, beyond=0.1)
    assert one.variance == pytest.approx(0.03**2 + float(one.shared_with(one, SPREADS)))


def test_what_a_constant_shows_is_shared_only_by_those_that_hang_on_it():
    one, other, free = _part(host=0.2), _part(host=0.1, tokens=2.0), _part(tokens=2.0)
    near = np.exp(-1 / 4)
    assert one.shared_with(other, SPREADS) == pytest.approx(near * (0.04**2 + 0.2 * 0.1))
    assert one.shared_with(free, SPREADS) == pytest.approx(near * 0.04**2)


def test_each_choice_and_factor_of_two_makes_plans_less_alike():
    of = [one.description for one in (_part(), _part(tokens=4.0), _part(tokens=4.0, recompute="full"))]
    assert [likeness(of[0], other, SPREADS) for other in of] == pytest.approx([1.0, np.exp(-0.5), np.exp(-0.75)])


def test_covariances_are_symmetric_and_positive():
    parts = [_part(), _part(tokens=2.0, host=0.3), _part(recompute="full", beyond=0.2)]
    found = covariance_of(parts, SPREADS)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    assert np.diag(found) == pytest.approx([part.variance for part in parts])


def test_results_of_one_run_are_one_side_of_a_contradiction():
    timed = [
        Timed(scenario=None, seconds=1.0, quantity=key, name=name) for name in "ab" for key in ("ttft_s", "tpot_s")
    ]

    def of(said, timed):
        return contradicting(Mock(contradictions=said, timed=timed))

    assert of(["contradict"], timed) == ["a", "b"]
    assert of(["contradict"], timed[:2]) == of([], timed) == []


def test_an_interval_spans_what_each_anchor_says_alone():
    assert widest(0.1, []) == 0.1
    assert widest(0.1, [(-0.3, 0.2), (0.4, 0.05)]) == pytest.approx(0.5)
