"""Readers of matmul tables."""

from typing import TYPE_CHECKING

from sightline.calibration.raw_table import RawTable
from sightline.errors import InputError, nearest

if TYPE_CHECKING:
    import polars as pl

KERNELS = {
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
"""What tables call a number format, and what we call it."""


def named(table: RawTable, **columns: "pl.Series | pl.Expr | str | float") -> "pl.DataFrame":
    """The columns as a frame with each row's place, and the file's library and device where it states them."""
    import polars as pl

    places = range(table.frame.height) if table.rows is None else table.rows
    base = pl.DataFrame({"row": places}, schema={"row": pl.Int64})
    given = [pl.lit(c).alias(n) if isinstance(c, str | float | int) else c.alias(n) for n, c in columns.items()]
    return base.with_columns(*given)


def kernels(table: RawTable, column: str, known: dict[str, str]) -> "pl.Series":
    """A column of number formats in our words; an unknown one is named with those that are covered."""
    words = table.text(column)
    unknown = ~words.is_in(list(known)).fill_null(value=False)
    if unknown.any():
        row = int(unknown.arg_max() or 0)
        raise InputError(
            f"{table.place(row)}: {column} '{words[row]}' is not covered; covered: {', '.join(known)}"
            f"{nearest(words[row], list(known))}"
        )
    return words.replace_strict(known)


def aiconfigurator(table: RawTable) -> "pl.DataFrame":
    """ai-dynamo/aiconfigurator, gemm: milliseconds of one product with cold operands."""
    return named(
        table,
        kernel=kernels(table, "gemm_dtype", KERNELS),
        **{name: table.numbers(name) for name in ("m", "n", "k")},
        seconds=table.times("latency", 1e-3),
        **stated(table),
    )


def infersim(table: RawTable) -> "pl.DataFrame":
    """alibaba/InferSim, gemm: microseconds of DeepGEMM with fp8 blocks, unless a ``dtype`` column says otherwise."""
    kernel = kernels(table, "dtype", KERNELS) if "dtype" in table.columns else "fp8-block"
    return named(
        table,
        kernel=kernel,
        **{name: table.numbers(name) for name in ("m", "n", "k")},
        seconds=table.times("latency_us", 1e-6),
        **stated(table),
    )


def vidur(table: RawTable) -> "pl.DataFrame":
    """microsoft/vidur and Frontier, mlp: the linear layers of a transformer; milliseconds, medians over repeats.

    Gate and up projection are one product where the MLP is gated; tensor parallelism splits columns, then rows.
    """
    import polars as pl

    tokens, width, ffn = (table.numbers(c) for c in ("num_tokens", "n_embd", "n_expanded_embd"))
    ranks, heads, kv_heads = (table.numbers(c) for c in ("num_tensor_parallel_workers", "n_head", "n_kv_head"))
    gated = table.text("use_gated_mlp").str.to_lowercase() == "true"
    head_dim = width / heads
    shapes = {
        "attn_pre_proj": ((heads + 2 * kv_heads.clip(lower_bound=ranks)) * head_dim / ranks, width),
        "attn_post_proj": (width, width / ranks),
        "mlp_up_proj": (ffn * (1 + gated.cast(pl.Float64)) / ranks, width),
        "mlp_down_proj": (width, ffn / ranks),
    }
    parts = [
        named(
            table,
            kernel="16-bit",
            m=tokens,
            n=n,
            k=k,
            seconds=table.times(f"time_stats.{name}.median", 1e-3, optional=True),
            **stated(table),
        )
        for name, (n, k) in shapes.items()
        if f"time_stats.{name}.median" in table.columns
    ]
    rows = pl.concat(parts).filter(pl.col("seconds") > 0)
    keys = ["kernel", "m", "n", "k", "library", "device"]
    return rows.group_by(keys, maintain_order=True).agg(pl.col("row").first(), pl.col("seconds").median())


def infersim_grouped(table: RawTable) -> "pl.DataFrame":
    """alibaba/InferSim, grouped gemm: microseconds of the experts' up and down products in fp8 with block scales.

    Rows per expert were drawn around the stated number; ``mfu``, the share of the peak, tells how many there were.
    """
    import polars as pl

    hidden, width = table.numbers("hidden_size"), table.numbers("intermediate_size")
    parts = [
        named(
            table,
            kernel="masked" if "batch_size_per_gpu" in table.columns else "contiguous",
            experts=table.numbers("num_experts"),
            local_experts=table.numbers("num_local_experts"),
            rows_per_expert=table.numbers("tokens_per_expert"),
            mfu=table.numbers(f"{name}_mfu", least=0),
            n=n,
            k=k,
            seconds=table.times(f"{name}_proj_us", 1e-6),
            **stated(table),
        )
        for name, n, k in (("up", 2 * width, hidden), ("down", hidden, width))
    ]
    return pl.concat(parts)


def stated(table: RawTable) -> "dict[str, pl.Series | str]":
    """The library and the device, where the table has columns for them."""
    import polars as pl

    both = {"framework", "version"} <= table.columns
    library: pl.Series | str = ""
    if "library" in table.columns:
        library = table.text("library")
    elif both:
        library = table.text("framework") + " " + table.text("version")
    return {"library": library, "device": table.text("device") if "device" in table.columns else ""}
