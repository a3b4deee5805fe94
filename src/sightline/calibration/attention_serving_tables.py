"""Public tables of serving engines' attention kernels, read where they lie, in SI units."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sightline.calibration.tables import Array, Table, column

if TYPE_CHECKING:
    import polars

NO_WINDOW = 1e9
"""Tokens of a sliding window that never ends."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingAttentionTable(Table):
    """Measured attentions of new tokens over themselves and what is cached before them."""

    batch: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    value_dim: Array
    query_tokens: Array
    context_tokens: Array
    """Tokens that the last query sees: those cached and the new ones."""
    kv_bytes: Array
    window: Array


def joined(tables: list[ServingAttentionTable]) -> ServingAttentionTable:
    """All measurements of several tables."""
    names = ServingAttentionTable.__dataclass_fields__
    return ServingAttentionTable(**{n: np.concatenate([getattr(t, n) for t in tables]) for n in names})


def read_aiconfigurator_serving(path: Path) -> ServingAttentionTable:
    """Return a context or generation table of ai-dynamo/aiconfigurator: ms, ``step`` tokens cached before ``isl``.

    Context rows of one token are decoding steps and left out.
    """
    import polars as pl

    rows = pl.read_csv(path)
    if "context" in path.name:
        rows = rows.filter(pl.col("isl") > 1)
    heads, kv_heads = column(rows, "num_heads"), column(rows, "num_key_value_heads")
    window = column(rows, "window_size") if "window_size" in rows.columns else np.zeros(len(rows))
    return ServingAttentionTable(
        batch=column(rows, "batch_size"),
        heads=heads,
        kv_heads=np.where(kv_heads == 0, heads, kv_heads),
        head_dim=column(rows, "head_dim"),
        value_dim=column(rows, "head_dim"),
        query_tokens=column(rows, "isl"),
        context_tokens=column(rows, "isl") + column(rows, "step"),
        kv_bytes=_element_bytes(rows["kv_cache_dtype"]),
        window=np.where(window == 0, NO_WINDOW, window),
        seconds=column(rows, "latency") * 1e-3,
    )


def read_infersim(path: Path) -> ServingAttentionTable:
    """Return a table of InferSim: microseconds, shape in the file's name.

    ``mha_decode_h20_32-8-128``: heads, heads of keys and values, dimension. ``mla_decode_h20_128-512-64``: heads, width of
    the latent, of the rotated part; absorbed, so that the latent is the value. ``mla_prefill``: heads, dimension of the
    value, of the rotated part of the key. Some files lack their header.
    """
    import polars as pl

    match = re.search(r"(mha|mla)_(decode|prefill)_.*_(\d+)-(\d+)-(\d+)\.csv$", path.name)
    if match is None:
        raise ValueError(f"'{path.name}' does not name a shape")
    heads, second, third = (float(x) for x in match.groups()[2:])
    latent, decoding = match[1] == "mla", match[2] == "decode"
    names = ["dtype", "kv_dtype", "batch", "tokens", "us", "mfu"] if decoding else ["dtype", "tokens", "us", "mfu"]
    rows = pl.read_csv(path, has_header=False, new_columns=names, infer_schema=False)
    rows = rows.filter(pl.col("dtype") != "dtype").with_columns(pl.col("tokens", "us").cast(pl.Float64))
    tokens = column(rows, "tokens")
    one = np.ones(len(rows))
    return ServingAttentionTable(
        batch=column(rows.with_columns(pl.col("batch").cast(pl.Float64)), "batch") if decoding else one,
        heads=heads * one,
        kv_heads=(1.0 if decoding else heads) * one if latent else second * one,
        head_dim=(second + third if latent else third) * one,
        value_dim=(second if latent else third) * one,
        query_tokens=one if decoding else tokens,
        context_tokens=tokens,
        kv_bytes=_element_bytes(rows["kv_dtype"]) if decoding else 2 * one,
        window=NO_WINDOW * one,
        seconds=column(rows, "us") * 1e-6,
    )


def read_frontier(path: Path, *, prefill: bool) -> ServingAttentionTable:
    """Return the prefill chunks or decoding steps of a table of NetX-lab/Frontier: milliseconds, FlashInfer, 16-bit."""
    import polars as pl

    phase = "prefill" if prefill else "decode"
    rows = pl.read_csv(path, infer_schema_length=None).filter(pl.col("is_prefill") == prefill)
    rows = rows.filter(pl.col(f"time_stats.attn_{phase}.median") > 0)
    heads, ranks = column(rows, "n_q_head"), column(rows, "num_tensor_parallel_workers")
    head_dim = column(rows, "n_embd") / heads
    new = column(rows, "prefill_chunk_size") if prefill else np.ones(len(rows))
    return ServingAttentionTable(
        batch=column(rows, "batch_size"),
        heads=heads / ranks,
        kv_heads=column(rows, "n_kv_head") / ranks,
        head_dim=head_dim,
        value_dim=head_dim,
        query_tokens=new,
        context_tokens=column(rows, "kv_cache_size") + (new if prefill else 0.0),
        kv_bytes=np.full(len(rows), 2.0),
        window=np.full(len(rows), NO_WINDOW),
        seconds=column(rows, f"time_stats.attn_{phase}.median") * 1e-3,
    )


def read_llmservingsim(path: Path, *, prefill: bool) -> ServingAttentionTable:
    """Return an attention table of LLMServingSim, Llama-3.1-8B: microseconds; steps that mix both phases are left out."""
    import polars as pl

    ours, other = ("prefill_chunk", "n_decode") if prefill else ("n_decode", "prefill_chunk")
    rows = pl.read_csv(path).filter((pl.col(ours) > 0) & (pl.col(other) == 0))
    one = np.ones(len(rows))
    new = column(rows, "prefill_chunk") if prefill else one
    return ServingAttentionTable(
        batch=one if prefill else column(rows, "n_decode"),
        heads=32 * one,
        kv_heads=8 * one,
        head_dim=128 * one,
        value_dim=128 * one,
        query_tokens=new,
        context_tokens=column(rows, "kv_prefill") + new if prefill else column(rows, "kv_decode"),
        kv_bytes=2 * one,
        window=NO_WINDOW * one,
        seconds=column(rows, "time_us") * 1e-6,
    )


def read_llmservingsim_layers(path: Path) -> ServingAttentionTable:
    """Return the attention of whole prompts in a layer table of LLMServingSim's first version, Llama-3.1-8B: ns."""
    import polars as pl

    rows = pl.read_csv(path).filter((pl.col("layer_name") == "attn") & (pl.col("input") > 1))
    tokens, ranks = column(rows, "input"), column(rows, "tp_size")
    one = np.ones(len(rows))
    return ServingAttentionTable(
        batch=one,
        heads=32 / ranks,
        kv_heads=8 / ranks,
        head_dim=128 * one,
        value_dim=128 * one,
        query_tokens=tokens,
        context_tokens=tokens,
        kv_bytes=2 * one,
        window=NO_WINDOW * one,
        seconds=column(rows, "latency(ns)") * 1e-9,
    )


def _element_bytes(dtypes: "polars.Series") -> Array:
    return np.where(dtypes.to_numpy().astype(str) == "fp8", 1.0, 2.0)
