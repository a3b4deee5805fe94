"""A device's attention constants from anybody's table: the nearest family's kernel, its constants as priors."""

import numpy as np

from sightline.calibration.attention_serving import (
    DECODE_PRIORS,
    MANY_SHAPES,
    PREFILL_PRIORS,
    Array,
    Kernel,
    fit_kernel,
    head_shapes,
    surface_sizes,
)
from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.fitting import FitResult
from sightline.catalog import entry
from sightline.cost.attention_families import PHASE_PARTS, AttentionPhase, attention_family
from sightline.scenario import Device

ENOUGH_ROWS = 2000
"""Measurements that a residual surface needs."""
SURFACES = {"prefill": ("queries", "heads"), "decode": ("tiles", "context", "kv_heads"), "mla-decode": ()}
"""What the surface of a phase lies over."""


def fit_attention_table(table: ServingAttentionTable, device: Device, phase: AttentionPhase) -> FitResult:
    """Return the constants of one phase on ``device`` from measured attentions, with errors on head shapes left out.

    What a table of times cannot tell (tiles, how contexts are split) is taken from the device's nearest family; large
    tables of many head shapes also give a residual surface.
    """
    decode = phase != "prefill"
    priors = DECODE_PRIORS if decode else PREFILL_PRIORS
    family = attention_family(device, phase)
    relative = entry("calibrations", f"{family}/{PHASE_PARTS[phase]}")["constants"]
    given = {name: value for name, value in relative.items() if name not in {*priors, "surface", "ungrouped"}}
    kernel = Kernel(decode=decode, given=given, priors=priors, latent=phase == "mla-decode")
    many = len(table) >= ENOUGH_ROWS and len(set(head_shapes(table))) >= MANY_SHAPES
    if many and SURFACES[phase]:
        sizes = surface_sizes(table)
        knots = {name: _one_an_octave(sizes[name]) for name in SURFACES[phase] if np.ptp(sizes[name]) > 0}
        kernel = Kernel(decode=decode, given=given, priors=priors, latent=kernel.latent, surface=knots)
    return fit_kernel(table, device, kernel.nearest(relative, spread=1.0))


def least_seconds(table: ServingAttentionTable, device: Device, *, shared_kv: bool = False) -> Array:
    """Seconds that no measurement can be shorter than: arithmetic at the peak, keys and values from L2."""
    t = table
    new, total = t.query_tokens, t.context_tokens
    seen = np.minimum(total - (np.minimum(new, total) - 1) / 2, t.window)
    flops = 2 * t.batch * t.heads * new * seen * (t.head_dim + t.value_dim)
    width = t.head_dim if shared_kv else t.head_dim + t.value_dim
    read = t.batch * t.kv_heads * np.minimum(total, t.window) * width * t.kv_bytes
    peak = device.peak_flops["bf16" if "bf16" in device.peak_flops else "fp16"]
    return np.asarray(np.maximum(flops / peak, read / device.l2_bandwidth), dtype=float)


def _one_an_octave(sizes: Array) -> int:
    return max(3, round(float(np.log2(sizes.max() / sizes.min()))) + 1)
