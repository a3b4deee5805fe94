"""Constants of fused attention kernels fitted to published bars and tables."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.attention_tables import AttentionTable
from sightline.calibration.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.cost.attention.constants import AttentionConstants
from sightline.cost.attention.fused import attention_cost
from sightline.quantities import significant
from sightline.scenario import Device

Array = NDArray[np.float64]

RANGES: Mapping[str, Range] = {
    "peak_fraction": Range(low=0.1, starts=(0.7,), high=1.0),
    "backward_share": Range(low=0.4, starts=(0.8,), high=1.0),
    "softmax_flops": Range(low=0.0, starts=(10.0, 2.0), high=60.0),
    "wide_head_exponent": Range(low=0.0, starts=(0.3,), high=1.5),
    "causal_slowdown": Range(low=1.0, starts=(1.05,), high=1.5),
    "tile_overhead": Range(low=0.0, starts=(64.0, 200.0), high=1000.0),
}
"""What is fitted where a kernel's ``KERNELS`` entry does not give it."""

_COMMON = {"query_block": 128.0, "context_block": 64.0, "head_granule": 32.0, "memory_fraction": 0.8, "latency_s": 6e-6}
KERNELS: Mapping[str, Mapping[str, float]] = {
    # Few bars, no heads beyond 128, never timed forward alone.
    "flash-1": {**_COMMON, "comfortable_head": 64.0, "backward_share": 0.86, "softmax_flops": 12.0},
    "triton": {
        **_COMMON,
        "comfortable_head": 128.0,
        "backward_share": 0.86,
        "softmax_flops": 12.0,
        "wide_head_exponent": 0.592,  # no bar is wider than 128, so the charts cannot tell
    },
    # The paper's best shares of the A100's peak: 73 % forward, 63 % backward.
    "flash-2": {**_COMMON, "comfortable_head": 128.0, "backward_share": 0.86, "wide_head_exponent": 0.256},
    # Hopper's asynchronous matmuls read operands from shared memory: wide heads cost nothing. Backward was not charted.
    "flash-3": {
        **_COMMON,
        "context_block": 128.0,
        "comfortable_head": 256.0,
        "wide_head_exponent": 0.0,
        "backward_share": 0.8,
    },
}
"""What is known of each kernel: block sizes from its code, and what the charts cannot tell."""


def predicted_seconds(table: AttentionTable, device: Device, constants: AttentionConstants) -> Array:
    """Predicted time of every 16-bit pass, or pair of passes, of a table."""
    shape = (table.batch, table.heads, table.kv_heads, table.head_dim, table.query_tokens, table.query_tokens)

    def time_s(backward: bool) -> Array:
        cost = attention_cost(
            *shape, causal=table.causal, backward=backward, dtype="bf16", device=device, constants=constants
        )
        return np.asarray(cost.time_s)

    return table.forward * time_s(False) + table.backward * time_s(True)


def fit_attention(table: AttentionTable, device: Device, given: Mapping[str, float]) -> FitResult:
    """Return one kernel's constants from measured passes.

    ``given`` holds what is known of the kernel. ``backward_share``, the backward pass's rate over the forward's, is
    fitted where the table has passes timed alone and together.
    """
    separate = bool((table.forward & ~table.backward).any() and table.backward.any())
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
