"""Readers of InferSim's attention tables, whose files' names or ``--shape`` say the heads."""

import re
from typing import TYPE_CHECKING

from sightline.calibration.formats_attention import CACHES
from sightline.calibration.formats_matmul import kernels, named, stated
from sightline.calibration.raw_table import RawTable
from sightline.errors import InputError

if TYPE_CHECKING:
    import polars as pl

_SHAPE = re.compile(r"(?:(mha|mla)[-_])?(?:.*_)?(\d+)-(\d+)-(\d+)$")
_DEVICE = re.compile(r"(?:decode|prefill)_([a-z]+\d+)_")
_SPARSE = "dsa_"


def decode(table: RawTable) -> "pl.DataFrame":
    """alibaba/InferSim, mha and mla decoding: microseconds of a step against ``kv_len`` tokens."""
    heads, kv_heads, head_dim, value_dim, latent = _shape(table, decoding=True)
    return named(
        table,
        kernel=kernels(table, "kv_dtype", CACHES),
        batch=table.numbers("batch_size"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim,
        query_tokens=1.0,
        context_tokens=table.numbers("kv_len"),
        latent=latent,
        seconds=table.times("latency_us", 1e-6),
        **_stated(table),
    )


def prefill(table: RawTable) -> "pl.DataFrame":
    """alibaba/InferSim, mha and mla prefill: microseconds of one whole prompt; multi-latent keys are expanded."""
    heads, kv_heads, head_dim, value_dim, _ = _shape(table, decoding=False)
    tokens = table.numbers("seq_len")
    return named(
        table,
        kernel="16-bit cache",
        batch=1.0,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        value_dim=value_dim,
        query_tokens=tokens,
        context_tokens=tokens,
        seconds=table.times("latency_us", 1e-6),
        **_stated(table),
    )


def _stated(table: RawTable) -> "dict[str, pl.Series | str]":
    """The library and the device; the file's name says the device where no column does."""
    said = stated(table)
    match = _DEVICE.search(table.path.stem)
    return said if "device" in table.columns or match is None else {**said, "device": match[1]}


def _shape(table: RawTable, *, decoding: bool) -> tuple[float, float, float, float, bool]:
    """Heads, heads of keys and values, width of key and of value, and whether the cache is a latent.

    ``mha`` 32-8-128: heads, heads of keys and values, dimension. ``mla`` 128-512-64: heads, width of latent or value,
    width of the rotated part of the key.
    """
    stem = table.path.stem
    said = table.shape or stem
    match = _SHAPE.search(said)
    if match is None or (table.shape and match.start() != 0):
        raise InputError(
            f"'{table.path}' does not say its heads' shape; --shape does: HEADS-KV_HEADS-HEAD_DIM such as 32-8-128, or "
            f"mla-HEADS-VALUE-ROTATED such as mla-128-512-64{f', not {table.shape}' if table.shape else ''}"
        )
    if stem.startswith(_SPARSE) and not table.shape:
        raise InputError(f"'{table.path}' is of sparse attention, whose constants are not fitted from tables yet")
    heads, second, third = (float(number) for number in match.groups()[1:])
    if min(heads, second, third) < 1:
        raise InputError(f"'{table.path}': the shape {said} has a part of 0; heads and dimensions are 1 or more")
    if (match[1] or ("mla" if "mla_" in stem and not table.shape else "mha")) == "mla":
        return heads, 1.0 if decoding else heads, second + third, second, decoding
    return heads, second, third, third, False
