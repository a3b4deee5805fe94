"""Spreads of generations that may have been run in two ways."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sightline.calibration.inference import outside

NUMBERS = st.floats(-3.0, 3.0)


def test_a_measurement_between_two_readings_is_no_error():
    errors, apart = np.array([0.5, 0.5, 0.5, -0.2]), np.array([0.0, -0.8, -0.4, -0.5])
    assert np.allclose(outside(errors, apart), [0.5, 0.0, 0.1, -0.2])


@given(error=NUMBERS, apart=NUMBERS)
def test_two_readings_err_by_no_more_than_the_nearer(error, apart):
    found = float(outside(np.array([error]), np.array([apart]))[0])
    nearer = min(abs(error), abs(error + apart))
    assert abs(found) in (nearer, 0.0)
    assert (found == 0.0) == (min(error, error + apart) <= 0.0 <= max(error, error + apart))
