"""Tori against what can be counted on paper."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.collectives.collective import all_to_all_share, ring_share, steps, torus_shape
from sightline.scenario import Interconnect

CUBE = Interconnect(name="ici", bandwidth=540e9, latency_s=1e-6, topology="torus", dimensions=3, closes_at=4)
LINK = CUBE.bandwidth / 6


@pytest.mark.parametrize(
    ("devices", "dimensions", "shape"),
    [(64, 3, (4, 4, 4)), (256, 2, (16, 16)), (512, 3, (8, 8, 8)), (256, 3, (8, 8, 4)), (16, 2, (4, 4)), (7, 2, (7, 1))],
)
def test_shapes_are_as_even_as_whole_numbers_allow(devices, dimensions, shape):
    assert torus_shape(devices, dimensions) == shape


def test_a_ring_takes_both_links_of_every_closed_dimension():
    # An all-gather of S among all 64 moves 63/64 S into every device over six links.
    assert ring_share(64, 64, CUBE) == 1.0
    # Four fill one dimension, a ring of two links; a pair has one link of the six.
    assert ring_share(4, 64, CUBE) * CUBE.bandwidth == pytest.approx(2 * LINK)
    assert ring_share(2, 64, CUBE) * CUBE.bandwidth == pytest.approx(LINK)


@pytest.mark.parametrize(("ranks", "seconds_of_a_link"), [(2, 1 / 2), (4, 1 / 2), (16, 1 / 2), (64, 1 / 2)])
def test_an_all_to_all_is_bound_by_the_links_in_the_middle(ranks, seconds_of_a_link):
    # In a closed ring of k the data of every rank travel k/4 links on average, over two links per rank: S k / 8 b.
    time = (ranks - 1) / ranks / (all_to_all_share(ranks, 64, CUBE) * CUBE.bandwidth)
    assert time == pytest.approx(seconds_of_a_link / LINK)


def test_open_lines_take_twice_as_long():
    square = replace(CUBE, dimensions=2, closes_at=16)
    closed = replace(square, closes_at=8)
    assert all_to_all_share(64, 64, closed) == pytest.approx(2 * all_to_all_share(64, 64, square))
    assert ring_share(64, 64, closed) == 2 * ring_share(64, 64, square) == 1.0


def test_steps_go_half_way_round():
    assert steps(64, 64, CUBE) == 3 * 2
    assert steps(64, 64, replace(CUBE, dimensions=2, closes_at=16)) == 2 * 7
    assert steps(1, 64, CUBE) == 0


@given(st.lists(st.sampled_from([1, 2, 3, 4, 8, 12, 16, 32, 64]), min_size=1, max_size=5))
def test_many_groups_are_as_each(ranks):
    together = np.array(ranks, dtype=float)
    for of in (ring_share, all_to_all_share, steps):
        np.testing.assert_allclose(of(together, 64, CUBE), [float(of(float(r), 64, CUBE)) for r in ranks])


@given(st.sampled_from([16, 64, 256, 512, 4096]), st.sampled_from([2, 3]))
def test_larger_slices_never_send_an_all_to_all_faster(devices, dimensions):
    link = replace(CUBE, dimensions=dimensions, closes_at=1)
    small, large = (
        (n - 1) / n / float(all_to_all_share(float(n), n, link)) for n in (devices, devices * 2**dimensions)
    )
    assert large >= small * (1 - 1e-12)
