"""Readers of tables of kernels: APEX+, nccl-tests, ml-engineering, LLMCompass, DeepBench, FlashAttention's charts.

And of Sightline's own results of single operators, whose nested keys are joined by dots.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps

import polars as pl

from sightline.calibration.readers import raw_table
from sightline.errors import InputError
from sightline.prediction.single_operators import KERNELS
from sightline.program.shapes import ELEMENT_BYTES
from sightline.scenario.cluster import COLLECTIVES as KINDS_OF_COLLECTIVES

_LLMCOMPASS = {"softmax": "softmax", "layernorm": "norm", "gelu": "activation"}
_BINARY = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}


@raw_table.reads("FlashAttention charts", "gpu implementation pass causal head_dim seq_len tflops", "attention")
def flash_attention(table: raw_table.RawTable) -> pl.DataFrame:
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


@raw_table.reads("LLMCompass operators", "op gpu M N_or_K throughput", "elementwise")
def llmcompass(table: raw_table.RawTable) -> pl.DataFrame:
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
        raw_table.stream_samples(table, raw_table.Stream(kind, width, 2.0), rows, seconds)
        .with_columns(pl.col("tensors") * bits / 16, pl.col("distinct") * bits / 16, launch_s.alias("launch_s"))
        .with_columns(table.text("gpu").alias("device"))
        .filter(table.text("op") == name)
        for name, kind in _LLMCOMPASS.items()
    ]
    return raw_table.in_order(parts)


@raw_table.reads("ml-engineering all-reduce", "payload algbw_GBps ranks ranks_per_node", "collectives")
def all_reduce_bench(table: raw_table.RawTable) -> pl.DataFrame:
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


@raw_table.reads("APEX+ collectives", "gpu num_nodes num_gpus_per_node dtype size(kb) time(us)", "collectives")
def apex(table: raw_table.RawTable) -> pl.DataFrame:
    """APEX+: sizes in KB of 1024 bytes and whole microseconds, 16-bit alone; sizes rounded to 0 are left out.

    A ``collective`` column says the kind; APEX+ itself states it at the end of its files' names alone.
    """
    if "collective" in table.columns:
        kind = table.words("collective", raw_table.COLLECTIVES)
    else:
        said = next(
            (ours for theirs, ours in raw_table.COLLECTIVES.items() if table.path.stem.lower().endswith(theirs)), None
        )
        if said is None:
            raise InputError(
                f"'{table.path}' does not state its collective; needed: a column collective with one of "
                f"{', '.join(sorted(set(raw_table.COLLECTIVES.values())))}"
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


@raw_table.reads("nccl-tests output", "nccl_tests bytes time_us ranks", "collectives")
def nccl_tests(table: raw_table.RawTable) -> pl.DataFrame:
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


@raw_table.reads("DeepBench products", "gpu precision_sheet M N K transA transB time_ms", "matmul", weight_copies=1)
def deepbench(table: raw_table.RawTable) -> pl.DataFrame:
    """Products of baidu-research/DeepBench with 16-bit inputs; matrices lie column by column."""
    table = table.where(table.text("precision_sheet").str.starts_with(HALF))
    m, n, k = ((table.numbers(name) / PADDED).ceil() * PADDED for name in ("N", "M", "K"))
    return table.samples(kernel="16-bit", m=m, n=n, k=k, seconds=table.times("time_ms", 1e-3), device=table.text("gpu"))


@raw_table.reads("LLMCompass products", "op gpu M N_or_K N time time_unit", "matmul", weight_copies=1)
def llmcompass_products(table: raw_table.RawTable) -> pl.DataFrame:
    """PyTorch's fp16 products in PrincetonUniversity/LLMCompass that are longer than their launch."""
    table = table.where(table.text("op") == "matmul")
    table = table.where(table.times("time", 1e-3) > LAUNCHED_S)
    sizes = table.sizes(m="M", k="N_or_K", n="N")
    return table.samples(kernel="16-bit", **sizes, seconds=table.times("time", 1e-3), device=table.text("gpu"))


@raw_table.reads("ml-engineering best products", "accelerator mamf_tflops theory_tflops best_shape_MxNxK", "matmul")
def best_products(table: raw_table.RawTable) -> pl.DataFrame:
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


_WORKLOAD = "scenario.workload."
_DTYPE = f"{_WORKLOAD}dtype"
_WIDE = ("fp32", "tf32")
"""Types that no constants of matmuls and attention are for."""
_HOW = "measurement.implementation"
_DIRECTION = "scenario.workload.direction"
"""Of copies between host and device, which no kernel of the device makes."""
_OF_PROCESSORS = ("recorded", "backward", "clipped", "input-gradient", "weight-gradient")
"""Ways of measuring that a processor's own part is fitted to."""
_FORMAT = ("Sightline results", "scenario.workload.operator time_s")


