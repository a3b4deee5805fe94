"""The vocabulary of samples, and the formats of tables: recognised by their columns, never by a file's name.

A reader returns the samples of one part of a calibration, in SI units. Beside ``seconds`` they have:

- matmul: ``kernel`` (a number format: 16-bit, fp8, w8a16, ...), ``m``, ``n``, ``k``
- prefill_attention, decode_attention, latent_decode_attention: ``batch``, ``heads``, ``kv_heads``, ``head_dim``,
  ``value_dim``, ``query_tokens``, ``context_tokens``, ``window`` and ``kernel``, which says the elements of the cache
- attention: bars of fused attention as training calls it, by ``kernel``
- collectives: ``kernel`` (a kind: all_reduce, ...), ``ranks``, ``ranks_per_node``, ``bytes``
- grouped: ``kernel`` (a layout), ``experts``, ``local_experts``, ``rows_per_expert``, ``mfu``, ``n``, ``k``
- elementwise: as follows

and always ``row``, its place in the file, ``library`` and ``device``, empty where the file does not say.

Beside ``seconds`` samples of bandwidth-bound kernels have: ``kernel`` (a class: norm, rope, activation, ...),
``tokens``, ``width`` (elements of a token's row), ``tensors`` of 16 bits that are moved, ``distinct`` ones among them,
``launches`` (kernels launched one after another) and ``generation`` (how kernels were written). Every tensor counts
once per read or write: a norm reads and writes, a gated activation reads two tensors and writes one, an embedding
gathers rows and writes them, a residual adds two into a third.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.words import PROGRAMS, WORDS

Read = Callable[[RawTable], pl.DataFrame]

PHASES = ("prefill_attention", "decode_attention", "latent_decode_attention")
"""Parts of serving engines' attention: prompts, steps against keys and values per head, and steps against a latent."""
NO_WINDOW = 1e9
"""Tokens of a sliding window that never ends."""

MATMULS: Mapping[str, str] = WORDS["matmuls"]
CACHES: Mapping[str, str] = WORDS["caches"]
COLLECTIVES = {**PROGRAMS, **{kind: kind for kind in PROGRAMS.values()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way of writing measurements down."""

    name: str
    part: str
    columns: tuple[str, ...]
    """Columns that a table of this format has; others may be there too."""
    read: Read
    repeats: bool = False
    """A table times shapes several times as a matter of course: their median counts."""


FORMATS: list[Format] = []
"""The first that fits a table's columns and part reads it."""


def reads(name: str, columns: str, *parts: str, repeats: bool = False) -> Callable[[Read], Read]:
    """Register the decorated function as reader of ``parts`` of tables in the format ``name``, with ``columns``."""

    def register(read: Read) -> Read:
        for part in parts:
            one = _of_phase(read, part)
            FORMATS.append(Format(name=name, part=part, columns=tuple(columns.split()), read=one, repeats=repeats))
        return read

    return register


def _of_phase(read: Read, part: str) -> Read:
    """A reader of one phase of what ``read`` reads: steps have one query per sequence, prompts more.

    Steps against a latent are a part of their own.
    """
    if part not in PHASES:
        return read

    def phase(table: RawTable) -> pl.DataFrame:
        rows = read(table)
        if "query_tokens" not in rows.columns:
            return rows
        lacking = {"latent": pl.lit(value=False), "window": pl.lit(NO_WINDOW)}
        rows = rows.with_columns(**{name: value for name, value in lacking.items() if name not in rows.columns})
        step, latent = pl.col("query_tokens") == 1, pl.col("latent")
        chosen = {"latent_decode_attention": step & latent, "decode_attention": step & ~latent}
        return rows.filter(chosen.get(part, ~step)).drop("latent")

    return phase


def attention_samples(table: RawTable, **columns: Any) -> pl.DataFrame:
    """Samples of attention: one sequence, a 16-bit cache, values as wide as keys unless ``columns`` say more."""
    usual = {"kernel": "16-bit cache", "batch": 1.0, "value_dim": columns["head_dim"]}
    return table.samples(**{**usual, **columns})


class Stream(NamedTuple):
    """What a kernel does for a token."""

    kind: str
    width: pl.Series | float
    tensors: float
    distinct: float | None = None
    """None: as many as are moved."""
    launches: float = 1.0


def stream_samples(
    table: RawTable, stream: Stream, tokens: pl.Series, seconds: pl.Series, generation: str = "vectorized"
) -> pl.DataFrame:
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


def in_order(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The samples of several kernels in the order of the file's rows."""
    return pl.concat(parts).sort("row", maintain_order=True)
