"""What the short causal convolution before a recurrent mixer costs: a kernel bound by bytes."""

from typing import Any

import numpy as np

from sightline.cost.linear_attention_constants import LinearConstants
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device


def short_convolution_cost(
    sequences: Number,
    new_tokens: Number,
    channels: Number,
    width: Number,
    *,
    decode: Any,
    backward: Any = False,
    element_bytes: Number,
    device: Device,
    constants: LinearConstants,
) -> OperatorCost:
    """Seconds of a convolution of ``width`` taps over ``channels``, with its activation.

    The memory leg moves every token in and out, and the ``width`` last tokens of each sequence in and out; the
    arithmetic, ``2 width`` operations per element, counts against the vector units. A ``backward`` pass reads a gradient
    besides, and computes three times as much: the output again, and the gradients of inputs and weights.
    """
    c = constants
    tokens = np.asarray(sequences, dtype=float) * new_tokens
    memory_s = (
        np.where(backward, 3, 2) * channels * (tokens + sequences * width) * element_bytes / device.memory_bandwidth
    )
    compute_s = np.where(backward, 6, 2) * width * tokens * channels / device.vector_flops
    fraction = np.where(decode, c.conv_update_fraction, c.conv_fraction)
    return OperatorCost(np.maximum(memory_s / fraction, compute_s) + c.latency_s, compute_s, memory_s)
