"""Constants of linear and of sparse attention fitted to measured kernels: each was measured on one device."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import error_statistics
from sightline.calibration.fits import Array, FitResult, Table, ranges_of, within
from sightline.calibration.manifest import Read, Stated, device_of, manifest
from sightline.calibration.parts.part import Entry, figures, provenance
from sightline.cost.recurrent import LinearConstants, gated_delta_cost, short_convolution_cost
from sightline.cost.sparse import SparseConstants, indexer_cost, sparse_attention_cost
from sightline.program.mixer_operators import GatedDelta, Indexer, SelectedAttention, ShortConvolution
from sightline.scenario import Device

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
