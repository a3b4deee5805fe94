"""What a Mamba-2 scan costs (arXiv 2405.21060, section 6): matmuls within chunks, states from chunk to chunk.

Symbols: ``P`` head dimension, ``N`` state dimension, ``C`` tokens of a chunk, ``g`` groups that share B and C.
"""

from typing import Any

import numpy as np

from sightline.cost.mixers.linear import BACKWARD_HANDED_ON, STATE_BYTES, LinearConstants
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device

PREFILL_KERNELS = 5
BACKWARD_KERNELS = 10
"""States and products of B and C again, then gradients of inputs, states, B, C, their products, steps and decays."""


def state_space_cost(
    sequences: Number,
    new_tokens: Number,
    heads: Number,
    head_dim: Number,
    groups: Number,
    state: Number,
    *,
    decode: Any,
    backward: Any = False,
    dtype: str,
    element_bytes: Number,
    device: Device,
    constants: LinearConstants,
) -> OperatorCost:
    """Seconds of the scan over ``new_tokens`` of each of ``sequences``; projections, convolution and norm apart.

    The compute leg counts ``4 P N`` FLOPs per token and head, in prefill also ``2 C (P + N g / heads)`` within chunks;
    the memory leg inputs, B, C and output, and the fp32 states in and out. Decoding streams the states; prefill adds up
    its kernels' matmuls and what they hand on through memory: chunk states four times, products of B and C twice,
    inputs three times. A ``backward`` pass has two products for each of the forward pass's and makes the states and the
    products of B and C again (``2 P N`` and ``2 C N g / heads`` more), as the published kernels do. Nobody's tables hold this kernel: the constants are the gated delta rule's.
    """
    c = constants
    b, q, h = (np.asarray(x, dtype=float) for x in (sequences, new_tokens, heads))
    p, n, chunk, bandwidth = head_dim, state, c.chunk_tokens, device.memory_bandwidth
    tokens, kept, shared = b * q, b * h * p * n, groups * n
    within = tokens * 2 * chunk * (h * p + shared)
    passes = np.where(backward, 2.0, 1.0)
    within = passes * within + np.where(backward, tokens * 2 * chunk * shared, 0.0)
    carried = np.where(backward, 10, 4) * tokens * h * p * n
    compute_s = (carried + np.where(decode, 0.0, within)) / device.peak_flops[dtype]
    memory_s = passes * (tokens * 2 * (h * p + shared) * element_bytes + 2 * STATE_BYTES * kept) / bandwidth
    update_s = np.maximum(memory_s / c.update_fraction, compute_s) + c.latency_s

    handed_on = 4 * STATE_BYTES * h * p * n / chunk + 8 * groups * chunk + 2 * element_bytes * (h * p + shared)
    handed_on = np.where(backward, BACKWARD_HANDED_ON, 1.0) * handed_on
    prefill_s = compute_s / c.peak_fraction + (tokens * handed_on / bandwidth + memory_s) / c.memory_fraction
    prefill_s = prefill_s + np.where(backward, BACKWARD_KERNELS, PREFILL_KERNELS) * c.latency_s
    return OperatorCost(np.where(decode, update_s, prefill_s), compute_s, memory_s)
