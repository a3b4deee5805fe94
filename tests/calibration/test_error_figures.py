"""Statistics of errors, worked out by hand."""

import numpy as np
import pytest

from sightline.calibration.error_figures import covered, mean_error, typical_half_width, width_holding, without_wild


def test_errors_are_logarithms_and_said_as_fractions() -> None:
    assert mean_error(np.log([1.1, 0.9])) == pytest.approx(0.1)
    assert covered([0.1, -0.3], [0.2, 0.2]) == 0.5
    assert covered([0.1, -0.3], 0.4) == 1.0
    assert typical_half_width(np.log([1.1, 1.2, 2.0])) == pytest.approx(0.2)


def test_the_width_holds_four_in_five_by_weight() -> None:
    errors = np.array([-0.5, 0.1, 0.2, -0.3, 0.4])
    assert width_holding(errors, np.ones(5)) == 0.4
    assert width_holding(errors, np.array([10.0, 1, 1, 1, 1])) == 0.5


def test_wild_errors_count_as_twice_the_80th_percentile() -> None:
    errors = np.array([0.1, 0.1, 0.1, 0.1, -9.0])
    assert without_wild(errors).min() > -9.0
    assert list(without_wild(errors)[:4]) == [0.1] * 4
