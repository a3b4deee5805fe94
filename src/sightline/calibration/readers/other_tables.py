"""Readers of single tables: APEX+, nccl-tests, ml-engineering, LLMCompass, FlashAttention's charts."""

import polars as pl

from sightline.calibration.readers.raw_table import COLLECTIVES, RawTable, Stream, in_order, reads, stream_samples
from sightline.errors import InputError

_LLMCOMPASS = {"softmax": "softmax", "layernorm": "norm", "gelu": "activation"}
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


@reads("FlashAttention charts", "gpu implementation pass causal head_dim seq_len tflops", "attention")
def flash_attention(table: RawTable) -> pl.DataFrame:
    """The bars of Dao-AILab/flash-attention's charts: FLOP/s of fused attention, forward alone or both passes.

    Its benchmarks keep 16,384 tokens and a hidden size of 2,048, and count ``4 b a s^2 d`` FLOPs forward, halved when
    causal, 3.5 times that for both passes (flash-attention, benchmarks/benchmark_flash_attention.py).
    """
    head_dim, tokens = table.numbers("head_dim"), table.numbers("seq_len")
    causal, both = table.text("causal") == "1", table.text("pass").str.contains("bwd")
    heads, batch = 2048 / head_dim, 16384 / tokens
    flops = 4 * batch * heads * tokens**2 * head_dim
    flops = (flops * 0.5).zip_with(causal, flops)
    flops = (flops * 3.5).zip_with(both, flops)
    return table.samples(
        kernel=table.text("implementation"),
        batch=batch,
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim,
        query_tokens=tokens,
        causal=causal,
        backward=both,
        seconds=flops / (table.numbers("tflops", least=0) * 1e12),
        device=table.text("gpu"),
    )


@reads("LLMCompass operators", "op gpu M N_or_K throughput", "elementwise")
def llmcompass(table: RawTable) -> pl.DataFrame:
    """PyTorch's kernels in PrincetonUniversity/LLMCompass: billions of elements per second, launches included.

    Elements are of 16 bits unless a column ``element_bits`` says otherwise; a column ``launch_s`` says what of the
    times was the launch.
    """
    operators = table.text("op")
    table = table.where(operators.is_in(list(_LLMCOMPASS)))
    rows, width = table.numbers("M"), table.numbers("N_or_K", least=0, optional=True).fill_null(1.0).clip(lower_bound=1)
    seconds = rows * width / (table.numbers("throughput", least=0) * 1e9)
    stated = {"element_bits": 16.0, "launch_s": 0.0}
    bits, launch_s = (table.numbers(c, least=0) if c in table.columns else rows * 0 + v for c, v in stated.items())
    parts = [
        stream_samples(table, Stream(kind, width, 2.0), rows, seconds)
        .with_columns(pl.col("tensors") * bits / 16, pl.col("distinct") * bits / 16, launch_s.alias("launch_s"))
        .with_columns(table.text("gpu").alias("device"))
        .filter(table.text("op") == name)
        for name, kind in _LLMCOMPASS.items()
    ]
    return in_order(parts)


@reads("ml-engineering all-reduce", "payload algbw_GBps ranks ranks_per_node", "collectives")
def all_reduce_bench(table: RawTable) -> pl.DataFrame:
    """The all-reduce sweep of stas00/ml-engineering: payload and algorithm bandwidth, GB of 1e9 bytes per second."""
    payload, unit = table.text("payload").str.head(-3), table.text("payload").str.tail(3)
    size = payload.cast(pl.Float64) * unit.replace_strict(_BINARY, return_dtype=pl.Float64)
    return table.samples(
        kernel="all_reduce",
        ranks=table.numbers("ranks", least=2),
        ranks_per_node=table.numbers("ranks_per_node"),
        bytes=size,
        seconds=size / (table.numbers("algbw_GBps", least=0) * 1e9),
    )


