"""Sums over a mesh are those of plain broadcasting, whatever axes their terms lie on."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.prediction.training.step_profile import merged
from sightline.quantities import Number

SHAPE = (3, 4, 2, 5)
TERM = st.one_of(
    st.floats(-1e3, 1e3),
    st.tuples(*(st.sampled_from((1, size)) for size in SHAPE)).map(
        lambda shape: np.arange(float(np.prod(shape))).reshape(shape) - 7.0
    ),
    st.just(np.arange(10.0).reshape(2, 5)),
)
TERMS = st.lists(TERM, min_size=1, max_size=6)


def whole(terms: Sequence[Number]) -> Number:
    return np.broadcast_to(reduce(add, terms), SHAPE)


@given(TERMS)
def test_merged_terms_are_fewer_and_sum_to_the_same(terms):
    fewer = merged(terms)
    assert len(fewer) <= len(terms)
    assert whole(fewer) == pytest.approx(whole(terms))
    assert max(map(np.size, fewer)) == max(map(np.size, terms))
