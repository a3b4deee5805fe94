"""Readers of the tables of ai-dynamo/aiconfigurator: milliseconds inside one node, elements of messages."""

import polars as pl

from sightline.calibration.readers.raw_table import (
    CACHES,
    COLLECTIVES,
    MATMULS,
    NO_WINDOW,
    PHASES,
    RawTable,
    attention_samples,
    reads,
)

_ELEMENT_BYTES = {"half": 2.0, "bfloat16": 2.0, "float16": 2.0, "int8": 1.0}
_SUMS = ("all_reduce", "reduce_scatter")


@reads("AIConfigurator gemm", "gemm_dtype m n k latency", "matmul")
def matmul(table: RawTable) -> pl.DataFrame:
    """Gemm tables: one product with cold operands."""
    return table.samples(
        kernel=table.words("gemm_dtype", MATMULS),
        **table.sizes(m="m", n="n", k="k"),
        seconds=table.times("latency", 1e-3),
    )


@reads("AIConfigurator attention", "batch_size isl num_heads num_key_value_heads head_dim step latency", *PHASES[:2])
def attention(table: RawTable) -> pl.DataFrame:
    """Context and generation tables: ``step`` tokens are in the cache before ``isl`` new ones.

    No heads of keys and values means as many as heads; no window an unlimited one.
    """
    sizes = table.sizes(batch="batch_size", heads="num_heads", head_dim="head_dim", query_tokens="isl")
    kv_heads, step = (table.numbers(name, least=0) for name in ("num_key_value_heads", "step"))
    window = table.numbers("window_size", least=0) if "window_size" in table.columns else step * 0
    return attention_samples(
        table,
        kernel=table.words("kv_cache_dtype", CACHES) if "kv_cache_dtype" in table.columns else "16-bit cache",
        **sizes,
        kv_heads=sizes["heads"].zip_with(kv_heads == 0, kv_heads),
        context_tokens=sizes["query_tokens"] + step,
        window=(window * 0 + NO_WINDOW).zip_with(window == 0, window),
        seconds=table.times("latency", 1e-3),
    )


@reads("AIConfigurator nccl", "op_name nccl_dtype num_gpus message_size latency", "collectives")
@reads("AIConfigurator custom_allreduce", "op_name allreduce_dtype num_gpus message_size latency", "collectives")
def collectives(table: RawTable) -> pl.DataFrame:
    """Tables nccl and custom_allreduce, whose ``message_size`` counts elements.

    Sums count in 16-bit floats alone: 8-bit integers add more slowly and not in the switch. Copies do not know the
    type, so they count in both. Of tables joined from several folders, the folder tells the library's release.
    """
    dtype = table.text("nccl_dtype" if "nccl_dtype" in table.columns else "allreduce_dtype")
    ranks, kinds = table.numbers("num_gpus", least=2), table.words("op_name", COLLECTIVES)
    library: dict[str, pl.Series | str] = {}
    if "path" in table.columns:
        folders = table.text("path").str.split("/")
        library["library"] = folders.list.get(2, null_on_oob=True) + " " + folders.list.get(3, null_on_oob=True)
        if "kernel_source" in table.columns and "allreduce_dtype" in table.columns:
            library["library"] = library["library"] + " " + table.text("kernel_source")
    rows = table.samples(
        kernel=kinds,
        ranks=ranks,
        ranks_per_node=ranks,
        bytes=table.numbers("message_size") * dtype.replace_strict(_ELEMENT_BYTES, default=0, return_dtype=pl.Float64),
        seconds=table.times("latency", 1e-3),
        dtype=dtype,
        **library,
    )
    counted = (pl.col("dtype") != "int8") | ~pl.col("kernel").is_in(_SUMS)
    return rows.filter(pl.col("dtype").is_in(list(_ELEMENT_BYTES)) & counted).drop("dtype")
