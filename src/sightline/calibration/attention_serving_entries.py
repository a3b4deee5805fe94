"""Fits of serving engines' attention kernels as catalog entries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.attention_forms import ANY_DECODE, ANY_LATENT, ANY_PREFILL, NARROW_TIME
from sightline.calibration.attention_joint import Witness, fit_jointly
from sightline.calibration.attention_kernels import (
    DECODE,
    LARGEST_GROUP,
    LATENT,
    PREFILL,
    UNGROUPED,
    Measured,
)
from sightline.calibration.attention_serving import HOST, Kernel, fit_kernel
from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.entries import Entry, covered, device_of, figures, provenance
from sightline.calibration.fitting import FitResult
from sightline.scenario import Device

SIZES = ("batch", "heads", "kv_heads", "head_dim", "value_dim", "query_tokens", "context_tokens", "kv_bytes")
"""Sizes of an attention whose measured ranges an entry states."""


def prefill_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of prefill attention by device family; ``generic`` is fitted to all of them at once."""
    return _entries(PREFILL, data, "prefill_attention", ANY_PREFILL)


def decode_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of decoding against keys and values per head."""
    return _entries(DECODE, data, "decode_attention", ANY_DECODE)


def latent_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of decoding against one shared latent."""
    return _entries(LATENT, data, "latent_decode_attention", ANY_LATENT)


def _entries(measured: Mapping[str, Measured], data: Path, part: str, any_device: Kernel) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    witnesses: dict[str, Witness] = {}
    for family, one in measured.items():
        kernel = one.kernel
        if one.relative is not None:
            kernel = kernel.nearest(entries[one.relative]["constants"])
        table, device = one.read(data), device_of(family)
        by_group = part == "decode_attention" and family == "a100-sxm"
        result = _two_kernels(table, device, one) if by_group else fit_kernel(table, device, kernel)
        filters = {"filters": list(one.filters)} if one.filters else {}
        entries[family] = {
            **provenance(one.source, "fitted", part),
            **filters,
            **figures(result),
            "covered": {part: covered({name: getattr(table, name) for name in SIZES})},
            "constants": dict(result.constants),
        }
        witnesses[family] = Witness(
            table=table,
            device=device,
            measured=one,
            host_s=float(result.constants.get(HOST, 0.0)),
            same_kernel=_shared(table) if by_group else None,
        )
    return {**entries, "generic": _generic(witnesses, part, any_device)}


def _generic(witnesses: Mapping[str, Witness], part: str, any_device: Kernel) -> Entry:
    """One set of constants for all measured devices; with it the sets that each of them is predicted with unseen."""
    free = "fp8_cache_time" not in any_device.given
    fit = fit_jointly(witnesses, any_device, {"fp8_cache_time": NARROW_TIME} if free else {})
    return {
        **provenance(f"fitted to {', '.join(witnesses)} at once, each weighing the same", "datasheet", part),
        "residuals": {name: dict(r) for name, r in fit.residuals.items()},
        "constants": dict(fit.constants),
        "left_out": {name: dict(constants) for name, constants in fit.left_out.items()},
    }


def _two_kernels(table: ServingAttentionTable, device: Device, one: Measured) -> FitResult:
    """An engine that has a kernel for heads that share keys and values and another for heads with their own."""
    shared = fit_kernel(table.where(_shared(table)), device, one.kernel)
    own = fit_kernel(table.where(table.heads == table.kv_heads), device, UNGROUPED)
    residuals: dict[str, Any] = {f"shared, {name}": r for name, r in shared.residuals.items()}
    residuals |= {f"own, {name}": r for name, r in own.residuals.items()}
    constants = {**shared.constants, "largest_group": LARGEST_GROUP, "ungrouped": dict(own.constants)}
    rows = {"table": len(table), "fitted": shared.rows["fitted"] + own.rows["fitted"]}
    return FitResult(constants=constants, rows=rows, residuals=residuals)


def _shared(table: ServingAttentionTable) -> NDArray[np.bool_]:
    """Rows of the kernel for heads that share keys and values."""
    return np.asarray((table.heads > table.kv_heads) & (table.heads <= LARGEST_GROUP * table.kv_heads))
