"""Readers of tables of bandwidth-bound kernels.

Rows have, beside ``seconds``: ``kernel`` (a class: norm, rope, activation, ...), ``tokens``, ``width`` (elements of a
token's row), ``tensors`` of 16 bits that are moved, ``distinct`` ones among them, ``launches`` (kernels of a chain) and
``generation`` (how kernels were written).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sightline.calibration.elementwise_tables import VIDUR_OPERATORS
from sightline.calibration.formats_matmul import named, stated
from sightline.calibration.raw_table import RawTable

if TYPE_CHECKING:
    import polars as pl


class Stream(NamedTuple):
    """What a kernel does for a token."""

    kind: str
    width: "pl.Series | float"
    tensors: float
    distinct: float | None = None
    """None: as many as are moved."""
    launches: float = 1.0


def streams(
    table: RawTable,
    layer: str,
    tokens: str,
    seconds: "pl.Series",
    kinds: Mapping[str, Stream],
    generation: str = "vectorized",
) -> "pl.DataFrame":
    """Rows of the layers that are bandwidth-bound kernels, by the name in the column ``layer``."""
    import polars as pl

    names, rows = table.text(layer), table.numbers(tokens)
    parts = [
        _rows(table, stream, rows, seconds, generation).filter((names == name).fill_null(value=False))
        for name, stream in kinds.items()
    ]
    return pl.concat(parts)


def vidur(table: RawTable) -> "pl.DataFrame":
    """microsoft/vidur and Frontier, mlp: vLLM's kernels of 2023 beside the linear layers; milliseconds, medians."""
    import polars as pl

    tokens, hidden, ffn = (table.numbers(c) for c in ("num_tokens", "n_embd", "n_expanded_embd"))
    ranks, heads, kv_heads = (table.numbers(c) for c in ("num_tensor_parallel_workers", "n_head", "n_kv_head"))
    rotated = hidden / heads * (heads / ranks + (kv_heads / ranks).clip(lower_bound=1))
    kinds = {
        "norm": Stream("norm", hidden, 2.0),
        "embedding": Stream("embedding", hidden, 2.0),
        "residual": Stream("residual", hidden, 3.0),
        "rope": Stream("rope", rotated, 2.0),
        "activation": Stream("activation", ffn / ranks, 3.0),
    }
    parts = [
        _rows(table, kinds[kind], tokens, table.times(name, 1e-3, optional=True), "scalar")
        for column, kind in VIDUR_OPERATORS.items()
        if (name := f"time_stats.{column}.median") in table.columns
    ]
    return pl.concat(parts).filter(pl.col("seconds") > 0)


def _rows(
    table: RawTable, stream: Stream, tokens: "pl.Series", seconds: "pl.Series", generation: str
) -> "pl.DataFrame":
    return named(
        table,
        kernel=stream.kind,
        generation=generation,
        tokens=tokens,
        width=tokens * 0 + stream.width,
        tensors=stream.tensors,
        distinct=stream.tensors if stream.distinct is None else stream.distinct,
        launches=stream.launches,
        seconds=seconds,
        **stated(table),
    )
