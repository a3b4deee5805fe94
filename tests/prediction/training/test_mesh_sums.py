"""Sums over a mesh are those of plain broadcasting, whatever axes their terms lie on and however they are cut."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.prediction.training import mesh
from sightline.prediction.training.mesh import at, blocks, largest_sum, merged, summed
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


@given(TERMS, st.lists(TERMS, min_size=1, max_size=3), st.integers(1, 200))
def test_blocks_give_what_the_whole_mesh_gives(terms, more, plans):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mesh, "blocks", lambda shape: blocks(shape, plans))
        assert summed(merged(terms), SHAPE) == pytest.approx(whole(terms))
        largest = reduce(np.maximum, map(whole, [terms, *more]))
        assert largest_sum([merged(each) for each in [terms, *more]], SHAPE) == pytest.approx(largest)


@given(st.integers(1, 200))
def test_blocks_cover_every_plan_once(plans):
    seen = np.zeros(SHAPE)
    for index in blocks(SHAPE, plans):
        assert seen[index].size <= plans
        seen[index] += 1
    assert (seen == 1).all()


def test_a_part_of_a_number_keeps_the_axes_along_which_it_is_constant():
    index = (slice(1, 2), slice(0, 2), slice(None), slice(None))
    assert at(3.0, index) == 3.0
    assert np.shape(at(np.ones((3, 1, 2, 1)), index)) == (1, 1, 2, 1)
    assert np.shape(at(np.ones((2, 5)), index)) == (2, 5)
