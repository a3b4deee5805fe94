"""What mixers with a state of fixed size cost: the gated delta rule, Mamba-2's scan, and the convolution before them.

Decoding reads and writes each sequence's state. Prefill cuts the tokens into chunks of ``C``. Of linear attention with
the gated delta rule (arXiv 2412.06464; chunks: arXiv 2406.06484) five kernels compute the products of keys, invert a
triangle, make the chunk's corrections, hand the state from chunk to chunk, and read it; ``dk, dv`` are key and value
dimension, per value head. A Mamba-2 scan (arXiv 2405.21060, section 6) has matmuls within chunks and states from chunk
to chunk; ``P`` head dimension, ``N`` state dimension, ``g`` groups that share B and C. The short causal convolution is
a kernel bound by bytes.
"""

from functools import cache

import numpy as np

from sightline.catalog import entry
from sightline.content import description
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Stated, family_of
from sightline.cost.prices import OperatorCost, priced_with
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution, StateSpaceScan
from sightline.quantities import Number, larger, smaller
from sightline.scenario import Device


@description
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
    """Return a mixer's constants (gated-delta, state-space) from the calibration of that name, and their evidence."""
    chosen = entry("calibrations", f"{calibration}/linear")["mixers"][mixer]
    return LinearConstants.from_mapping(chosen), str(chosen["evidence"])


PREFILL_KERNELS = 5
BACKWARD_KERNELS = 9
"""Those of a backward pass: corrections and states again, then gradients of values, states, queries and keys, of the
corrections, and of decays."""
BACKWARD_HANDED_ON = 3.0
"""What a backward pass's kernels hand on, in forward passes: once what is made again, twice the gradients
(estimate)."""
STATE_BYTES = 4.0
"""States are kept in fp32."""
STATE_COLUMNS = 64.0
"""Value dimensions of a head that one thread block carries along the sequence."""


def gated_delta_cost(x: GatedDelta, device: Device, constants: LinearConstants) -> OperatorCost:
    """Seconds of the gated delta rule over ``new_tokens`` of each of ``sequences``; no projections, no convolution.

    The compute leg counts ``6 dk dv`` FLOPs per token and value head (decay and correct, read), in prefill also
    ``2 C (3 dk + 2 dv)`` within chunks; the memory leg queries, keys, values, output, and the states in and out. The
    time of prefill adds up what its kernels, one after the other, need for matmuls, for what they hand on through
    memory, and for the chunks that a compute unit takes one by one.

    A ``backward`` pass has two products for each of the forward pass's, and makes corrections and states again:
    ``2 C (2 dk + dv) + 4 dk dv`` FLOPs more; it walks along the chunks twice, for the states and for their gradients.

    Left out: the launches of the update kernel, 70 us from Python (CUDA graphs hide them); inverting the triangle.
    """
    c, bandwidth, peak = constants, device.memory_bandwidth, device.peak_flops[x.dtype]
    b, q, hv = (np.asarray(size, dtype=float) for size in (x.sequences, x.new_tokens, x.value_heads))
    dk, dv, chunk, e = x.key_dim, x.value_dim, c.chunk_tokens, x.element_bytes
    tokens, memory_s = b * q, x.bytes / bandwidth
    if x.decode:
        return _update(x.flops / peak, memory_s, c)

    passes = 2.0 if x.backward else 1.0
    within = passes * tokens * hv * 2 * chunk * (3 * dk + 2 * dv)
    if x.backward:
        within = within + tokens * hv * 2 * chunk * (2 * dk + dv)
    compute_s = (x.flops + within) / peak
    matmul_s = (within + 2 * passes * tokens * hv * dk * dv) / (peak * c.peak_fraction)
    triangle = 2 * chunk * (4.0 + e)
    handed_on = hv * (triangle + e * (dk + 4 * dv + dk * dv / chunk)) + e * x.key_heads * 4 * dk
    blocks = np.maximum(b * hv * dv / STATE_COLUMNS / device.compute_units, 1.0)
    handed_on = (BACKWARD_HANDED_ON if x.backward else 1.0) * handed_on
    steps_s = np.maximum(passes * blocks * np.ceil(q / chunk) * c.step_s, memory_s)
    time_s = matmul_s + tokens * handed_on / (bandwidth * c.memory_fraction) + steps_s
    kernels = BACKWARD_KERNELS if x.backward else PREFILL_KERNELS
    time_s = np.maximum(time_s, np.maximum(compute_s, memory_s)) + kernels * c.latency_s
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


