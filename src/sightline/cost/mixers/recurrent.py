"""What mixers with a state of fixed size cost: the gated delta rule, Mamba-2's scan, and the convolution before them.

Decoding reads and writes each sequence's state. Prefill cuts the tokens into chunks of ``C``. Of linear attention with
the gated delta rule (arXiv 2412.06464; chunks: arXiv 2406.06484) five kernels compute the products of keys, invert a
triangle, make the chunk's corrections, hand the state from chunk to chunk, and read it; ``dk, dv`` are key and value
dimension, per value head. A Mamba-2 scan (arXiv 2405.21060, section 6) has matmuls within chunks and states from chunk to
chunk; ``P`` head dimension, ``N`` state dimension, ``g`` groups that share B and C. The short causal convolution is a
kernel bound by bytes.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.cost.families import Stated
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearConstants(Stated):
    """One set per device family and kind of mixer."""

    chunk_tokens: float
    """Tokens that prefill works on as dense matmuls; from chunk to chunk it hands the state on."""
    peak_fraction: float
    """Share of the datasheet's FLOP/s that the matmuls within chunks reach."""
    memory_fraction: float
    """Share of the memory bandwidth at which prefill's kernels pass their tensors on."""
    step_s: float
    """Time in which a compute unit takes one head's state (a block of ``STATE_COLUMNS`` columns) past a chunk."""
    update_fraction: float
    """Share of the memory bandwidth at which decoding reads and writes the states."""
    conv_fraction: float
    """The same of the short convolution over a prompt."""
    conv_update_fraction: float
    """The same of the convolution of single tokens with the kept ones."""
    latency_s: float
    """Fixed time of a kernel."""


@cache
def load_linear(calibration: str, mixer: str = "gated-delta") -> tuple[LinearConstants, str]:
    """Return the constants of a mixer (gated-delta, state-space) in the calibration of that name, and their evidence."""
    chosen = entry("calibrations", f"{calibration}/linear")["mixers"][mixer]
    return LinearConstants.from_mapping(chosen), str(chosen["evidence"])


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
    arithmetic, ``2 width`` operations per element, counts against the vector units. A ``backward`` pass also reads a
    gradient, and computes three times as much: the output again, and the gradients of inputs and weights.
    """
    c = constants
    tokens = np.asarray(sequences, dtype=float) * new_tokens
    memory_s = (
        np.where(backward, 3, 2) * channels * (tokens + sequences * width) * element_bytes / device.memory_bandwidth
    )
    compute_s = np.where(backward, 6, 2) * width * tokens * channels / device.vector_flops
    fraction = np.where(decode, c.conv_update_fraction, c.conv_fraction)
    return OperatorCost(np.maximum(memory_s / fraction, compute_s) + c.latency_s, compute_s, memory_s)


SCAN_BACKWARD_KERNELS = 10
"""Of a scan: states and products of B and C again, then gradients of inputs, states, B, C, their products, steps and decays."""


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
    prefill_s = prefill_s + np.where(backward, SCAN_BACKWARD_KERNELS, PREFILL_KERNELS) * c.latency_s
    return OperatorCost(np.where(decode, update_s, prefill_s), compute_s, memory_s)
