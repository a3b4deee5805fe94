"""Constants of attention kernels as training calls them: fused, linear and sparse attention."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import Array, FitResult, Table, by_kernel, fit_and_judge, ranges_of, within
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import Entry, between, constants_in, figures, provenance
from sightline.cost.attention import attention_cost
from sightline.cost.attention_constants import AttentionConstants
from sightline.cost.recurrent import (
    LinearConstants,
    SparseConstants,
    gated_delta_cost,
    indexer_cost,
    short_convolution_cost,
    sparse_attention_cost,
)
from sightline.program import FlashAttention
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution
from sightline.program.operators import Direction
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


Flags = NDArray[np.bool_]
"""A truth value per measurement."""

MODEL: Mapping[str, Any] = {"key_heads": 16, "value_heads": 32, "key_dim": 128, "value_dim": 128}
"""Of the gated delta layer that the tables timed."""
CONV_WIDTH = 4.0
CHANNELS = 2 * MODEL["key_heads"] * MODEL["key_dim"] + MODEL["value_heads"] * MODEL["value_dim"]
CHUNK_TOKENS = 64.0
"""Of the kernels of flash-linear-attention, which the tables timed."""
SCAN_CHUNK = 256.0
"""Tokens of a chunk of Mamba-2's kernels (state-spaces/mamba)."""
STATES_FRACTION = 0.75
"""Share of the memory bandwidth at which prefill's kernels stream, estimated: one length cannot tell it from the
rest."""
LAUNCH_BOUND = 64
"""Sequences below which the update kernel took 70 us whatever it did: launched from Python."""

INDEX: Mapping[str, Any] = {"heads": 64, "head_dim": 128}
LATENT: Mapping[str, Any] = {"heads": 128, "key_dim": 576, "value_dim": 512, "selected_tokens": 2048}
"""DeepSeek V3.2 on one device, as the tables are named."""
KEY_BYTES, CACHE_BYTES = 1 + 4 / 128, 656 / 576
"""Of fp8 keys with a scale per 128, and of FlashMLA's cache: 512 fp8 values, four scales, 64 values in 16 bits."""
LONG_CONTEXT = 16384
"""Tokens of context beyond which kernels are left out to see how far a fit carries."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeltaTable(Table):
    """Measured kernels of one gated delta layer."""

    sequences: Array
    new_tokens: Array
    decode: Flags
    """One token updates the states."""
    convolution: Flags
    """The short convolution, not the rule."""
    states: Flags
    """Of prefill's rule the kernel alone that carries the state from chunk to chunk."""


def gated_delta_seconds(table: DeltaTable, device: Device, c: LinearConstants) -> Array:
    """Predicted time of every kernel of a table, all of one phase."""
    common: dict[str, Any] = {"decode": bool(table.decode.all()), "element_bytes": 2.0}
    delta = table.operators(GatedDelta, "linear attention", "gated delta", dtype="bf16", **MODEL, **common)
    convolution = table.operators(
        ShortConvolution, "linear attention", "conv", channels=CHANNELS, width=CONV_WIDTH, **common
    )
    rule_s = gated_delta_cost(delta, device, c).time_s
    convolution_s = short_convolution_cost(convolution, device, c).time_s
    states_s = c.step_s * np.ceil(table.new_tokens / CHUNK_TOKENS)
    return np.where(table.convolution, convolution_s, np.where(table.states, states_s, rule_s))


def fit_gated_delta(table: DeltaTable, device: Device) -> FitResult:
    """Return the constants; large batches are left out of a fit of the small ones to tell how far they reach.

    Prefill was timed at one length: its constants reproduce it and are not tested.
    """
    ranges = {phase: ranges_of(stated) for phase, stated in manifest("linear")["ranges"].items()}
    prompts = table.where(~table.decode)
    decoding = table.where(table.decode & (table.sequences >= LAUNCH_BOUND))

    def predict(part: DeltaTable, constants: Mapping[str, Any]) -> Array:
        return gated_delta_seconds(part, device, LinearConstants.from_mapping(constants))

    begun = {name: r.starts[0] for name, r in ranges["prefill"].items()}
    known = {"chunk_tokens": CHUNK_TOKENS, "memory_fraction": STATES_FRACTION, **begun}
    fit_decoding = within(ranges["decode"], known, predict)
    decode = fit_decoding(decoding)
    constants = within(ranges["prefill"], decode, predict)(prompts)
    small = decoding.sequences < 4 * LAUNCH_BOUND
    large = decoding.where(~small)
    residuals = {
        "fit": error_statistics(predict(decoding, decode), decoding.seconds),
        "large batches left out": error_statistics(predict(large, fit_decoding(decoding.where(small))), large.seconds),
    }
    return FitResult(constants=constants, rows={"decode": len(decoding), "prefill": len(prompts)}, residuals=residuals)


