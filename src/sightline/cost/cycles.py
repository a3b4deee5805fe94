"""Cycles of a device's compute units, as far as its datasheet tells them.

What kernels take to start and to join their parts are so many cycles, much the same from one generation to the next,
while waiting for memory takes its time at any clock.
"""

import numpy as np

from sightline.quantities import Number
from sightline.scenario import Device

FASTEST_CLOCK_HZ = 2.9e9
"""No accelerator's compute units run faster; two operations per lane and cycle tell the lanes by it."""
MOST_LANES = 128
REFERENCE_HZ = 1.75e9
"""Clock at which constants of several devices together state their cycles as times."""


def clock_hz(device: Device) -> Number:
    """Return the clock; compute units have 64 or 128 lanes of two operations a cycle."""
    per_lane = device.vector_flops / device.compute_units / MOST_LANES
    clock: Number = np.where(np.greater(per_lane, FASTEST_CLOCK_HZ), per_lane / 2, per_lane)
    return clock


def lanes(device: Device) -> Number:
    """Return how many fp32 operations a compute unit starts per cycle."""
    return device.vector_flops / device.compute_units / clock_hz(device) / 2
