"""Readers of Sightline's own results of single operators: nested keys joined by dots, SI units."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.vocabulary import CACHES, MATMULS
from sightline.errors import InputError
from sightline.prediction.operators.predict import KERNELS
from sightline.program.shapes import ELEMENT_BYTES
from sightline.scenario.operation import COLLECTIVES

if TYPE_CHECKING:
    import polars as pl

_WORKLOAD = "scenario.workload."
_DTYPE = f"{_WORKLOAD}dtype"
_WIDE = ("fp32", "tf32")
"""Types that no constants of matmuls and attention are for."""
_HOW = "measurement.implementation"
_OF_PROCESSORS = ("recorded", "backward", "clipped", "input-gradient", "weight-gradient")
"""Ways of measuring that a processor's own part is fitted to."""


def matmul(table: RawTable) -> "pl.DataFrame":
    """Measured products in formats of 16 bits and less; a batch of equal ones counts as one product with as many rows."""
    import polars as pl

    part = _of(table, ("matmul",))
    part = part.where(~part.text(_DTYPE).is_in(_WIDE).fill_null(value=False))
    if part.frame.height == 0:
        return _none(part)
    kernel = part.words(_DTYPE, MATMULS)
    if (column := f"{_WORKLOAD}format") in part.columns:
        kernel = part.text(column).fill_null(kernel)
    batch = f"{_WORKLOAD}batch"
    rows = part.samples(
        kernel=kernel,
        batch=part.numbers(batch, optional=True).fill_null(1.0) if batch in part.columns else 1.0,
        **{name: part.numbers(_WORKLOAD + name) for name in ("m", "n", "k")},
        **_said(part),
    )
    return rows.filter(pl.col("batch") == 1).drop("batch")


def attention(table: RawTable) -> "pl.DataFrame":
    """Measured causal attention without windows, over caches of 16-bit or fp8 elements."""
    part = _of(table, ("attention",))
    part = part.where(~part.text(_DTYPE).is_in(_WIDE).fill_null(value=False))
    for column, wanted in ((f"{_WORKLOAD}causal", "true"), (f"{_WORKLOAD}window", None)):
        if column in part.columns:
            part = part.where(part.text(column).str.to_lowercase().eq_missing(wanted))
    if part.frame.height == 0:
        return _none(part)
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    shape = {name: part.numbers(_WORKLOAD + name) for name in names}
    value, cache, latent = (f"{_WORKLOAD}{name}" for name in ("value_dim", "kv_dtype", "latent"))
    if value in part.columns:
        shape["value_dim"] = part.numbers(value, optional=True).fill_null(shape["head_dim"])
    else:
        shape["value_dim"] = shape["head_dim"]
    kernel = "16-bit cache"
    stated: dict[str, pl.Series | str] = {"kernel": kernel}
    if cache in part.columns:
        filled = replace(part, frame=part.frame.with_columns(part.text(cache).fill_null("bf16")))
        stated["kernel"] = filled.words(cache, CACHES)
    if latent in part.columns:
        stated["latent"] = part.text(latent).str.to_lowercase().eq_missing("true")
    return part.samples(**stated, **shape, **_said(part))


def elementwise(table: RawTable) -> "pl.DataFrame":
    """Measured bandwidth-bound kernels, each one fused kernel over so many elements."""
    import polars as pl

    part = _of(table, tuple(KERNELS))
    if part.frame.height == 0:
        return _none(part)
    names, dtypes = part.text(f"{_WORKLOAD}operator"), part.text(_DTYPE)
    what = [KERNELS[str(name)] for name in names]  # type: ignore[index]
    widths = [ELEMENT_BYTES.get(str(dtype), 2.0) for dtype in dtypes]
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


def collectives(table: RawTable) -> "pl.DataFrame":
    """Measured collectives over a whole cluster."""
    part = _of(table, COLLECTIVES)
    if part.frame.height == 0:
        return _none(part)
    ranks = part.numbers("scenario.cluster.devices", least=2)
    return part.samples(
        kernel=part.text(f"{_WORKLOAD}operator"),
        ranks=ranks,
        ranks_per_node=part.numbers("scenario.cluster.per_node"),
        bytes=part.numbers(f"{_WORKLOAD}bytes"),
        **_said(part),
    )


def _of(table: RawTable, operators: tuple[str, ...]) -> RawTable:
    """The measured results of some operators; predictions are refused, which would be fitted to themselves."""
    mine = table.where(table.text(f"{_WORKLOAD}operator").is_in(operators).fill_null(value=False))
    if _HOW in mine.columns and mine.frame.height:
        mine = mine.where(~mine.text(_HOW).is_in(_OF_PROCESSORS).fill_null(value=False))
    if "source" in mine.columns and (mine.frame["source"] == "predicted").any():
        raise InputError(f"'{table.path}' holds predicted times; constants are fitted to measured ones")
    return mine


def _said(part: RawTable) -> "dict[str, pl.Series | str]":
    device = "scenario.cluster.device.name"
    return {
        "seconds": part.times("time_s", 1.0),
        "library": "",
        "device": part.text(device) if device in part.columns else "",
    }


def _none(part: RawTable) -> "pl.DataFrame":
    return part.samples(seconds=0.0)
