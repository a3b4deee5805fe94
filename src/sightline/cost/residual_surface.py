"""What a formula leaves unexplained, smoothed over the logarithms of an operator's sizes.

A table of correction logarithms at the crossings of a few sizes per axis; between them it is interpolated linearly in
the sizes' logarithms. It is a description of measurements and not physics: inside the measured range it takes away what
a library's choice of kernels adds smoothly, and beyond it fades to nothing within one octave.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.content import description, record
from sightline.quantities import Number

Array = NDArray[np.float64]
Kind = NDArray[np.int64] | int

INSIDE = 1e-12
"""How far before the last knot, as a share of the way there, a size counts as lying in the last cell."""
UNIT = 0.005
"""Logarithm that one step of the stored whole numbers stands for: half a per cent of time."""


@description
class Axis:
    """Knots of one size, evenly spaced in its binary logarithm."""

    first: float
    last: float
    """Smallest and largest size measured."""
    knots: int
    """At least two."""

    @property
    def start(self) -> float:
        """Octaves of the first knot."""
        return float(np.log2(self.first))

    @property
    def per_octave(self) -> float:
        """Knots per octave."""
        return (self.knots - 1) / float(np.log2(self.last / self.first))


@record
class ResidualSurface:
    """Logarithms of measured over predicted time at the crossings of its axes' knots."""

    axes: tuple[Axis, ...]
    logarithms: Array
    """One per crossing, all in a row, the last axis running fastest."""
    kinds: int = 1
    """Kinds of operators that have a table of their own on these axes, one after the other in ``logarithms``."""
    _scales: tuple[Array, Array, Array]
    """Start, knots per octave and last knot of the axes, one below the other."""
    _strides: NDArray[np.int64]
    """Places from a knot to the next along each axis."""
    _corners: NDArray[np.int64]
    """Places of a cell's corners relative to its first, one below the other."""
    _opposite: Array
    """Coordinates of the corners opposite to these in a cell of side 1, axis by axis."""

    @classmethod
    def on(cls, axes: tuple[Axis, ...], logarithms: Array, kinds: int = 1) -> "ResidualSurface":
        """The surface with these logarithms on these axes."""
        knots = [axis.knots for axis in axes]
        start, per_octave, last = (
            np.array(column)[:, None]
            for column in zip(*((x.start, x.per_octave, x.knots - 1.0) for x in axes), strict=True)
        )
        strides = np.array([prod(knots[i + 1 :]) for i in range(len(axes))])
        corners = np.array(list(product((0, 1), repeat=len(axes))))[:, :, None]
        return cls(
            axes=axes,
            logarithms=logarithms,
            kinds=kinds,
            _scales=(start, per_octave, last * (1.0 - INSIDE)),
            _strides=strides,
            _corners=strides @ corners,
            _opposite=1.0 - corners,
        )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ResidualSurface":
        """The surface out of a calibration entry.

        ``axes`` holds ``[first, last, knots]`` each, ``steps`` whole multiples of ``UNIT`` as signed bytes in base64,
        of all ``kinds``.
        """
        axes = tuple(Axis(first=float(a), last=float(b), knots=int(count)) for a, b, count in mapping["axes"])
        steps = np.frombuffer(b64decode(mapping["steps"]), dtype=np.int8)
        return cls.on(axes, steps.astype(np.float64) * UNIT, int(mapping.get("kinds", 1)))

    def to_mapping(self) -> dict[str, Any]:
        """What ``from_mapping`` reads."""
        axes = [[axis.first, axis.last, axis.knots] for axis in self.axes]
        steps = np.clip(np.round(self.logarithms / UNIT), -127, 127).astype(np.int8)
        kinds = {"kinds": self.kinds} if self.kinds > 1 else {}
        return {**kinds, "axes": axes, "steps": b64encode(steps.tobytes()).decode()}

    def cells(self, *sizes: Number, kind: Kind = 0) -> tuple[NDArray[np.int64], Array, Number]:
        """Return the places of the cells' corners, their weights (both along a new first axis), and 1 inside the axes.

        Beyond the axes the nearest cell's edge stands in and the last number falls to 0 within an octave.
        """
        shape = np.broadcast(kind, *sizes).shape
        stacked = np.empty((len(self.axes), *shape))
        for i, size in enumerate(sizes):
            stacked[i] = size
        start, per_octave, last = self._scales
        at = (np.log2(stacked.reshape(len(self.axes), -1)) - start) * per_octave
        place = np.minimum(np.maximum(at, 0.0), last)
        below = place.astype(np.int64)
        upper = place - below
        weights = np.multiply.reduce(abs(self._opposite - upper), axis=1)
        corners = (self._strides @ below + self._corners).reshape(-1, *shape)
        if self.kinds > 1:
            corners = corners + kind * (len(self.logarithms) // self.kinds)
        beyond = at - place
        inside: Number = 1.0
        if np.logical_or.reduce(beyond, axis=None):
            inside = np.maximum(1.0 - (abs(beyond) / per_octave).sum(axis=0), 0.0).reshape(shape)
        return corners, weights.reshape(-1, *shape), inside

    def factor(self, *sizes: Number, kind: Kind = 0) -> Array:
        """Return what a predicted time is multiplied by, for one size (or array of sizes) per axis; they broadcast.

        ``kind`` numbers the operator's kind from 0 where the surface tells several apart.
        """
        corners, weights, inside = self.cells(*sizes, kind=kind)
        faded: Array = np.exp(np.add.reduce(self.logarithms.take(corners) * weights) * inside)
        return faded
