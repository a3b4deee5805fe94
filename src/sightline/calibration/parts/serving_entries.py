"""Constants of serving engines' attention as catalog entries: of the shipped families, and from anybody's table."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from sightline.calibration.fits import Array, FitResult, Prior, priors_of
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import Entry, Part, covered, figures, nearest_entry, provenance
from sightline.calibration.parts.serving_attention import (
    HOST,
    MANY_SHAPES,
    Kernel,
    ServingAttentionTable,
    fit_kernel,
    head_shapes,
    surface_sizes,
)
from sightline.calibration.parts.serving_joint import Measured, Witness, fit_jointly
from sightline.cost.attention.constants import AttentionSurface
from sightline.scenario import Cluster, Device

PREFILL, DECODE, LATENT = "prefill_attention", "decode_attention", "latent_decode_attention"
SIZES = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens", "kv_bytes")
"""Sizes of an attention whose measured ranges an entry states."""
KEYS = ("kernel", *SIZES[:-1], "window")
ENOUGH_ROWS = 2000
"""Measurements that a residual surface needs, of ``MANY_SHAPES`` shapes of heads."""
SURFACES = {PREFILL: ("queries", "heads"), DECODE: ("tiles", "context", "kv_heads"), LATENT: ()}
"""What the surface of anybody's table of a phase lies over."""


def measured_families(part: str) -> dict[str, Measured]:
    """How each family's kernels were measured, those without relative first."""
    return {family: _measured(part, told) for family, told in manifest(part)["families"].items()}


def _measured(part: str, told: Stated) -> Measured:
    known = {f.name: told[f.name] for f in fields(Measured) if f.name in told}
    if "ungrouped" in told:
        known["ungrouped"] = _kernel(part, told["ungrouped"])
    return Measured(**known, kernel=_kernel(part, told))


def _kernel(part: str, told: Stated) -> Kernel:
    """The kernel that a manifest describes: priors of its phase, with changes; those stated as null are left out."""
    form = manifest(part)["forms"][told["form"]]
    return Kernel(
        decode=part != PREFILL,
        latent=part == LATENT,
        given={**form, **told.get("given", {})},
        priors=_priors(part, told.get("priors", {})),
        launched=told.get("launched", False),
        repeated_share=told.get("repeated_share", 0.0),
        surface=told.get("surface"),
    )


def _priors(part: str, changed: Stated | None = None) -> dict[str, Prior]:
    """The priors of a phase, with what is ``changed``."""
    return priors_of({**manifest(PREFILL if part == PREFILL else DECODE)["priors"], **(changed or {})})


