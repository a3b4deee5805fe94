"""What linear attention with the gated delta rule costs (arXiv 2412.06464; chunks: arXiv 2406.06484).

Decoding reads and writes each sequence's state. Prefill cuts the tokens into chunks of ``C``: five kernels compute the
products of keys, invert a triangle, make the chunk's corrections, hand the state from chunk to chunk, and read it.
Symbols: ``dk, dv`` key and value dimension, per value head.
"""

from typing import Any

import numpy as np

from sightline.cost.linear_attention_constants import LinearConstants, load_linear
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

__all__ = ["LinearConstants", "gated_delta_cost", "load_linear"]

PREFILL_KERNELS = 5
BACKWARD_KERNELS = 9
"""Those of a backward pass: corrections and states again, then gradients of values, states, queries and keys, of the
corrections, and of decays."""
BACKWARD_HANDED_ON = 3.0
"""What a backward pass's kernels hand on, in forward passes: once what is made again, twice the gradients (estimate)."""
STATE_BYTES = 4.0
"""States are kept in fp32."""
STATE_COLUMNS = 64.0
"""Value dimensions of a head that one thread block carries along the sequence."""


def gated_delta_cost(
    sequences: Number,
    new_tokens: Number,
    key_heads: Number,
    value_heads: Number,
    key_dim: Number,
    value_dim: Number,
    *,
    decode: Any,
    backward: Any = False,
    dtype: str,
    element_bytes: Number,
    device: Device,
    constants: LinearConstants,
) -> OperatorCost:
    """Seconds of the gated delta rule over ``new_tokens`` of each of ``sequences``; projections and convolution apart.

    The compute leg counts ``6 dk dv`` FLOPs per token and value head (decay and correct, read), in prefill also
    ``2 C (3 dk + 2 dv)`` within chunks; the memory leg queries, keys, values, output, and the states in and out. The
    time of prefill adds up what its kernels, one after the other, need for matmuls, for what they hand on through
    memory, and for the chunks that a compute unit takes one by one.

    A ``backward`` pass has two products for each of the forward pass's, and makes corrections and states again:
    ``2 C (2 dk + dv) + 4 dk dv`` FLOPs more; it walks along the chunks twice, for the states and for their gradients.

    Left out: the launches of the update kernel, 70 us from Python (CUDA graphs hide them); inverting the triangle.
    """
    c = constants
    b, q, hv = (np.asarray(x, dtype=float) for x in (sequences, new_tokens, value_heads))
    dk, dv, chunk, bandwidth = key_dim, value_dim, c.chunk_tokens, device.memory_bandwidth
    tokens, state = b * q, b * hv * dk * dv
    within = tokens * hv * 2 * chunk * (3 * dk + 2 * dv)
    passes = np.where(backward, 2.0, 1.0)
    within = passes * within + np.where(backward, tokens * hv * 2 * chunk * (2 * dk + dv), 0.0)
    carried = np.where(backward, 16, 6) * tokens * hv * dk * dv
    compute_s = (carried + np.where(decode, 0.0, within)) / device.peak_flops[dtype]
    memory_s = passes * (tokens * 2 * (key_heads * dk + hv * dv) * element_bytes + 2 * STATE_BYTES * state) / bandwidth
    update_s = np.maximum(memory_s / c.update_fraction, compute_s) + c.latency_s

    matmul_s = (within + 2 * passes * tokens * hv * dk * dv) / (device.peak_flops[dtype] * c.peak_fraction)
    triangle = 2 * chunk * (4.0 + element_bytes)
    handed_on = hv * (triangle + element_bytes * (dk + 4 * dv + dk * dv / chunk)) + element_bytes * key_heads * 4 * dk
    blocks = np.maximum(b * hv * dv / STATE_COLUMNS / device.compute_units, 1.0)
    handed_on = np.where(backward, BACKWARD_HANDED_ON, 1.0) * handed_on
    steps_s = np.maximum(passes * blocks * np.ceil(q / chunk) * c.step_s, memory_s)
    prefill_s = matmul_s + tokens * handed_on / (bandwidth * c.memory_fraction) + steps_s
    kernels = np.where(backward, BACKWARD_KERNELS, PREFILL_KERNELS)
    prefill_s = np.maximum(prefill_s, np.maximum(compute_s, memory_s)) + kernels * c.latency_s
    return OperatorCost(np.where(decode, update_s, prefill_s), compute_s, memory_s)