@reads("APEX+ collectives", "gpu num_nodes num_gpus_per_node dtype size(kb) time(us)", "collectives")
def apex(table: RawTable) -> pl.DataFrame:
    """APEX+: sizes in KB of 1024 bytes and whole microseconds, 16-bit alone; sizes rounded to 0 are left out.

    A ``collective`` column says the kind; APEX+ itself states it at the end of its files' names alone.
    """
    if "collective" in table.columns:
        kind = table.words("collective", COLLECTIVES)
    else:
        said = next((ours for theirs, ours in COLLECTIVES.items() if table.path.stem.lower().endswith(theirs)), None)
        if said is None:
            raise InputError(
                f"'{table.path}' does not say which collective it times: it needs a column collective with one of"
                f" {', '.join(sorted(set(COLLECTIVES.values())))}"
            )
        kind = pl.Series([said] * table.frame.height)
    per_node = table.numbers("num_gpus_per_node")
    rows = table.samples(
        kernel=kind,
        dtype=table.text("dtype"),
        ranks=per_node * table.numbers("num_nodes"),
        ranks_per_node=per_node,
        bytes=table.numbers("size(kb)", least=0) * 1024,
        seconds=table.times("time(us)", 1e-6, optional=True),
        device=table.text("gpu"),
    )
    return rows.filter((pl.col("bytes") > 0) & (pl.col("seconds") > 0) & (pl.col("dtype") == "half")).drop("dtype")


@reads("nccl-tests output", "nccl_tests bytes time_us ranks", "collectives")
def nccl_tests(table: RawTable) -> pl.DataFrame:
    """NVIDIA/nccl-tests: bytes as the program counts them, microseconds out of place."""
    return table.samples(
        kernel=table.text("nccl_tests"),
        ranks=table.numbers("ranks", least=2),
        **table.sizes(ranks_per_node="ranks_per_node", bytes="bytes"),
        seconds=table.times("time_us", 1e-6),
    )


HALF = "FP16"
"""How DeepBench's sheets of products with 16-bit inputs begin."""
PADDED = 8
"""Elements to whose multiples DeepBench pads 16-bit matrices before it multiplies them on tensor cores."""
LAUNCHED_S = 2e-4
"""Products of LLMCompass that are shorter time PyTorch's launch and synchronization."""


@reads("DeepBench products", "gpu precision_sheet M N K transA transB time_ms", "matmul")
def deepbench(table: RawTable) -> pl.DataFrame:
    """Products of baidu-research/DeepBench with 16-bit inputs; matrices lie column by column."""
    table = table.where(table.text("precision_sheet").str.starts_with(HALF))
    m, n, k = ((table.numbers(name) / PADDED).ceil() * PADDED for name in ("N", "M", "K"))
    return table.samples(kernel="16-bit", m=m, n=n, k=k, seconds=table.times("time_ms", 1e-3), device=table.text("gpu"))


@reads("LLMCompass products", "op gpu M N_or_K N time time_unit", "matmul")
def llmcompass_products(table: RawTable) -> pl.DataFrame:
    """PyTorch's fp16 products in PrincetonUniversity/LLMCompass that are longer than their launch."""
    table = table.where(table.text("op") == "matmul")
    table = table.where(table.times("time", 1e-3) > LAUNCHED_S)
    sizes = table.sizes(m="M", k="N_or_K", n="N")
    return table.samples(kernel="16-bit", **sizes, seconds=table.times("time", 1e-3), device=table.text("gpu"))


@reads("ml-engineering best products", "accelerator mamf_tflops theory_tflops best_shape_MxNxK", "matmul")
def best_products(table: RawTable) -> pl.DataFrame:
    """The fastest product of each accelerator in stas00/ml-engineering, in its 16-bit or fp8 format."""
    table = table.where(table.text("mamf_tflops").str.contains(r"\d").fill_null(value=False))
    shape = table.text("best_shape_MxNxK").str.split("x")
    m, n, k = (shape.list.get(i).cast(pl.Float64) for i in range(3))
    return table.samples(
        kernel="16-bit",
        m=m,
        n=n,
        k=k,
        seconds=2 * m * n * k / (table.numbers("mamf_tflops", least=0) * 1e12),
        device=table.text("accelerator"),
    )
