"""Readers of the profiles of microsoft/vidur and NetX-lab/Frontier: milliseconds, medians over repeats, 16 bits."""

import polars as pl

from sightline.calibration.readers.raw_table import (
    COLLECTIVES,
    PHASES,
    RawTable,
    Stream,
    attention_samples,
    in_order,
    reads,
    stream_samples,
)


@reads(
    "Vidur or Frontier mlp",
    "time_stats.mlp_up_proj.median n_embd n_expanded_embd num_tokens num_tensor_parallel_workers",
    "matmul",
    repeats=True,
)
def matmul(table: RawTable) -> pl.DataFrame:
    """The linear layers of a transformer.

    Query, key and value are one product, and so are gate and up projection; tensor parallelism splits columns, then
    rows. A rank has one head of keys and values at least. MLPs are gated unless the profile says otherwise.
    """
    tokens, hidden, ffn, ranks, heads, kv_heads = _sizes(table)
    gated = table.text("use_gated_mlp").str.to_lowercase() != "false" if "use_gated_mlp" in table.columns else None
    inner = ffn * 2 if gated is None else ffn * (1 + gated.cast(pl.Float64))
    shapes = {
        "attn_pre_proj": ((heads + 2 * kv_heads.clip(lower_bound=ranks)) * (hidden / heads) / ranks, hidden),
        "attn_post_proj": (hidden, hidden / ranks),
        "mlp_up_proj": (inner / ranks, hidden),
        "mlp_down_proj": (hidden, ffn / ranks),
    }
    parts = [
        table.samples(kernel="16-bit", m=tokens, n=n, k=k, seconds=table.times(time, 1e-3, optional=True))
        for name, (n, k) in shapes.items()
        if (time := f"time_stats.{name}.median") in table.columns
    ]
    return pl.concat(parts).filter(pl.col("seconds") > 0)


@reads(
    "Vidur or Frontier mlp",
    "time_stats.input_layernorm.median n_embd n_expanded_embd num_tokens n_head n_kv_head",
    "elementwise",
)
def elementwise(table: RawTable) -> pl.DataFrame:
    """VLLM's kernels of 2023 other than the linear layers."""
    tokens, hidden, ffn, ranks, heads, kv_heads = _sizes(table)
    rotated = hidden / heads * (heads / ranks + (kv_heads / ranks).clip(lower_bound=1))
    norm = Stream("norm", hidden, 2.0)
    kinds = {
        "emb": Stream("embedding", hidden, 2.0),
        "input_layernorm": norm,
        "post_attention_layernorm": norm,
        "attn_rope": Stream("rope", rotated, 2.0),
        "mlp_act": Stream("activation", ffn / ranks, 3.0),
        "add": Stream("residual", hidden, 3.0),
    }
    parts = [
        stream_samples(table, kind, tokens, table.times(time, 1e-3, optional=True), "scalar")
        for name, kind in kinds.items()
        if (time := f"time_stats.{name}.median") in table.columns
    ]
    return in_order(parts).filter(pl.col("seconds") > 0)


def _sizes(table: RawTable) -> tuple[pl.Series, ...]:
    """Tokens, hidden size, width of the MLP, tensor-parallel ranks, heads, heads of keys and values."""
    names = ("num_tokens", "n_embd", "n_expanded_embd", "num_tensor_parallel_workers", "n_head", "n_kv_head")
    return tuple(table.numbers(name) for name in names)


@reads(
    "Vidur or Frontier attention",
    "time_stats.attn_prefill.median n_q_head n_kv_head prefill_chunk_size kv_cache_size",
    *PHASES[:2],
)
def attention(table: RawTable) -> pl.DataFrame:
    """A prefill's chunk, or a decoding step of a batch."""
    heads, kv_heads, ranks = (table.numbers(c) for c in ("n_q_head", "n_kv_head", "num_tensor_parallel_workers"))
    prefill = table.text("is_prefill").str.to_lowercase() == "true"
    chunk, cache = table.numbers("prefill_chunk_size", least=0), table.numbers("kv_cache_size", least=0)
    prefill_s = table.times("time_stats.attn_prefill.median", 1e-3, optional=True)
    decode_s = table.times("time_stats.attn_decode.median", 1e-3, optional=True)
    new = chunk.zip_with(prefill, chunk * 0 + 1)
    rows = attention_samples(
        table,
        batch=table.numbers("batch_size"),
        heads=heads / ranks,
        kv_heads=(kv_heads / ranks).clip(lower_bound=1),
        head_dim=table.numbers("n_embd") / heads,
        query_tokens=new,
        context_tokens=cache + new,
        seconds=prefill_s.zip_with(prefill, decode_s),
    )
    return rows.filter((pl.col("seconds") > 0) & (pl.col("query_tokens") > 0))


@reads("Vidur or Frontier network", "collective num_workers devices_per_node size", "collectives")
def network(table: RawTable) -> pl.DataFrame:
    """Collectives: bytes; the median over ranks and repeats of a size."""
    kinds = table.words("collective", COLLECTIVES)
    printed = table.text("collective")
    seconds = pl.Series([None] * len(kinds), dtype=pl.Float64)
    for kind in printed.unique():
        if (name := f"time_stats.{kind}.median") in table.columns:
            seconds = table.times(name, 1e-3, optional=True).zip_with(printed == kind, seconds)
    rows = table.samples(
        kernel=kinds,
        ranks=table.numbers("num_workers", least=2),
        **table.sizes(ranks_per_node="devices_per_node", bytes="size"),
        seconds=seconds,
    ).filter(pl.col("seconds") > 0)
    keys = ["kernel", "ranks", "ranks_per_node", "bytes", "library", "device"]
    return rows.group_by(keys, maintain_order=True).agg(pl.col("row").first(), pl.col("seconds").median()).sort(keys)