def serving_entries(part: str, stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of a phase by device family; ``generic`` is fitted to all of them at once."""
    entries: dict[str, Entry] = {}
    witnesses: dict[str, Witness] = {}
    generic = stated["generic"]
    for family, one in measured_families(part).items():
        table, device = ServingAttentionTable.of(read(one.tables)), device_of(family)
        relative = None if one.relative is None else entries[one.relative]["constants"]
        result = _fitted(table, device, one, relative)
        entries[family] = {
            **provenance(one.source, "fitted", part),
            **({"filters": list(one.filters)} if one.filters else {}),
            **figures(result),
            "covered": {part: covered({name: getattr(table, name) for name in SIZES})},
            "constants": dict(result.constants),
        }
        host_s = float(result.constants.get(HOST, 0.0))
        own = {name: float(result.constants[name]) for name in generic.get("own", ())}
        witnesses[family] = Witness(table=table, device=device, measured=one, host_s=host_s, own=own)
    fit = fit_jointly(witnesses, _kernel(part, generic), generic.get("known", {}))
    entries["generic"] = {
        **provenance(f"fitted to {', '.join(witnesses)} at once, each weighing the same", "datasheet", part),
        "residuals": {name: dict(r) for name, r in fit.residuals.items()},
        "constants": dict(fit.constants),
        "left_out": {name: dict(constants) for name, constants in fit.left_out.items()},
        "siblings_left_in": {name: dict(constants) for name, constants in fit.siblings_left_in.items()},
    }
    return entries


def _fitted(
    table: ServingAttentionTable, device: Device, one: Measured, relative: Mapping[str, Any] | None
) -> FitResult:
    """The constants of the kernel, or of both where an engine has another for heads with their own keys and values."""
    kernel = one.kernel if relative is None else one.kernel.nearest(relative)
    if one.ungrouped is None:
        return fit_kernel(table, device, kernel)
    shared = fit_kernel(table.where(one.is_grouped(table)), device, kernel)
    own = fit_kernel(table.where(table.heads == table.kv_heads), device, one.ungrouped)
    residuals: dict[str, Any] = {f"shared, {name}": r for name, r in shared.residuals.items()}
    residuals |= {f"own, {name}": r for name, r in own.residuals.items()}
    constants = {**shared.constants, "largest_group": one.largest_group, "ungrouped": dict(own.constants)}
    rows = {"table": len(table), "fitted": shared.rows["fitted"] + own.rows["fitted"]}
    return FitResult(constants=constants, rows=rows, residuals=residuals)


def _bound(part: str, rows: pl.DataFrame, cluster: Cluster) -> Array:
    """The longer of arithmetic at the peak and of reading keys and values once from L2; a latent is both at once."""
    t = ServingAttentionTable.of(rows)
    peak = cluster.device.peak_flops.get("bf16") or cluster.device.peak_flops["fp16"]
    seen = np.minimum(t.context_tokens - (t.query_tokens - 1) / 2, t.window)
    arithmetic = 2 * t.batch * t.heads * t.query_tokens * seen * (t.head_dim + t.value_dim) / peak
    width = t.head_dim if part == LATENT else t.head_dim + t.value_dim
    cache = t.batch * t.kv_heads * np.minimum(t.context_tokens, t.window) * width * t.kv_bytes
    return np.asarray(np.maximum(arithmetic, cache / cluster.device.l2_bandwidth))


def _fit_phase(part: str, table: ServingAttentionTable, cluster: Cluster) -> tuple[FitResult, Entry]:
    """The constants of a phase: what the table cannot tell is the relative's."""
    kernel = replace(_around(part, nearest_entry(part, cluster)["constants"]), surface=_knots(part, table))
    result = fit_kernel(table, cluster.device, kernel)
    return result, {**figures(result), "constants": dict(result.constants)}


def _around(part: str, relative: Mapping[str, Any]) -> Kernel:
    """A kernel of the relative's form, whose constants are searched around the relative's."""
    priors = _priors(part)
    given = {name: value for name, value in relative.items() if name not in priors and name != "surface"}
    return Kernel(decode=part != PREFILL, latent=part == LATENT, given=given, priors=priors).nearest(relative)


def _knots(part: str, table: ServingAttentionTable) -> Mapping[str, int] | None:
    """About a knot an octave over what engines choose kernels by; None where a table cannot carry a surface."""
    if len(table) < ENOUGH_ROWS or len(set(head_shapes(table))) < MANY_SHAPES:
        return None
    sizes = {name: size for name, size in surface_sizes(table).items() if name in SURFACES[part] and np.ptp(size) > 0}
    knots = {name: max(3, round(float(np.log2(size.max() / size.min()))) + 1) for name, size in sizes.items()}
    return {name: knots[name] for name in SURFACES[part] if name in knots} or None


def _predict(part: str, table: ServingAttentionTable, cluster: Cluster, stated: Mapping[str, Any] | None) -> Array:
    constants = (stated or nearest_entry(part, cluster))["constants"]
    predicted = _around(part, constants).predict(table, cluster.device, {**constants, "surface": None})
    if constants.get("surface") is not None:
        predicted = predicted * AttentionSurface.from_mapping(constants["surface"]).factor(table.operator())
    return predicted


def serving_part(part: str, least: int) -> Part:
    """The part of a phase, whose kernels for caches of several elements share their constants."""
    return Part(
        keys=KEYS,
        least=least,
        bound=partial(_bound, part),
        table=lambda rows, _: ServingAttentionTable.of(rows),
        fit_kernel=_fit_phase,
        content=lambda fitted, *_: fitted[part],
        predict=_predict,
        kernels=lambda rows: {part: rows},
    )