def linear_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of linear attention and state spaces; ``generic`` takes those of the device measured."""
    ((family, told),) = stated["families"].items()
    result = fit_gated_delta(DeltaTable.of(read(told["tables"])), device_of(family))

    def mixers(measured: Entry, scanned: str) -> Entry:
        scan = {"evidence": scanned, **result.constants, "chunk_tokens": SCAN_CHUNK}
        return {"mixers": {"gated-delta": {**measured, **result.constants}, "state-space": scan}}

    own = {**provenance(told["source"], "fitted", "linear"), "filters": list(told["filters"])}
    generic = provenance(f"the fit for {family}, nobody else's tables being known", "datasheet", "linear")
    return {
        family: {**own, **mixers({"evidence": "calibrated", **figures(result)}, "extrapolated")},
        "generic": {**generic, **mixers({"evidence": "datasheet"}, "datasheet")},
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseTable(Table):
    """Measured kernels of sparse attention."""

    sequences: Array
    new_tokens: Array
    context_tokens: Array
    indexer: Flags
    """The indexer's scores, not attention."""
    decode: Flags


def sparse_seconds(table: SparseTable, device: Device, c: SparseConstants) -> Array:
    """Predicted time of every kernel of a table."""
    scores = table.operators(Indexer, "indexer", "scores", dtype="fp8", key_bytes=KEY_BYTES, **INDEX)

    def attention_s(decode: bool) -> Any:
        attention = table.operators(
            SelectedAttention,
            "attention core",
            "selected attention",
            decode=decode,
            dtype="bf16",
            element_bytes=2.0,
            cache_bytes=CACHE_BYTES if decode else 2.0,
            **LATENT,
        )
        return sparse_attention_cost(attention, device, c).time_s

    index_s = indexer_cost(scores, device, c).time_s
    return np.where(table.indexer, index_s, np.where(table.decode, attention_s(True), attention_s(False)))


def fit_sparse(table: SparseTable, device: Device) -> FitResult:
    """Return a device's constants, with the errors of each kernel and of long contexts left out."""

    def predict(part: SparseTable, constants: Mapping[str, Any]) -> Array:
        return sparse_seconds(part, device, SparseConstants.from_mapping(constants))

    fit = within(ranges_of(manifest("sparse")["ranges"]), {}, predict)
    constants = fit(table)
    parts = {
        f"{phase} {kernel}": table.where(
            (table.decode == (phase == "decode")) & (table.indexer == (kernel == "logits"))
        )
        for kernel in ("logits", "attn")
        for phase in ("decode", "prefill")
    }
    residuals = {name: error_statistics(predict(part, constants), part.seconds) for name, part in parts.items()}
    far = table.context_tokens > LONG_CONTEXT
    beyond = predict(table.where(far), fit(table.where(~far)))
    residuals["long contexts left out"] = error_statistics(beyond, table.seconds[far])
    return FitResult(constants=constants, rows={"fitted": len(table)}, residuals=residuals)


def sparse_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of sparse attention; ``generic`` takes that of the device measured."""
    ((family, told),) = stated["families"].items()
    result = fit_sparse(SparseTable.of(read(told["tables"])), device_of(family))
    constants = dict(result.constants)
    generic = provenance(f"the fit for {family}, nobody else's tables being known", "datasheet", "sparse")
    return {
        family: {**provenance(told["source"], "fitted", "sparse"), **figures(result), "constants": constants},
        "generic": {**generic, "constants": constants},
    }
