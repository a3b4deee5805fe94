"""Constants of linear attention fitted to the measured kernels of a gated delta net."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.calibration.tables import column
from sightline.cost.mixers.linear import LinearConstants, gated_delta_cost, short_convolution_cost
from sightline.scenario import Device

Array = NDArray[np.float64]

MODEL: Mapping[str, Any] = {"key_heads": 16, "value_heads": 32, "key_dim": 128, "value_dim": 128}
"""Qwen3-Next on one device. InferSim's second pair of tables, named for 64 value heads, repeats these figures."""
CONV_WIDTH = 4.0
CHANNELS = 2 * MODEL["key_heads"] * MODEL["key_dim"] + MODEL["value_heads"] * MODEL["value_dim"]
CHUNK_TOKENS = 64.0
"""Of the kernels of flash-linear-attention, which the tables timed."""
HANDED_ON_FRACTION = 0.75
"""Share of the memory bandwidth at which prefill's kernels stream, estimated: one length cannot tell it from the rest."""
LAUNCH_BOUND = 64
"""Sequences below which the update kernel took 70 us whatever it did: launched from Python."""

DECODE_RANGES: Mapping[str, Range] = {
    "update_fraction": Range(low=0.1, starts=(0.6,), high=0.95),
    "conv_update_fraction": Range(low=0.05, starts=(0.3,), high=0.95),
    "latency_s": Range(low=1e-6, starts=(8e-6,), high=2e-5),
}
PREFILL_RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.05, starts=(0.5,), high=0.95),
    "conv_fraction": Range(low=0.05, starts=(0.5,), high=0.95),
    "step_s": Range(low=1e-7, starts=(3e-6,), high=1e-4),
}


class Tables(NamedTuple):
    """Sequences and tokens, and seconds of the kernels of one layer."""

    sequences: Array
    update_s: Array
    update_conv_s: Array
    tokens: Array
    hand_on_s: Array
    """The kernel that carries the state from chunk to chunk."""
    prefill_s: Array
    """All kernels of prefill but the convolution."""
    prefill_conv_s: Array


def read_infersim_gated_delta(decode: Path, prefill: Path) -> Tables:
    """Return a pair of gated delta tables of alibaba/InferSim: microseconds, one layer, bf16 with fp32 states."""
    import polars as pl

    one, many = pl.read_csv(decode), pl.read_csv(prefill)
    kernels = ("kkt", "tril", "wu", "chunk_gdn", "chunk_o")
    return Tables(
        sequences=column(one, "batchsize"),
        update_s=column(one, "gdn_update") * 1e-6,
        update_conv_s=column(one, "conv") * 1e-6,
        tokens=column(many, "seq_len"),
        hand_on_s=column(many, "chunk_gdn") * 1e-6,
        prefill_s=np.sum([column(many, name) for name in kernels], axis=0) * 1e-6,
        prefill_conv_s=column(many, "conv") * 1e-6,
    )


def predicted_seconds(sequences: Any, tokens: Any, decode: bool, device: Device, c: LinearConstants) -> Array:
    """Predicted times of the rule and of the convolution before it, along a first axis."""
    common: dict[str, Any] = {"decode": decode, "element_bytes": 2.0, "device": device, "constants": c}
    rule = gated_delta_cost(sequences, tokens, **MODEL, dtype="bf16", **common).time_s
    conv = short_convolution_cost(sequences, tokens, CHANNELS, CONV_WIDTH, **common).time_s
    return np.array([rule, conv], dtype=float)


def fit_gated_delta(table: Tables, device: Device) -> FitResult:
    """Return the constants; large batches are left out of a fit of the small ones to tell how far they reach.

    Prefill was timed at one length: its constants reproduce it and are not tested.
    """
    kept = table.sequences >= LAUNCH_BOUND
    sequences = table.sequences[kept]
    measured = np.array([table.update_s[kept], table.update_conv_s[kept]])
    rest: dict[str, float] = {
        "chunk_tokens": CHUNK_TOKENS,
        "memory_fraction": HANDED_ON_FRACTION,
        **{name: r.starts[0] for name, r in PREFILL_RANGES.items()},
    }

    def decoding(fitted: Constants) -> LinearConstants:
        return LinearConstants.from_mapping({**rest, **fitted})

    def fitted_on(batches: NDArray[np.bool_]) -> dict[str, float]:
        return fit_constants(
            lambda x: predicted_seconds(sequences[batches], 1.0, True, device, decoding(x)).ravel(),
            measured[:, batches].ravel(),
            DECODE_RANGES,
        )

    decode = fitted_on(np.ones(len(sequences), dtype=bool))
    small = sequences < 4 * LAUNCH_BOUND
    beyond = predicted_seconds(sequences[~small], 1.0, True, device, decoding(fitted_on(small)))
    rest.update(decode)

    def prompts(fitted: Constants) -> Array:
        c = LinearConstants.from_mapping({**rest, **fitted})
        return np.array([*predicted_seconds(1.0, table.tokens, False, device, c), c.step_s * _chunks(table)]).ravel()

    prefill = fit_constants(
        prompts, np.array([table.prefill_s, table.prefill_conv_s, table.hand_on_s]).ravel(), PREFILL_RANGES
    )
    predicted = predicted_seconds(sequences, 1.0, True, device, decoding(decode))
    residuals = {
        "fit": error_statistics(predicted.ravel(), measured.ravel()),
        "large batches left out": error_statistics(beyond.ravel(), measured[:, ~small].ravel()),
    }
    rows = {"decode": int(measured.size), "prefill": 3 * len(table.tokens)}
    return FitResult(constants={**rest, **prefill}, rows=rows, residuals=residuals)


def _chunks(table: Tables) -> Array:
    return np.ceil(table.tokens / CHUNK_TOKENS)
