"""Bandwidth-bound kernels on a device."""

import numpy as np

from sightline.cost.elementwise_constants import StreamConstants, memory_share
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device


def elementwise_cost(
    traffic_bytes: Number,
    arithmetic: Number,
    kernels: Number,
    *,
    device: Device,
    constants: StreamConstants,
    footprint_bytes: Number | None = None,
) -> OperatorCost:
    """Seconds of a chain of ``kernels`` kernels that move ``traffic_bytes`` and issue ``arithmetic`` in total.

    Each kernel ramps up and drains in a fixed time and streams at a share of the memory bandwidth, faster where its
    tensors fill less than the L2 cache and were just written there (as far as bytes bind it at all); exponentials and random numbers may take longer
    than the bytes. Work inside another kernel has ``kernels`` of 0. ``footprint_bytes`` are those of the distinct tensors, fewer than the traffic for kernels in place.
    """
    c = constants
    memory_s = np.asarray(traffic_bytes, dtype=float) / device.memory_bandwidth
    compute_s = arithmetic / device.vector_flops
    footprint = traffic_bytes if footprint_bytes is None else footprint_bytes
    resident = np.maximum(0.0, 1.0 - footprint / ((kernels + (kernels == 0.0)) * device.l2_bytes))
    slower = 1.0 - c.cache_gain * resident * (1.0 - device.memory_bandwidth / device.l2_bandwidth)
    streaming_s = memory_s * slower / memory_share(c, device)
    time_s = np.maximum(streaming_s, compute_s / c.vector_fraction) + kernels * c.kernel_latency_s
    return OperatorCost(time_s, compute_s, memory_s)