def _update(compute_s: Number, memory_s: Number, c: LinearConstants) -> OperatorCost:
    """A step of decoding streams the states."""
    return OperatorCost.on_roofline(
        np.maximum(memory_s / c.update_fraction, compute_s) + c.latency_s, compute_s, memory_s
    )


def short_convolution_cost(x: ShortConvolution, device: Device, constants: LinearConstants) -> OperatorCost:
    """Seconds of a convolution of ``width`` taps over ``channels``, with its activation.

    The memory leg moves every token in and out, and the ``width`` last tokens of each sequence in and out; the
    arithmetic, ``2 width`` operations per element, counts against the vector units. A ``backward`` pass also reads a
    gradient, and computes three times as much: the output again, and the gradients of inputs and weights.
    """
    c = constants
    memory_s = x.bytes / device.memory_bandwidth
    elements = np.asarray(x.sequences, dtype=float) * x.new_tokens * x.channels
    compute_s = (6 if x.backward else 2) * x.width * elements / device.vector_flops
    fraction = c.conv_update_fraction if x.decode else c.conv_fraction
    return OperatorCost.on_roofline(np.maximum(memory_s / fraction, compute_s) + c.latency_s, compute_s, memory_s)


SCAN_BACKWARD_KERNELS = 10
"""Of a scan: states and products of B and C again, then gradients of inputs, states, B, C, their products, steps and
decays."""


def state_space_cost(x: StateSpaceScan, device: Device, constants: LinearConstants) -> OperatorCost:
    """Seconds of the scan over ``new_tokens`` of each of ``sequences``; without projections, convolution and norm.

    The compute leg counts ``4 P N`` FLOPs per token and head, in prefill also ``2 C (P + N g / heads)`` within chunks;
    the memory leg inputs, B, C and output, and the fp32 states in and out. Decoding streams the states; prefill adds up
    its kernels' matmuls and what they hand on through memory: chunk states four times, products of B and C twice,
    inputs three times. A ``backward`` pass has two products for each of the forward pass's and makes the states and the
    products of B and C again (``2 P N`` and ``2 C N g / heads`` more), as the published kernels do. Nobody's tables
    hold this kernel: the constants are the gated delta rule's. Heads of one channel (Mamba-1, RG-LRU) have no matmul:
    one kernel per pass works on vector units.
    """
    c, bandwidth, peak = constants, device.memory_bandwidth, device.peak_flops[x.dtype]
    b, q, h = (np.asarray(size, dtype=float) for size in (x.sequences, x.new_tokens, x.heads))
    p, n, chunk, shared = x.head_dim, x.state, c.chunk_tokens, x.groups * x.state
    tokens, memory_s = b * q, x.bytes / bandwidth
    carried = (10 if x.backward else 4) * tokens * h * p * n
    if x.decode:
        return _update(carried / peak, memory_s, c)

    within = (2.0 if x.backward else 1.0) * tokens * 2 * chunk * (h * p + shared)
    if x.backward:
        within = within + tokens * 2 * chunk * shared
    compute_s = (carried + within) / peak
    handed_on = 4 * STATE_BYTES * h * p * n / chunk + 8 * x.groups * chunk + 2 * x.element_bytes * (h * p + shared)
    handed_on = (BACKWARD_HANDED_ON if x.backward else 1.0) * handed_on
    time_s = compute_s / c.peak_fraction + (tokens * handed_on / bandwidth + memory_s) / c.memory_fraction
    time_s = time_s + (SCAN_BACKWARD_KERNELS if x.backward else PREFILL_KERNELS) * c.latency_s
    channels, vector_s = np.equal(p, 1.0), x.flops / device.vector_flops
    alone_s = larger(vector_s, memory_s / c.memory_fraction) + c.latency_s
    return OperatorCost.on_roofline(
        np.where(channels, alone_s, time_s), np.where(channels, vector_s, compute_s), memory_s
    )


