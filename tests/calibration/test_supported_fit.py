"""A constant is free only where enough rows notice it and its range does not hold it."""

import numpy as np
from engine_fit import noticing_rows, supported_fit

from sightline.calibration.fits import Prior

X = np.linspace(1.0, 3.0, 12)
PRIORS = {
    "scale": Prior(value=1.0, spread=1.0, low=0.1, high=10.0),
    "rare": Prior(value=1.0, spread=1.0, low=0.1, high=10.0),
}


def predict(values):
    """Eight rows of a scale, and four in which a second constant counts too."""
    rare = np.where(np.arange(12) < 4, values.get("rare", 1.0), 1.0)
    return values.get("scale", 1.0) * X * rare


def test_a_constant_that_few_rows_notice_is_held():
    found = supported_fit(predict, 1.5 * X, np.ones(12), PRIORS)
    assert found.held == {"rare": "4 of 5 rows notice it"}
    assert found.constants.keys() == {"scale"}
    assert abs(found.constants["scale"] - 1.5) < 0.01
    assert found.rows == {"scale": 12}


def test_rows_that_predict_the_same_count_once():
    same = lambda values: np.full(12, values.get("scale", 1.0))  # noqa: E731 - shorter here
    assert noticing_rows(same, {"scale": 1.0}, "scale", 1.0) == 1


def test_a_small_time_counts_where_a_usual_one_would_be_noticed():
    def with_host(values):
        return X + values["host_s"]

    assert noticing_rows(with_host, {"host_s": 1e-4}, "host_s", 1e-4) == 0
    assert noticing_rows(with_host, {"host_s": 1e-4}, "host_s", 1.0) == 12


def test_a_constant_on_its_bound_is_held():
    narrow = {"scale": Prior(value=1.0, spread=1.0, low=0.9, high=1.1)}
    found = supported_fit(predict, 1.5 * X, np.ones(12), narrow)
    assert found.held == {"scale": "ends on its bound"}
    assert found.constants == {}
