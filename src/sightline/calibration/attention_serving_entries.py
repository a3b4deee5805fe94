"""Fits of serving engines' attention kernels as catalog entries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline.calibration.attention_kernels import DECODE, LARGEST_GROUP, LATENT, PREFILL, UNGROUPED, Measured
from sightline.calibration.attention_serving import DECODE_PRIORS, PREFILL_PRIORS, fit_kernel
from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.entries import Entry, between, device_of, figures, provenance
from sightline.calibration.fitting import FitResult
from sightline.scenario import Device


def prefill_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of prefill attention by device family; ``generic`` lies between those with large tables."""
    return _entries(PREFILL, data, "prefill_attention", generic="h100-sxm", fitted=tuple(PREFILL_PRIORS))


def decode_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of decoding against keys and values per head."""
    entries = _entries(DECODE, data, "decode_attention", generic="h100-sxm", fitted=tuple(DECODE_PRIORS))
    # What only these engines do: split for sixteen sequences, whatever their heads.
    entries["generic"]["constants"]["split_sequences"] = entries["b200-sxm"]["constants"]["split_sequences"]
    return entries


def latent_entries(data: Path) -> dict[str, Entry]:
    """The calibrations of decoding against one shared latent."""
    return _entries(LATENT, data, "latent_decode_attention", generic="h800-sxm", fitted=tuple(DECODE_PRIORS))


def _entries(
    measured: Mapping[str, Measured], data: Path, part: str, *, generic: str, fitted: tuple[str, ...]
) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
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
            "constants": dict(result.constants),
        }
    large = [family for family, one in measured.items() if one.relative is None or len(measured) == len(LATENT)]
    sets = [entries[family]["constants"] for family in large]
    means = between([{n: s[n] for n in fitted if all(n in other for other in sets)} for s in sets])
    structure = {n: v for n, v in entries[generic]["constants"].items() if n not in {"surface", "ungrouped"}}
    origin = f"geometric mean of the fits for {', '.join(large)}; the kernel's form is that of {generic}"
    entries["generic"] = {**provenance(origin, "datasheet", part), "constants": {**structure, **means}}
    return entries


def _two_kernels(table: ServingAttentionTable, device: Device, one: Measured) -> FitResult:
    """An engine that has a kernel for heads that share keys and values and another for heads with their own."""
    alone = table.heads == table.kv_heads
    shared = fit_kernel(table.where(~alone & (table.heads <= LARGEST_GROUP * table.kv_heads)), device, one.kernel)
    own = fit_kernel(table.where(alone), device, UNGROUPED)
    residuals: dict[str, Any] = {f"shared, {name}": r for name, r in shared.residuals.items()}
    residuals |= {f"own, {name}": r for name, r in own.residuals.items()}
    constants = {**shared.constants, "largest_group": LARGEST_GROUP, "ungrouped": dict(own.constants)}
    rows = {"table": len(table), "fitted": shared.rows["fitted"] + own.rows["fitted"]}
    return FitResult(constants=constants, rows=rows, residuals=residuals)