def _of_family(model: DeviceModel, mixer: str) -> LinearConstants:
    return load_linear(family_of(model.device, "linear"), mixer)[0]


price_gated_delta = priced_with(gated_delta_cost, _of_family, "gated-delta")
price_convolution = priced_with(short_convolution_cost, _of_family, "gated-delta")
price_state_space = priced_with(state_space_cost, _of_family, "state-space")


@description
class SparseConstants(Stated):
    """One set per device family."""

    index_peak_fraction: float
    """Share of the datasheet's FLOP/s that the indexer's products reach."""
    index_memory_fraction: float
    """Share of the memory bandwidth at which decoding reads the indexer's keys."""
    prefill_peak_fraction: float
    """Share of the FLOP/s that attention over selected tokens reaches over many queries."""
    decode_peak_fraction: float
    """The same over few queries, whose cached tokens are converted from fp8."""
    latency_s: float
    """Fixed time of a kernel."""


@cache
def load_sparse(calibration: str) -> SparseConstants:
    """The constants of sparse attention in the catalog's calibration of that name."""
    return SparseConstants.from_mapping(entry("calibrations", f"{calibration}/sparse")["constants"])


SCORE_BYTES = 4.0
OVERLAP = 4.0
"""Exponent of the norm in which arithmetic and traffic, which overlap, add up."""


def indexer_cost(x: Indexer, device: Device, constants: SparseConstants) -> OperatorCost:
    """Seconds to score the ``context_tokens`` (the new ones included) that each new token sees, summed over ``heads``.

    The compute leg is ``2 heads head_dim`` FLOPs per pair of tokens; the memory leg reads the indexer's keys, one head
    for all, with ``key_bytes`` per element, and the queries, and writes an fp32 score per pair. ``backward`` makes the
    gradients of queries and keys from as many selected tokens, whose scores it makes again: three products. Left out:
    the choice of the best scores, an element-wise kernel.
    """
    c = constants
    compute_s, memory_s = x.flops / device.peak_flops[x.dtype], x.bytes / device.memory_bandwidth
    legs = (compute_s / c.index_peak_fraction) ** OVERLAP + (memory_s / c.index_memory_fraction) ** OVERLAP
    return OperatorCost.on_roofline(legs ** (1 / OVERLAP) + c.latency_s, compute_s, memory_s)


def sparse_attention_cost(x: SelectedAttention, device: Device, constants: SparseConstants) -> OperatorCost:
    """Seconds of latent attention of each new token over the ``selected_tokens`` that its indexer chose.

    The compute leg is ``2 heads (key_dim + value_dim)`` FLOPs per query and token that it reads; the memory leg moves
    queries and outputs and every cached latent that any query may read, once. The kernel works on all slots, also those
    that a short context leaves empty, and gathers the latents of many queries from L2. A ``backward`` pass has five
    products for two (the scores again) and adds every query's share of the latents' gradients to fp32 sums in L2.
    """
    c, peak = constants, device.peak_flops[x.dtype]
    compute_s, memory_s = x.flops / peak, x.bytes / device.memory_bandwidth
    slots = x.selected_tokens / smaller(x.selected_tokens, x.context_tokens)
    kernel_s = compute_s * slots / (c.decode_peak_fraction if x.decode else c.prefill_peak_fraction)
    summed = 2 * SCORE_BYTES * x.key_dim if x.backward else 0.0
    gathered = x.sequences * x.new_tokens * x.selected_tokens * (x.key_dim * x.cache_bytes + summed)
    kernel_s = larger(kernel_s, gathered / device.l2_bandwidth)
    time_s = larger(kernel_s, memory_s / c.index_memory_fraction) + c.latency_s
    return OperatorCost.on_roofline(time_s, compute_s, memory_s)


def _sparse_of_family(model: DeviceModel) -> SparseConstants:
    return load_sparse(family_of(model.device, "sparse"))


price_indexer = priced_with(indexer_cost, _sparse_of_family)
price_selected = priced_with(sparse_attention_cost, _sparse_of_family)
