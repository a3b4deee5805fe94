"""The vocabulary of samples: what tables call formats, caches and collectives, and how bandwidth-bound kernels count.

Beside ``seconds`` samples of bandwidth-bound kernels have: ``kernel`` (a class: norm, rope, activation, ...), ``tokens``,
``width`` (elements of a token's row), ``tensors`` of 16 bits that are moved, ``distinct`` ones among them, ``launches``
(kernels launched one after another) and ``generation`` (how kernels were written). Every tensor counts once per read or
write: a norm reads and writes, a gated activation reads two tensors and writes one, an embedding gathers rows and writes
them, a residual adds two into a third.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sightline.calibration.readers.raw_table import RawTable

if TYPE_CHECKING:
    import polars as pl

NO_WINDOW = 1e9
"""Tokens of a sliding window that never ends."""

MATMULS = {
    "bfloat16": "16-bit",
    "float16": "16-bit",
    "bf16": "16-bit",
    "fp16": "16-bit",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "sq": "w8a8",
    "int8": "w8a8",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "nvfp4": "nvfp4",
    "mxfp4": "mxfp4",
}
"""Number formats of products."""

CACHES = {
    "bfloat16": "16-bit cache",
    "float16": "16-bit cache",
    "bf16": "16-bit cache",
    "fp16": "16-bit cache",
    "fp8": "fp8 cache",
}
"""Elements of a cache, by which the kernels that read them are told apart."""

PROGRAMS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "sendrecv": "send_recv",
    "broadcast": "broadcast",
}
"""Programs of nccl-tests, and the kinds of collectives that they time."""
COLLECTIVES = {**PROGRAMS, **{kind: kind for kind in PROGRAMS.values()}}


class Stream(NamedTuple):
    """What a kernel does for a token."""

    kind: str
    width: "pl.Series | float"
    tensors: float
    distinct: float | None = None
    """None: as many as are moved."""
    launches: float = 1.0


def streams(
    table: RawTable, layer: str, tokens: str, seconds: "pl.Series", kinds: Mapping[str, Stream]
) -> "pl.DataFrame":
    """Samples of the layers that are bandwidth-bound kernels, by the name in the column ``layer``."""
    names, count = table.text(layer), table.numbers(tokens)
    return in_order(
        [
            stream_samples(table, stream, count, seconds).filter((names == name).fill_null(value=False))
            for name, stream in kinds.items()
        ]
    )


def stream_samples(
    table: RawTable, stream: Stream, tokens: "pl.Series", seconds: "pl.Series", generation: str = "vectorized"
) -> "pl.DataFrame":
    """A sample of the kernel for every row of the table."""
    return table.samples(
        kernel=stream.kind,
        generation=generation,
        tokens=tokens,
        width=tokens * 0 + stream.width,
        tensors=stream.tensors,
        distinct=stream.tensors if stream.distinct is None else stream.distinct,
        launches=stream.launches,
        seconds=seconds,
    )


def in_order(parts: "Sequence[pl.DataFrame]") -> "pl.DataFrame":
    """The samples of several kernels in the order of the file's rows."""
    import polars as pl

    return pl.concat(parts).sort("row", maintain_order=True)
