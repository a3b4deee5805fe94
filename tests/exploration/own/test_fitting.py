"""One of several is taken: one that fits before any other, then by memory, then by time."""

import numpy as np
import pytest

from sightline.exploration.own.fastest import fitting_first

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("seconds", "fits", "memory", "place"),
    [
        ([3.0, 1.0, 2.0], [True, False, True], [1, 1, 1], 2),
        ([3.0, 1.0, 2.0], [False, False, False], [1, 1, 1], 1),
        ([3.0, 1.0, 2.0], [False, False, False], [1, 2, 1], 2),
        ([INF, NAN, 2.0], [True, True, False], [0, 0, 9], 2),
        ([1.0 + 1e-15, 1.0], [False, False], [5, 5], 1),
        ([INF, INF], [True, True], [1, 1], 0),
    ],
)
def test_what_fits_comes_first_then_least_memory_then_the_fastest(seconds, fits, memory, place):
    column = [np.array(values)[:, np.newaxis] for values in (seconds, fits, memory)]
    assert fitting_first(*column).tolist() == [place]
    both = fitting_first(*(np.concatenate([one, one[::-1]], axis=1) for one in column))
    assert both[0] == place
