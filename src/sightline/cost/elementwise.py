"""Bandwidth-bound kernels on a device."""

import numpy as np

from sightline.cost.operator_cost import OperatorCost
from sightline.cost.training_constants import TrainingConstants
from sightline.quantities import Number
from sightline.scenario import Device


def elementwise_cost(
    traffic_bytes: Number, kernels: Number, *, device: Device, constants: TrainingConstants
) -> OperatorCost:
    """Seconds of a chain of ``kernels`` kernels that move ``traffic_bytes`` in total.

    Each kernel ramps up and drains in a fixed time and streams at a share of the memory bandwidth; what fits the L2
    cache between kernels (its traffic is smaller than a share of L2) streams faster. Left out: arithmetic, which these
    kernels hide.
    """
    c = constants
    traffic_bytes = np.asarray(traffic_bytes, dtype=float)
    memory_s = traffic_bytes / device.memory_bandwidth
    resident = np.maximum(0.0, 1.0 - traffic_bytes / (kernels * device.l2_bytes))
    cached = 1.0 / (1.0 - resident + resident * device.memory_bandwidth / device.l2_bandwidth)
    time_s = memory_s / (c.memory_fraction * cached) + kernels * c.kernel_latency_s
    return OperatorCost(time_s, 0.0 * memory_s, memory_s)
