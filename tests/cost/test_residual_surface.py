"""Residual surfaces: they return what they hold, fade outside, store compactly and broadcast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.cost.residual_surface import UNIT, Axis, ResidualSurface

AXES = (Axis(first=1, last=4096, knots=13), Axis(first=32, last=8192, knots=5), Axis(first=64, last=1024, knots=3))


def tilted():
    """Logarithms that rise evenly along each axis: linear interpolation reproduces them everywhere."""
    octaves = [np.linspace(axis.start, np.log2(axis.last), axis.knots) for axis in AXES]
    m, n, k = np.meshgrid(*octaves, indexing="ij")
    return ResidualSurface.on(AXES, (0.01 * m - 0.02 * n + 0.005 * k).ravel())


@given(st.floats(1, 4096), st.floats(32, 8192), st.floats(64, 1024))
def test_between_knots_it_is_linear_in_the_sizes_logarithms(m, n, k):
    expected = np.exp(0.01 * np.log2(m) - 0.02 * np.log2(n) + 0.005 * np.log2(k))
    assert tilted().factor(m, n, k) == pytest.approx(expected, rel=1e-9)


def test_outside_it_fades_to_nothing_within_an_octave():
    flat = ResidualSurface.on(AXES, np.full(13 * 5 * 3, 0.2))
    assert flat.factor(4096, 256, 256) == pytest.approx(np.exp(0.2))
    assert flat.factor(4096 * 2**0.5, 256, 256) == pytest.approx(np.exp(0.1))
    assert flat.factor(8192, 256, 256) == pytest.approx(1.0)
    assert flat.factor(1e9, 256, 256) == pytest.approx(1.0)
    assert flat.factor(4096 * 2**0.5, 8192 * 2**0.5, 256) == pytest.approx(1.0)


def test_arrays_broadcast_and_equal_scalars():
    m, n = np.array([1.0, 33.0, 5000.0])[:, None], np.array([40.0, 900.0])
    together = tilted().factor(m, n, 100.0)
    assert together.shape == (3, 2)
    assert together == pytest.approx(np.array([[float(tilted().factor(a, b, 100.0)) for b in n] for a in m[:, 0]]))


def test_what_is_stored_reads_back_to_half_a_step():
    surface = tilted()
    stored = surface.to_mapping()
    back = ResidualSurface.from_mapping(stored)
    assert back.axes == surface.axes
    assert np.abs(back.logarithms - surface.logarithms).max() <= UNIT / 2 + 1e-12
    assert len(stored["steps"]) < 1.4 * len(surface.logarithms) + 4


@pytest.mark.parametrize("axes", [1, 2, 4])
def test_any_number_of_axes(axes):
    surface = ResidualSurface.on(tuple([Axis(first=1, last=16, knots=3)] * axes), np.full(3**axes, 0.1))
    assert surface.factor(*[np.array([2.0, 5.0])] * axes) == pytest.approx(np.exp([0.1, 0.1]))


def test_kinds_have_tables_of_their_own():
    logarithms = np.concatenate([np.full(13 * 5 * 3, 0.1), np.full(13 * 5 * 3, -0.2)])
    surface = ResidualSurface.on(AXES, logarithms, kinds=2)
    kinds = np.array([0, 1, 1])
    assert surface.factor(np.array([2.0, 2.0, 700.0]), 256, 256, kind=kinds) == pytest.approx(np.exp([0.1, -0.2, -0.2]))
    assert surface.factor(8.0, 256, 256) == pytest.approx(np.exp(0.1))
    back = ResidualSurface.from_mapping(surface.to_mapping())
    assert back.kinds == 2
    assert back.factor(8.0, 256, 256, kind=1) == pytest.approx(np.exp(-0.2))


@given(st.floats(1, 4096), st.floats(32, 8192), st.floats(64, 1024))
def test_the_weights_of_a_cells_corners_make_one(m, n, k):
    corners, weights, inside = tilted().cells(m, n, k)
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() >= 0.0
    assert len(set(corners.tolist())) == 8
    assert inside == pytest.approx(1.0)
