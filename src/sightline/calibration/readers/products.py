"""Readers of published products that no family was fitted to: DeepBench, LLMCompass, ml-engineering's best ones."""

import polars as pl

from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.vocabulary import reads

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
