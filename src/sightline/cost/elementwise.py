"""Bandwidth-bound kernels on a device."""

import numpy as np

from sightline.cost.operator_cost import OperatorCost
from sightline.cost.training_constants import TrainingConstants
from sightline.quantities import Number
from sightline.scenario import Device


def elementwise_cost(
    traffic_bytes: Number, arithmetic: Number, kernels: Number, *, device: Device, constants: TrainingConstants
) -> OperatorCost:
    """Seconds of a chain of ``kernels`` kernels that move ``traffic_bytes`` and issue ``arithmetic`` in total.

    Each kernel ramps up and drains in a fixed time and streams at a share of the memory bandwidth, faster where its
    traffic is smaller than the L2 cache and was just written there; exponentials and random numbers may take longer
    than the bytes.
    """
    c = constants
    memory_s = np.asarray(traffic_bytes, dtype=float) / device.memory_bandwidth
    compute_s = arithmetic / device.vector_flops
    resident = np.maximum(0.0, 1.0 - traffic_bytes / (kernels * device.l2_bytes))
    slower = 1.0 - resident * (1.0 - device.memory_bandwidth / device.l2_bandwidth)
    streaming_s = memory_s * slower / c.memory_fraction
    time_s = np.maximum(streaming_s, compute_s / c.vector_fraction) + kernels * c.kernel_latency_s
    return OperatorCost(time_s, compute_s, memory_s)
