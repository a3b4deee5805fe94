"""What a fused (flash-style) attention kernel costs: scores never leave the compute unit.

Symbols: ``b`` sequences, ``a`` heads, ``d`` head dimension, ``sq, sk`` query and context tokens. Sources: FlashAttention
(arXiv 2205.14135), FlashAttention-2 (2307.08691), FlashAttention-3 (2407.08608).
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.cost.operator_cost import OperatorCost
from sightline.quantities import Number
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConstants:
    """What one generation of attention kernels reaches on a device; fitted, see the catalog's calibrations."""

    peak_fraction: float
    """Share of the datasheet's FLOP/s of a long forward pass with wide heads, softmax aside."""
    backward_fraction: float
    """The same of the backward pass."""
    softmax_d: float
    """Head dimension whose matmul work equals the softmax work of a score."""
    query_block: float
    """Query tokens of a tile."""
    context_block: float
    """Context tokens of a step."""
    head_granule: float
    """Head dimensions are padded to multiples of this."""
    tile_overhead: float
    """Context tokens that starting and ending a tile costs."""
    wave_smoothing: float
    """Share of a last, partly filled wave that is hidden."""
    memory_fraction: float
    """Share of the datasheet's memory bandwidth that is reached."""
    latency_s: float
    """Fixed time of the kernels of a pass."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "AttentionConstants":
        """The constants out of a calibration entry's kernel."""
        return cls(**{f.name: float(mapping[f.name]) for f in fields(cls)})


@cache
def load_attention(calibration: str, kernel: str = "flash-2") -> AttentionConstants:
    """The constants of an attention kernel (flash-1, flash-2, flash-3) in the calibration of that name."""
    return AttentionConstants.from_mapping(entry("calibrations", f"{calibration}/attention")["kernels"][kernel])


def attention_cost(
    batch: Number,
    heads: Number,
    kv_heads: Number,
    head_dim: Number,
    query_tokens: Number,
    context_tokens: Number,
    *,
    causal: Any,
    backward: Any,
    dtype: str,
    device: Device,
    constants: AttentionConstants,
) -> OperatorCost:
    """Seconds of one attention pass, forward or (``backward``) for the gradients of query, key and value.

    The compute leg is ``4 b a sq sk d`` FLOPs (causal: the unmasked half; backward: 2.5 times) over the peak, the memory
    leg the query, key, value and output (and in backward their gradients) once. The kernel pays whole query blocks,
    (nearly) whole waves of them, context blocks on the diagonal in full, padded heads and the softmax's exponentials.
    """
    c = constants
    b, a, kv, d, sq, sk = (
        np.asarray(x, dtype=float) for x in (batch, heads, kv_heads, head_dim, query_tokens, context_tokens)
    )
    causal, backward = np.asarray(causal, dtype=bool), np.asarray(backward, dtype=bool)
    passes = np.where(backward, 2.5, 1.0)
    element_bytes = 4.0 if dtype in ("fp32", "tf32") else 2.0
    peak = device.peak_flops[dtype]

    seen = np.where(causal, sk - (np.minimum(sq, sk) - 1) / 2, sk)
    compute_s = passes * 4 * b * a * sq * seen * d / peak
    tensors = np.where(backward, 4, 2) * (b * a * sq * d + b * kv * sk * d)
    memory_s = tensors * element_bytes / device.memory_bandwidth

    padded = np.ceil(d / c.head_granule) * c.head_granule + c.softmax_d
    blocks = np.ceil(sq / c.query_block)
    tiles = blocks * b * a
    waves = tiles / device.compute_units
    whole = np.ceil(waves)
    waves = whole - c.wave_smoothing * (whole - waves) * (waves > 1)
    steps = np.where(causal, np.minimum(seen + (c.query_block + c.context_block) / 2, sk), sk) + c.tile_overhead
    rate = peak / device.compute_units * np.where(backward, c.backward_fraction, c.peak_fraction)
    kernel_s = waves * passes * 4 * c.query_block * steps * padded / rate
    time_s = np.maximum(np.maximum(kernel_s, memory_s / c.memory_fraction), compute_s) + c.latency_s
    return OperatorCost(time_s, compute_s, memory_s)
