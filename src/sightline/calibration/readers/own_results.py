"""Readers of Sightline's own results of single operators: nested keys joined by dots, SI units."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import polars as pl

from sightline.calibration.readers.raw_table import CACHES, MATMULS, PHASES, RawTable, Read, attention_samples, reads
from sightline.errors import InputError
from sightline.prediction.single_operators import KERNELS
from sightline.program.shapes import ELEMENT_BYTES
from sightline.scenario.cluster import COLLECTIVES

_WORKLOAD = "scenario.workload."
_DTYPE = f"{_WORKLOAD}dtype"
_WIDE = ("fp32", "tf32")
"""Types that no constants of matmuls and attention are for."""
_HOW = "measurement.implementation"
_DIRECTION = "scenario.workload.direction"
"""Of copies between host and device, which no kernel of the device makes."""
_OF_PROCESSORS = ("recorded", "backward", "clipped", "input-gradient", "weight-gradient")
"""Ways of measuring that a processor's own part is fitted to."""
_FORMAT = ("Sightline results", "scenario.workload.operator time_s")


def _results_of(*operators: str, wide: bool = True) -> Callable[[Read], Read]:
    """Let a reader see the measured results of some operators alone, without ``wide`` types where it is False.

    Predictions are refused, which would be fitted to themselves.
    """

    def only_those(read: Read) -> Read:
        @wraps(read)
        def checked(table: RawTable) -> pl.DataFrame:
            mine = table.where(table.text(f"{_WORKLOAD}operator").is_in(operators).fill_null(value=False))
            if _HOW in mine.columns and mine.frame.height:
                mine = mine.where(~mine.text(_HOW).is_in(_OF_PROCESSORS).fill_null(value=False))
            if _DIRECTION in mine.columns and mine.frame.height:
                mine = mine.where(mine.text(_DIRECTION).is_null())
            if "source" in mine.columns and (mine.frame["source"] == "predicted").any():
                raise InputError(f"'{table.path}' holds predicted times; constants are fitted to measured ones")
            if not wide:
                mine = mine.where(~mine.text(_DTYPE).is_in(_WIDE).fill_null(value=False))
            return read(mine) if mine.frame.height else mine.samples(seconds=0.0)

        return checked

    return only_those


@reads(*_FORMAT, "matmul")
@_results_of("matmul", wide=False)
def matmul(part: RawTable) -> pl.DataFrame:
    """Measured products in formats of 16 bits and less; a batch of equal ones is no product of these constants."""
    batch = f"{_WORKLOAD}batch"
    if batch in part.columns:
        part = part.where(part.numbers(batch, optional=True).fill_null(1.0) == 1)
    kernel = part.words(_DTYPE, MATMULS)
    if (column := f"{_WORKLOAD}format") in part.columns:
        kernel = part.text(column).fill_null(kernel)
    sizes = part.sizes(**{name: _WORKLOAD + name for name in ("m", "n", "k")})
    return part.samples(kernel=kernel, **sizes, **_said(part))


@reads(*_FORMAT, *PHASES)
@_results_of("attention", wide=False)
def attention(part: RawTable) -> pl.DataFrame:
    """Measured causal attention without windows, over caches of 16-bit or fp8 elements."""
    for column, wanted in ((f"{_WORKLOAD}causal", "true"), (f"{_WORKLOAD}window", None)):
        if column in part.columns:
            part = part.where(part.text(column).str.to_lowercase().eq_missing(wanted))
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    stated = part.sizes(**{name: _WORKLOAD + name for name in names})
    value, cache, latent = (f"{_WORKLOAD}{name}" for name in ("value_dim", "kv_dtype", "latent"))
    if value in part.columns:
        stated["value_dim"] = part.numbers(value, optional=True).fill_null(stated["head_dim"])
    if cache in part.columns:
        filled = replace(part, frame=part.frame.with_columns(part.text(cache).fill_null("bf16")))
        stated["kernel"] = filled.words(cache, CACHES)
    if latent in part.columns:
        stated["latent"] = part.text(latent).str.to_lowercase().eq_missing("true")
    return attention_samples(part, **stated, **_said(part))


@reads(*_FORMAT, "elementwise")
@_results_of(*KERNELS)
def elementwise(part: RawTable) -> pl.DataFrame:
    """Measured bandwidth-bound kernels, each one fused kernel over so many elements."""
    what = [KERNELS[str(name)] for name in part.text(f"{_WORKLOAD}operator")]  # type: ignore[index]
    widths = [ELEMENT_BYTES.get(str(dtype), 2.0) for dtype in part.text(_DTYPE)]
    tensors = pl.Series([k.bytes_per_element(b) / 2 for k, b in zip(what, widths, strict=True)])
    return part.samples(
        kernel=pl.Series([k.kind for k in what]),
        generation="vectorized",
        tokens=part.numbers(f"{_WORKLOAD}elements"),
        width=1.0,
        tensors=tensors,
        distinct=tensors,
        launches=pl.Series([k.kernels for k in what]),
        **_said(part),
    )


@reads(*_FORMAT, "collectives")
@_results_of(*COLLECTIVES)
def collectives(part: RawTable) -> pl.DataFrame:
    """Measured collectives over a whole cluster."""
    return part.samples(
        kernel=part.text(f"{_WORKLOAD}operator"),
        ranks=part.numbers("scenario.cluster.devices", least=2),
        **part.sizes(ranks_per_node="scenario.cluster.per_node", bytes=f"{_WORKLOAD}bytes"),
        **_said(part),
    )


def _said(part: RawTable) -> dict[str, pl.Series | str]:
    device = "scenario.cluster.device.name"
    return {
        "seconds": part.times("time_s", 1.0),
        "library": "",
        "device": part.text(device) if device in part.columns else "",
    }