def _results_of(*operators: str, wide: bool = True) -> Callable[[raw_table.Read], raw_table.Read]:
    """Let a reader see the measured results of some operators alone, without ``wide`` types where it is False.

    Predictions are refused, which would be fitted to themselves.
    """

    def only_those(read: raw_table.Read) -> raw_table.Read:
        @wraps(read)
        def checked(table: raw_table.RawTable) -> pl.DataFrame:
            mine = table.where(table.text(f"{_WORKLOAD}operator").is_in(operators).fill_null(value=False))
            if _HOW in mine.columns and mine.frame.height:
                mine = mine.where(~mine.text(_HOW).is_in(_OF_PROCESSORS).fill_null(value=False))
            if _DIRECTION in mine.columns and mine.frame.height:
                mine = mine.where(mine.text(_DIRECTION).is_null())
            if "source" in mine.columns and (mine.frame["source"] == "predicted").any():
                raise InputError(f"'{table.path}' has predicted times; measured times are required")
            if not wide:
                mine = mine.where(~mine.text(_DTYPE).is_in(_WIDE).fill_null(value=False))
            return read(mine) if mine.frame.height else mine.samples(seconds=0.0)

        return checked

    return only_those


@raw_table.reads(*_FORMAT, "matmul")
@_results_of("matmul", wide=False)
def matmul(part: raw_table.RawTable) -> pl.DataFrame:
    """Measured products in formats of 16 bits and less; a batch of equal ones is no product of these constants."""
    batch = f"{_WORKLOAD}batch"
    if batch in part.columns:
        part = part.where(part.numbers(batch, optional=True).fill_null(1.0) == 1)
    kernel = part.words(_DTYPE, raw_table.MATMULS)
    if (column := f"{_WORKLOAD}format") in part.columns:
        kernel = part.text(column).fill_null(kernel)
    sizes = part.sizes(**{name: _WORKLOAD + name for name in ("m", "n", "k")})
    return part.samples(kernel=kernel, **sizes, **_said(part))


@raw_table.reads(*_FORMAT, *raw_table.PHASES)
@_results_of("attention", wide=False)
def attention(part: raw_table.RawTable) -> pl.DataFrame:
    """Measured causal attention without windows, over caches of 16-bit or fp8 elements."""
    for column, wanted in ((f"{_WORKLOAD}causal", "true"), (f"{_WORKLOAD}window", None)):
        if column in part.columns:
            part = part.where(part.text(column).str.to_lowercase().eq_missing(wanted))
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    stated = part.sizes(**{name: _WORKLOAD + name for name in names})
    value, cache, latent = (f"{_WORKLOAD}{name}" for name in ("value_dim", "kv_dtype", "latent"))
    if value in part.columns:
        stated["value_dim"] = part.numbers(value, optional=True).fill_null(stated["head_dim"])
    if cache in part.columns:
        filled = replace(part, frame=part.frame.with_columns(part.text(cache).fill_null("bf16")))
        stated["kernel"] = filled.words(cache, raw_table.CACHES)
    if latent in part.columns:
        stated["latent"] = part.text(latent).str.to_lowercase().eq_missing("true")
    return raw_table.attention_samples(part, **stated, **_said(part))


@raw_table.reads(*_FORMAT, "elementwise")
@_results_of(*KERNELS)
def elementwise(part: raw_table.RawTable) -> pl.DataFrame:
    """Measured bandwidth-bound kernels, each one fused kernel over so many elements."""
    what = [KERNELS[str(name)] for name in part.text(f"{_WORKLOAD}operator")]  # type: ignore[index]
    widths = [ELEMENT_BYTES.get(str(dtype), 2.0) for dtype in part.text(_DTYPE)]
    tensors = pl.Series([k.bytes_per_element(b) / 2 for k, b in zip(what, widths, strict=True)])
    return part.samples(
        kernel=pl.Series([k.kind for k in what]),
        generation="vectorized",
        tokens=part.numbers(f"{_WORKLOAD}elements"),
        width=1.0,
        tensors=tensors,
        distinct=tensors,
        launches=pl.Series([k.kernels for k in what]),
        **_said(part),
    )


@raw_table.reads(*_FORMAT, "collectives")
@_results_of(*KINDS_OF_COLLECTIVES)
def collectives(part: raw_table.RawTable) -> pl.DataFrame:
    """Measured collectives over a whole cluster."""
    return part.samples(
        kernel=part.text(f"{_WORKLOAD}operator"),
        ranks=part.numbers("scenario.cluster.devices", least=2),
        **part.sizes(ranks_per_node="scenario.cluster.per_node", bytes=f"{_WORKLOAD}bytes"),
        **_said(part),
    )


def _said(part: raw_table.RawTable) -> dict[str, pl.Series | str]:
    device = "scenario.cluster.device.name"
    return {
        "seconds": part.times("time_s", 1.0),
        "library": "",
        "device": part.text(device) if device in part.columns else "",
    }
