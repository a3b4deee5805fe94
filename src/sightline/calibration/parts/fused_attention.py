"""Constants of fused attention as training calls it: the fits to published charts, and the shipped entries."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits import Array, FitResult, Table, by_kernel, ranges_of, within
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import Entry, between, constants_in, figures, provenance
from sightline.calibration.residuals import fit_and_judge
from sightline.cost.attention.constants import AttentionConstants
from sightline.cost.attention.fused import attention_cost
from sightline.program import FlashAttention
from sightline.program.address import Direction
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import significant
from sightline.scenario import Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeadsTable(Table):
    """Measured self-attention over whole sequences."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    query_tokens: Array

    def passes(self, direction: Direction, dtype: str, causal: NDArray[np.bool_] | bool = True) -> FlashAttention:
        """The measured operators, of which one direction is meant."""
        return self.operators(
            FlashAttention,
            "attention core",
            "flash attention",
            direction=direction,
            value_dim=self.head_dim,
            context_tokens=self.query_tokens,
            causal=causal,
            dtype=dtype,
            element_bytes=ELEMENT_BYTES[dtype],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttentionTable(HeadsTable):
    """Measured passes of fused attention: forward, or forward and ``backward``."""

    causal: Array
    """Truth values."""
    backward: Array
    """Truth values: the time includes the backward pass."""


def predicted_seconds(table: AttentionTable, device: Device, constants: AttentionConstants) -> Array:
    """Predicted time of every 16-bit pass, or pair of passes, of a table."""

    def time_s(direction: Direction) -> Array:
        passes = table.passes(direction, "bf16", table.causal > 0)
        return np.asarray(attention_cost(passes, device, constants).time_s)

    return time_s("forward") + table.backward * time_s("backward")


def fit_attention(table: AttentionTable, device: Device, given: Mapping[str, float]) -> FitResult:
    """Return one kernel's constants from measured passes.

    ``given`` holds what is known of the kernel. ``backward_share``, the backward pass's rate over the forward's, is
    fitted where the table has passes timed alone and together.
    """
    separate = bool(0 < table.backward.mean() < 1)
    known = {name: value for name, value in given.items() if not (separate and name == "backward_share")}

    def predict(part: AttentionTable, constants: Mapping[str, float]) -> Array:
        return predicted_seconds(part, device, AttentionConstants.from_mapping(complete(constants)))

    fit = within(ranges_of(manifest("attention")["ranges"], known), known, predict)
    shapes = [f"{dim} {causal}" for dim, causal in zip(table.head_dim, table.causal, strict=True)]
    result = fit_and_judge(table, fit, predict, {"shape": shapes})
    # Fields with a default belong to the kernels of serving engines.
    charted = [f.name for f in fields(AttentionConstants) if f.default is MISSING]
    constants = complete(result.constants)
    return replace(result, constants={name: constants[name] for name in charted})


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
