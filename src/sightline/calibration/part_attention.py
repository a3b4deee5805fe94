"""Constants of serving engines' attention kernels from anybody's table: prompts, and steps against a cache."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.calibration.attention_serving import (
    DECODE_PRIORS,
    MANY_SHAPES,
    PREFILL_PRIORS,
    Kernel,
    fit_kernel,
    head_shapes,
    surface_sizes,
)
from sightline.calibration.attention_serving_tables import NO_WINDOW, ServingAttentionTable
from sightline.calibration.part_fit import Array, PartFit, Points, columns
from sightline.catalog import entry
from sightline.cost.families import family_of
from sightline.cost.residual_surface import AttentionSurface
from sightline.scenario import Cluster

if TYPE_CHECKING:
    import polars as pl

PREFILL, DECODE, LATENT = "prefill_attention", "decode_attention", "latent_decode_attention"
ENOUGH_ROWS = 2000
"""Measurements that a residual surface needs, of ``MANY_SHAPES`` shapes of heads."""
SURFACES = {PREFILL: ("queries", "heads"), DECODE: ("tiles", "context", "kv_heads"), LATENT: ()}
"""What the surface of a phase lies over."""


def bound(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """The longer of arithmetic at the peak and of reading keys and values once from L2."""
    t = _table(rows)
    peak = cluster.device.peak_flops.get("bf16") or cluster.device.peak_flops["fp16"]
    seen = t.context_tokens - (t.query_tokens - 1) / 2
    arithmetic = 2 * t.batch * t.heads * t.query_tokens * seen * (t.head_dim + t.value_dim) / peak
    cache = t.batch * t.kv_heads * t.context_tokens * (t.head_dim + t.value_dim) * t.kv_bytes
    return np.asarray(np.maximum(arithmetic, cache / cluster.device.l2_bandwidth))


def bound_latent(rows: "pl.DataFrame", cluster: Cluster) -> Array:
    """The same against a latent, which is key and value at once."""
    t = _table(rows)
    peak = cluster.device.peak_flops.get("bf16") or cluster.device.peak_flops["fp16"]
    arithmetic = 2 * t.batch * t.heads * t.context_tokens * (t.head_dim + t.value_dim) / peak
    cache = t.batch * t.context_tokens * t.head_dim * t.kv_bytes
    return np.asarray(np.maximum(arithmetic, cache / cluster.device.l2_bandwidth))


def fit_prefill(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of prompts' attention."""
    return _fit(PREFILL, rows, cluster, done)


def fit_decode(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of attention against a cache."""
    return _fit(DECODE, rows, cluster, done)


def fit_latent(rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    """The constants of attention against a latent that all heads share."""
    return _fit(LATENT, rows, cluster, done)


def points_prefill(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict for prompts."""
    return _points(PREFILL, rows, cluster, _shipped(PREFILL, cluster))


def points_decode(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict against a cache."""
    return _points(DECODE, rows, cluster, _shipped(DECODE, cluster))


def points_latent(rows: "pl.DataFrame", cluster: Cluster) -> list[Points]:
    """What the device's constants in the catalog predict against a latent."""
    return _points(LATENT, rows, cluster, _shipped(LATENT, cluster))


def _fit(part: str, rows: "pl.DataFrame", cluster: Cluster, done: Callable[[], None]) -> PartFit:
    table = _table(rows)
    kernel = replace(_kernel(part, _shipped(part, cluster)), surface=_knots(part, table))
    result = fit_kernel(table, cluster.device, kernel)
    for _ in range(rows["kernel"].n_unique()):
        done()
    plain = {name: value for name, value in result.constants.items() if isinstance(value, int | float)}
    content = {"rows": dict(result.rows), "residuals": dict(result.residuals), "constants": dict(result.constants)}
    return PartFit(
        content=content,
        constants={part: plain},
        rows={part: result.rows},
        residuals={part: result.residuals},
        points=_points(part, rows, cluster, result.constants),
    )


def _kernel(part: str, relative: Mapping[str, Any]) -> Kernel:
    """What the table cannot tell is the relative's; the rest is searched around it."""
    priors = PREFILL_PRIORS if part == PREFILL else DECODE_PRIORS
    given = {name: value for name, value in relative.items() if name not in priors and name != "surface"}
    return Kernel(decode=part != PREFILL, latent=part == LATENT, given=given, priors=priors).nearest(relative)


def _knots(part: str, table: ServingAttentionTable) -> Mapping[str, int] | None:
    """About a knot an octave over what engines choose kernels by; None where a table cannot carry a surface."""
    if len(table) < ENOUGH_ROWS or len(set(head_shapes(table))) < MANY_SHAPES:
        return None
    sizes = {name: size for name, size in surface_sizes(table).items() if name in SURFACES[part] and np.ptp(size) > 0}
    knots = {name: max(3, round(float(np.log2(size.max() / size.min()))) + 1) for name, size in sizes.items()}
    return {name: knots[name] for name in SURFACES[part] if name in knots} or None


def _shipped(part: str, cluster: Cluster) -> Mapping[str, Any]:
    constants: Mapping[str, Any] = entry("calibrations", f"{family_of(cluster.device, part)}/{part}")["constants"]
    return constants


def _points(part: str, rows: "pl.DataFrame", cluster: Cluster, constants: Mapping[str, Any]) -> list[Points]:
    table = _table(rows)
    predicted = _kernel(part, constants).predict(table, cluster.device, {**constants, "surface": None})
    if constants.get("surface") is not None:
        predicted = predicted * AttentionSurface.from_mapping(constants["surface"]).factor(surface_sizes(table))
    size, unit = table.batch * table.heads * table.query_tokens * table.context_tokens * table.head_dim * 4, "FLOP"
    return [Points(kernel=part, size=size, unit=unit, predicted=predicted, measured=table.seconds)]


def _table(rows: "pl.DataFrame") -> ServingAttentionTable:
    names = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens", "seconds")
    c = columns(rows, *names)
    return ServingAttentionTable(
        **c,
        kv_bytes=np.where(rows["kernel"].to_numpy() == "fp8 cache", 1.0, 2.0),
        window=np.full(rows.height, NO_WINDOW),
    )
