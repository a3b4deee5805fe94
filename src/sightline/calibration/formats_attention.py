"""Readers of attention tables."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sightline.calibration.formats_matmul import kernels, named, stated
from sightline.calibration.raw_table import RawTable

if TYPE_CHECKING:
    import polars as pl

CACHES = {
    "bfloat16": "16-bit cache",
    "float16": "16-bit cache",
    "bf16": "16-bit cache",
    "fp16": "16-bit cache",
    "fp8": "fp8 cache",
}
"""What tables call the elements of a cache, and what we call the kernels that read them."""


def of_phase(read: "Callable[[RawTable], pl.DataFrame]", part: str) -> "Callable[[RawTable], pl.DataFrame]":
    """A reader of one phase of what ``read`` reads: steps have one query per sequence, prompts more.

    Steps against a latent are a part of their own.
    """

    def phase(table: RawTable) -> "pl.DataFrame":
        import polars as pl

        rows = read(table)
        if "query_tokens" not in rows.columns:
            return rows
        if "latent" not in rows.columns:
            rows = rows.with_columns(latent=pl.lit(value=False))
        step, latent = pl.col("query_tokens") == 1, pl.col("latent")
        chosen = {"latent_decode_attention": step & latent, "decode_attention": step & ~latent}
        return rows.filter(chosen.get(part, ~step)).drop("latent")

    return phase


def aiconfigurator(table: RawTable) -> "pl.DataFrame":
    """ai-dynamo/aiconfigurator, context and generation: milliseconds; sliding windows are left out.

    ``step`` tokens are in the cache before ``isl`` new ones; no key and value heads means as many as heads.
    """
    import polars as pl

    heads, kv_heads = table.numbers("num_heads"), table.numbers("num_key_value_heads", least=0)
    new, step = table.numbers("isl"), table.numbers("step", least=0)
    rows = named(
        table,
        kernel=kernels(table, "kv_cache_dtype", CACHES) if "kv_cache_dtype" in table.columns else "16-bit cache",
        batch=table.numbers("batch_size"),
        heads=heads,
        kv_heads=heads.zip_with(kv_heads == 0, kv_heads),
        head_dim=table.numbers("head_dim"),
        value_dim=table.numbers("head_dim"),
        query_tokens=new,
        context_tokens=new + step,
        seconds=table.times("latency", 1e-3),
        window=table.numbers("window_size", least=0) if "window_size" in table.columns else 0.0,
        **stated(table),
    )
    return rows.filter(pl.col("window") == 0).drop("window")


def vidur(table: RawTable) -> "pl.DataFrame":
    """microsoft/vidur and Frontier, attention: milliseconds of a prefill's chunk or of a batch's decoding step."""
    import polars as pl

    heads, kv_heads, ranks = (table.numbers(c) for c in ("n_q_head", "n_kv_head", "num_tensor_parallel_workers"))
    prefill = table.text("is_prefill").str.to_lowercase() == "true"
    chunk, cache = table.numbers("prefill_chunk_size", least=0), table.numbers("kv_cache_size", least=0)
    prefill_s = table.times("time_stats.attn_prefill.median", 1e-3, optional=True)
    decode_s = table.times("time_stats.attn_decode.median", 1e-3, optional=True)
    new = chunk.zip_with(prefill, pl.Series([1.0] * len(chunk)))
    rows = named(
        table,
        kernel="16-bit cache",
        batch=table.numbers("batch_size"),
        heads=heads / ranks,
        kv_heads=(kv_heads / ranks).clip(lower_bound=1),
        head_dim=table.numbers("n_embd") / heads,
        value_dim=table.numbers("n_embd") / heads,
        query_tokens=new,
        context_tokens=cache + new,
        seconds=prefill_s.zip_with(prefill, decode_s),
        **stated(table),
    )
    return rows.filter((pl.col("seconds") > 0) & (pl.col("query_tokens") > 0))
