"""Constants of sparse attention with an indexer fitted to measured kernels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.calibration.fits.fitting import Constants, FitResult, Range, error_statistics, fit_constants
from sightline.calibration.manifest import Read, Stated, device_of
from sightline.calibration.parts.part import Entry, figures, provenance
from sightline.calibration.samples import Array, columns
from sightline.cost.sparse import SparseConstants, indexer_cost, sparse_attention_cost
from sightline.program.mixer_operators import Indexer, SelectedAttention
from sightline.scenario import Device

if TYPE_CHECKING:
    import polars as pl

INDEX: Mapping[str, Any] = {"heads": 64, "head_dim": 128}
LATENT: Mapping[str, Any] = {"heads": 128, "key_dim": 576, "value_dim": 512, "selected_tokens": 2048}
"""DeepSeek V3.2 on one device, as the tables are named."""
KEY_BYTES, CACHE_BYTES = 1 + 4 / 128, 656 / 576
"""Of fp8 keys with a scale per 128, and of FlashMLA's cache: 512 fp8 values, four scales, 64 values in 16 bits."""

RANGES: Mapping[str, Range] = {
    "index_peak_fraction": Range(low=0.2, starts=(0.6,), high=0.95),
    "index_memory_fraction": Range(low=0.3, starts=(0.8,), high=0.95),
    "prefill_peak_fraction": Range(low=0.2, starts=(0.6,), high=0.95),
    "decode_peak_fraction": Range(low=0.1, starts=(0.4,), high=0.95),
    "latency_s": Range(low=1e-6, starts=(6e-6,), high=2e-5),
}


class Rows(NamedTuple):
    """Measured kernels of one kind."""

    sequences: Array
    new_tokens: Array
    context_tokens: Array
    seconds: Array


def sparse_tables(rows: "pl.DataFrame") -> dict[tuple[str, str], Rows]:
    """The kernels of samples by kind and phase."""
    return {
        (str(kernel), str(phase)): Rows(**columns(part, *Rows._fields))
        for (kernel, phase), part in rows.group_by(["kernel", "phase"], maintain_order=True)
    }


def predicted_seconds(kernel: str, phase: str, rows: Rows, device: Device, c: SparseConstants) -> Array:
    """Predicted time of every kernel of a table."""
    sizes: dict[str, Any] = {
        "sequences": rows.sequences,
        "new_tokens": rows.new_tokens,
        "context_tokens": rows.context_tokens,
    }
    if kernel == "logits":
        index = Indexer(module="indexer", part="scores", dtype="fp8", key_bytes=KEY_BYTES, **INDEX, **sizes)
        cost = indexer_cost(index, device, c)
    else:
        decode = phase == "decode"
        attention = SelectedAttention(
            module="attention core",
            part="selected attention",
            decode=decode,
            dtype="bf16",
            element_bytes=2.0,
            cache_bytes=CACHE_BYTES if decode else 2.0,
            **LATENT,
            **sizes,
        )
        cost = sparse_attention_cost(attention, device, c)
    return np.asarray(cost.time_s, dtype=float)


def fit_sparse(tables: Mapping[tuple[str, str], Rows], device: Device) -> FitResult:
    """Return a device's constants, with the errors of each table and of contexts beyond 16,384 tokens left out."""

    def seconds(parts: Mapping[tuple[str, str], Rows], c: SparseConstants) -> Array:
        return np.concatenate([predicted_seconds(*key, rows, device, c) for key, rows in parts.items()])

    def fitted_on(parts: Mapping[tuple[str, str], Rows]) -> dict[str, float]:
        def predict(x: Constants) -> Array:
            return seconds(parts, SparseConstants.from_mapping(x))

        return fit_constants(predict, np.concatenate([rows.seconds for rows in parts.values()]), RANGES)

    fitted = fitted_on(tables)
    constants = SparseConstants.from_mapping(fitted)
    residuals = {
        f"{phase} {kernel}": error_statistics(predicted_seconds(kernel, phase, rows, device, constants), rows.seconds)
        for (kernel, phase), rows in tables.items()
    }
    short, long = (
        {k: Rows(*(x[(r.context_tokens > 16384) == far] for x in r)) for k, r in tables.items()}
        for far in (False, True)
    )
    beyond = seconds(long, SparseConstants.from_mapping(fitted_on(short)))
    residuals["long contexts left out"] = error_statistics(beyond, np.concatenate([r.seconds for r in long.values()]))
    return FitResult(
        constants=fitted, rows={"fitted": sum(len(r.seconds) for r in tables.values())}, residuals=residuals
    )


def sparse_entries(stated: Stated, read: Read) -> dict[str, Entry]:
    """The shipped calibrations of sparse attention; ``generic`` takes that of the device measured."""
    ((family, told),) = stated["families"].items()
    result = fit_sparse(sparse_tables(read(told["tables"])), device_of(family))
    constants = dict(result.constants)
    generic = provenance(f"the fit for {family}, nobody else's tables being known", "datasheet", "sparse")
    return {
        family: {**provenance(told["source"], "fitted", "sparse"), **figures(result), "constants": constants},
        "generic": {**generic, "constants": constants},
    }
