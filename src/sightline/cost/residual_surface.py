"""What a formula leaves unexplained, smoothed over the logarithms of an operator's sizes.

A table of correction logarithms at the crossings of a few sizes per axis; between them it is interpolated linearly in
the sizes' logarithms. It is a description of measurements and not physics: inside the measured range it takes away what
a library's choice of kernels adds smoothly, and beyond it fades to nothing within one octave.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Number

Array = NDArray[np.float64]

UNIT = 0.005
"""Logarithm that one step of the stored whole numbers stands for: half a per cent of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResidualSurface:
    """Logarithms of measured over predicted time at the crossings of its axes' knots."""

    axes: tuple[Axis, ...]
    logarithms: Array
    """One per crossing, all in a row, the last axis running fastest."""
    _scales: tuple[tuple[float, float, int], ...]
    """Start, knots per octave and last cell of each axis."""
    _corners: NDArray[np.int64]
    """Places of a cell's corners relative to its first, neighbours along the last axis side by side."""

    @classmethod
    def on(cls, axes: tuple[Axis, ...], logarithms: Array) -> "ResidualSurface":
        """The surface with these logarithms on these axes."""
        corners = np.zeros(1, dtype=np.int64)
        stride = len(logarithms)
        for axis in axes:
            stride //= axis.knots
            corners = (corners[:, None] + np.array([0, stride])).ravel()
        scales = tuple((axis.start, axis.per_octave, axis.knots - 2) for axis in axes)
        return cls(axes=axes, logarithms=logarithms, _scales=scales, _corners=corners)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ResidualSurface":
        """The surface out of a calibration entry.

        ``axes`` holds ``[first, last, knots]`` each, ``steps`` whole multiples of ``UNIT`` as signed bytes in base64.
        """
        axes = tuple(Axis(first=float(a), last=float(b), knots=int(count)) for a, b, count in mapping["axes"])
        steps = np.frombuffer(b64decode(mapping["steps"]), dtype=np.int8)
        return cls.on(axes, steps.astype(np.float64) * UNIT)

    def to_mapping(self) -> dict[str, Any]:
        """What ``from_mapping`` reads."""
        axes = [[axis.first, axis.last, axis.knots] for axis in self.axes]
        steps = np.clip(np.round(self.logarithms / UNIT), -127, 127).astype(np.int8)
        return {"axes": axes, "steps": b64encode(steps.tobytes()).decode()}

    def cells(self, *sizes: Number) -> tuple[NDArray[np.int64], Array, Array]:
        """Return the places of the cells' corners, their weights (both along a new last axis), and 1 inside the axes.

        Beyond the axes the nearest cell's edge stands in and the last number falls to 0 within an octave.
        """
        index: Any = 0
        outside: Any = 0.0
        weights: Any = None
        for axis, (start, per_octave, last_cell), size in zip(self.axes, self._scales, sizes, strict=True):
            at = (np.log2(size) - start) * per_octave
            place = np.minimum(np.maximum(at, 0.0), last_cell + 1.0)
            below = np.minimum(place.astype(np.int64), last_cell)
            outside = outside + abs(at - place) / per_octave
            index = index * axis.knots + below
            share = (place - below)[..., None]
            pair = np.concatenate((1.0 - share, share), axis=-1)
            weights = pair if weights is None else _outer(weights, pair)
        return np.asarray(index)[..., None] + self._corners, weights, np.maximum(1.0 - outside, 0.0)

    def factor(self, *sizes: Number) -> Array:
        """Return what a predicted time is multiplied by, for one size (or array of sizes) per axis; they broadcast."""
        corners, weights, inside = self.cells(*sizes)
        faded: Array = np.exp((self.logarithms[corners] * weights).sum(axis=-1) * inside)
        return faded


def _outer(a: Array, b: Array) -> Array:
    product: Array = a[..., :, None] * b[..., None, :]
    return product.reshape(*product.shape[:-2], -1)
