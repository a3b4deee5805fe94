"""Constants of linear attention fitted to the measured kernels of a gated delta net."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.calibration.manifest import Read, Stated, device_of
from sightline.calibration.parts.part import Entry, figures, provenance
from sightline.calibration.samples import Array, by_kernel, columns
from sightline.cost.recurrent import LinearConstants, gated_delta_cost, short_convolution_cost
from sightline.program.mixer_operators import GatedDelta, ShortConvolution
from sightline.scenario import Device

if TYPE_CHECKING:
    import polars as pl

MODEL: Mapping[str, Any] = {"key_heads": 16, "value_heads": 32, "key_dim": 128, "value_dim": 128}
"""Of the layer that the tables timed."""
CONV_WIDTH = 4.0
CHANNELS = 2 * MODEL["key_heads"] * MODEL["key_dim"] + MODEL["value_heads"] * MODEL["value_dim"]
CHUNK_TOKENS = 64.0
"""Of the kernels of flash-linear-attention, which the tables timed."""
STATES_FRACTION = 0.75
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


def gated_delta_tables(rows: "pl.DataFrame") -> Tables:
    """The kernels of samples, one after another."""
    parts = {kernel: columns(part, "sequences", "tokens", "seconds") for kernel, part in by_kernel(rows).items()}
    return Tables(
        sequences=parts["update"]["sequences"],
        update_s=parts["update"]["seconds"],
        update_conv_s=parts["update convolution"]["seconds"],
        tokens=parts["prefill"]["tokens"],
        hand_on_s=parts["prefill states"]["seconds"],
        prefill_s=parts["prefill"]["seconds"],
        prefill_conv_s=parts["prefill convolution"]["seconds"],
    )


def predicted_seconds(sequences: Any, tokens: Any, decode: bool, device: Device, c: LinearConstants) -> Array:
    """Predicted times of the rule and of the convolution before it, along a first axis."""
    common: dict[str, Any] = {"decode": decode, "element_bytes": 2.0, "sequences": sequences, "new_tokens": tokens}
    rule = GatedDelta(module="linear attention", part="gated delta", dtype="bf16", **MODEL, **common)
    conv = ShortConvolution(module="linear attention", part="conv", channels=CHANNELS, width=CONV_WIDTH, **common)
    costs = (gated_delta_cost(rule, device, c), short_convolution_cost(conv, device, c))
    return np.array([cost.time_s for cost in costs], dtype=float)


def fit_gated_delta(table: Tables, device: Device) -> FitResult:
    """Return the constants; large batches are left out of a fit of the small ones to tell how far they reach.

    Prefill was timed at one length: its constants reproduce it and are not tested.
    """
    kept = table.sequences >= LAUNCH_BOUND
    sequences = table.sequences[kept]
    measured = np.array([table.update_s[kept], table.update_conv_s[kept]])
    rest: dict[str, float] = {
        "chunk_tokens": CHUNK_TOKENS,
        "memory_fraction": STATES_FRACTION,
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


SCAN_CHUNK = 256.0
"""Tokens of a chunk of Mamba-2's kernels (state-spaces/mamba)."""


def linear_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of linear attention and state spaces; ``generic`` takes those of the device measured."""
    ((family, told),) = stated["families"].items()
    result = fit_gated_delta(gated_delta_tables(read(told["tables"])), device_of(family))
    constants = dict(result.constants)
    scan = {**constants, "chunk_tokens": SCAN_CHUNK}
    return {
        family: {
            **provenance(told["source"], "fitted", "linear"),
            "filters": list(told["filters"]),
            "mixers": {
                "gated-delta": {"evidence": "calibrated", **figures(result), **constants},
                "state-space": {"evidence": "extrapolated", **scan},
            },
        },
        "generic": {
            **provenance(f"the fit for {family}, nobody else's tables being known", "datasheet", "linear"),
            "mixers": {
                "gated-delta": {"evidence": "datasheet", **constants},
                "state-space": {"evidence": "datasheet", **scan},
            },
        },
    }
