"""Constants of fused attention as training calls it: the fits to published charts, and the shipped entries."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np

from sightline.calibration.fits.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.calibration.manifest import Read, Stated, device_of
from sightline.calibration.parts.part import Entry, between, constants_in, figures, provenance
from sightline.calibration.samples import Array, Table, by_kernel
from sightline.cost.attention.constants import AttentionConstants
from sightline.cost.attention.fused import attention_cost
from sightline.program import FlashAttention
from sightline.program.address import Direction
from sightline.quantities import significant
from sightline.scenario import Device

RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.1, starts=(0.7,), high=1.0),
    "backward_share": Range(low=0.4, starts=(0.8,), high=1.0),
    "softmax_flops": Range(low=0.0, starts=(10.0, 2.0), high=60.0),
    "wide_head_exponent": Range(low=0.0, starts=(0.3,), high=1.5),
    "causal_slowdown": Range(low=1.0, starts=(1.05,), high=1.5),
    "tile_overhead": Range(low=0.0, starts=(64.0, 200.0), high=1000.0),
}
"""What is fitted where it is not given."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionTable(Table):
    """Measured passes of fused attention: forward, or forward and ``backward``."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    query_tokens: Array
    causal: Array
    """Truth values."""
    backward: Array
    """Truth values: the time includes the backward pass."""


def predicted_seconds(table: AttentionTable, device: Device, constants: AttentionConstants) -> Array:
    """Predicted time of every 16-bit pass, or pair of passes, of a table."""

    def time_s(direction: Direction) -> Array:
        passes = FlashAttention(
            module="attention core",
            part="flash attention",
            direction=direction,
            batch=table.batch,
            heads=table.heads,
            kv_heads=table.kv_heads,
            head_dim=table.head_dim,
            value_dim=table.head_dim,
            query_tokens=table.query_tokens,
            context_tokens=table.query_tokens,
            causal=table.causal > 0,
            dtype="bf16",
            element_bytes=2.0,
        )
        return np.asarray(attention_cost(passes, device, constants).time_s)

    return time_s("forward") + table.backward * time_s("backward")


def fit_attention(table: AttentionTable, device: Device, given: Mapping[str, float]) -> FitResult:
    """Return one kernel's constants from measured passes.

    ``given`` holds what is known of the kernel. ``backward_share``, the backward pass's rate over the forward's, is
    fitted where the table has passes timed alone and together.
    """
    separate = bool(0 < table.backward.mean() < 1)
    known = {name: value for name, value in given.items() if not (separate and name == "backward_share")}
    ranges = {name: r for name, r in RANGES.items() if name not in known}

    def fitted_on(part: AttentionTable) -> AttentionConstants:
        def constants_of(fitted: Constants) -> AttentionConstants:
            return AttentionConstants.from_mapping(complete({**known, **fitted}))

        fitted = fit_constants(lambda x: predicted_seconds(part, device, constants_of(x)), part.seconds, ranges)
        return constants_of(fitted)

    constants = fitted_on(table)
    left_out = np.empty(len(table))
    for head_dim in np.unique(table.head_dim):
        for causal in (False, True):
            shape = (table.head_dim == head_dim) & (table.causal == causal)
            if shape.any():
                left_out[shape] = predicted_seconds(table.where(shape), device, fitted_on(table.where(~shape)))
    residuals = {
        "fit": error_statistics(predicted_seconds(table, device, constants), table.seconds),
        "shape left out": error_statistics(left_out, table.seconds),
    }
    # Fields with a default belong to the kernels of serving engines.
    charted = [f.name for f in fields(AttentionConstants) if f.default is MISSING]
    plain: dict[str, Any] = {name: getattr(constants, name) for name in charted}
    return FitResult(constants=plain, rows={"fitted": len(table)}, residuals=residuals)


def complete(values: Mapping[str, float]) -> dict[str, float]:
    """The constants with ``backward_fraction`` in place of ``backward_share``, the ratio that is fitted."""
    out = dict(values)
    out["backward_fraction"] = significant(out["peak_fraction"] * out.pop("backward_share"))
    return out


def attention_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of fused attention by device family; ``generic`` lies between them."""
    entries: dict[str, Entry] = {}
    fitted: dict[str, dict[str, Entry]] = {}
    for family, told in stated["families"].items():
        rows, kernels = by_kernel(read(told["tables"])), {}
        for kernel, known in stated["kernels"].items():
            if known["chart"] in rows:
                given = {**stated["common"], **known["given"]}
                result = fit_attention(AttentionTable.of(rows[known["chart"]]), device_of(family), given)
                kernels[kernel] = {**figures(result), **result.constants}
        fitted[family] = kernels | _borrowed(stated["kernels"], kernels, fitted)
        entries[family] = {
            **provenance(stated["source"], "fitted", "attention"),
            "kernels": {**fitted[family], **stated["stated"]},
        }
    generic = {
        kernel: between([constants_in(fitted[family][kernel]) for family in families])
        for kernel, families in stated["generic"]["of"].items()
    }
    origin = provenance(stated["generic"]["source"], "datasheet", "attention")
    return {**entries, "generic": {**origin, "kernels": {**generic, **stated["stated"]}}}


def _borrowed(known: Stated, own: Mapping[str, Entry], fitted: Mapping[str, Mapping[str, Entry]]) -> dict[str, Entry]:
    """The kernels that a family's charts lack, with another kernel's constants or those of a family before."""
    borrowed: dict[str, Entry] = {}
    for kernel, told in known.items():
        if kernel not in own and "borrowed" in told:
            other = told["borrowed"]["of"]
            lent = next(kernels[other] for kernels in (own, *fitted.values()) if other in kernels)
            borrowed[kernel] = {"note": told["borrowed"]["note"], **constants_in(lent)}
    return borrowed
