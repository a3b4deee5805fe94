"""What matmul constants leave unexplained, as a surface over rows, columns and depth, and how far it holds."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import error_statistics
from sightline.calibration.fits.surface import STIFFNESS, axis_over, fit_surface
from sightline.calibration.parts.matmul import MatmulTable, families, held_out, possible, predicted_seconds
from sightline.cost.matmul.constants import MatmulConstants, kind_of
from sightline.cost.residual_surface import ResidualSurface
from sightline.scenario import Device

Array = NDArray[np.float64]

KNOTS = (17, 12, 12)
"""Knots over m, n and k: about one an octave."""
DENSE_KNOTS = (22, 19, 18)
DENSE_STIFFNESS = STIFFNESS / 2
DENSE_ROWS = 20_000
"""Measurements that carry more knots, bends that are less stiff, and a table of their own for rows beyond blocks."""
LAYER_KNOTS = (25, 6, 5)
FEW_FAMILIES = 40
"""(n, k) families below which a table holds the layers of a few models: many rows of few weight matrices."""
ENOUGH_ROWS = 300
"""Measurements that a surface needs."""


class SurfaceFit(NamedTuple):
    """A surface with the errors that formula and surface leave together."""

    surface: ResidualSurface
    residuals: dict[str, dict[str, float]]


def has_enough(table: MatmulTable) -> bool:
    """Whether the table can carry a surface."""
    return len(table) >= ENOUGH_ROWS


def knots(table: MatmulTable) -> tuple[int, int, int]:
    """Knots over m, n and k that the table can carry."""
    if len(set(families(table))) < FEW_FAMILIES:
        return LAYER_KNOTS
    return DENSE_KNOTS if len(table) >= DENSE_ROWS else KNOTS


def surface_over(table: MatmulTable, predicted: Array, seen: NDArray[np.bool_]) -> ResidualSurface:
    """The surface fitted to the ``seen`` rows of a table, its axes and kinds those of the whole table.

    Of a dense table rows beyond whole blocks have a surface of their own.
    """
    axes = tuple(
        axis_over(sizes, count) for sizes, count in zip((table.m, table.n, table.k), knots(table), strict=True)
    )
    part = table.where(seen)
    sizes, logarithms = (part.m, part.n, part.k), np.log(part.seconds / predicted[seen])
    if len(table) < DENSE_ROWS:
        return fit_surface(axes, sizes, logarithms)
    return fit_surface(axes, sizes, logarithms, kind=kind_of(part.m), kinds=2, stiffness=DENSE_STIFFNESS)


def fit_matmul_surface(
    table: MatmulTable, device: Device, constants: MatmulConstants, kernel: str = "16-bit"
) -> SurfaceFit:
    """Return the surface over ``constants`` fitted to the whole table, and its errors there and on families left out.

    The families left out are those that the constants' fit did not see; neither does the surface judged on them.
    """
    kept = table.where(possible(table, device, kernel))
    predicted = predicted_seconds(kept, device, constants.without_surface(), kernel)
    test = held_out(kept)

    def errors(surface: ResidualSurface, rows: NDArray[np.bool_]) -> dict[str, float]:
        part = kept.where(rows)
        factor = replace(constants, surface=surface).correction(part.m, part.n, part.k)
        return error_statistics(predicted[rows] * factor, part.seconds)

    everything = np.ones(len(kept), dtype=bool)
    surface, without_test = surface_over(kept, predicted, everything), surface_over(kept, predicted, ~test)
    small = kept.m <= 64
    residuals = {
        "in range": errors(surface, kept.m > 0),
        "in range, m up to 64": errors(surface, small),
        "families left out": errors(without_test, test),
        "families left out, m up to 64": errors(without_test, test & small),
    }
    return SurfaceFit(surface, residuals)
