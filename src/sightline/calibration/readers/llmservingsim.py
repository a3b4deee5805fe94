"""Readers of casys-kaist/LLMServingSim's profiles, which time a model's layers by name: ``--model`` says their shapes."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sightline.calibration.readers.raw_table import RawTable
from sightline.calibration.readers.vocabulary import PHASES, Stream, attention_samples, in_order, reads, streams
from sightline.errors import InputError
from sightline.scenario import Model

if TYPE_CHECKING:
    import polars as pl

UNFUSED_NORM, UNFUSED_ROPE, UNFUSED_ACTIVATION = (18.0, 7.0), (9.0, 10.0), (5.0, 2.0)
"""16-bit tensors and kernels of Transformers' RMSNorm in fp32, rotary embedding and gated activation."""
SAMPLER = (6.0, 4.0)
"""16-bit tensors of the logits' size and kernels: a cast to fp32, a pass for the maximum, one for the choice."""
_LAYERS = "layer_name input kv_cache tp_size latency(ns)"
_RANKS = re.compile(r"_tp(\d+)(?:_|$)")


@reads("LLMServingSim dense", "layer tokens time_us", "matmul", repeats=True)
def dense_matmul(table: RawTable) -> "pl.DataFrame":
    """Tables dense: microseconds of the linear layers by tokens."""
    return _matmuls(table, "layer", "tokens", table.times("time_us", 1e-6), _ranks(table))


@reads("LLMServingSim dense", "layer tokens time_us", "elementwise")
def dense_elementwise(table: RawTable) -> "pl.DataFrame":
    """The same table's other kernels; norms add the residual in place, the embedding of equal tokens is left out."""
    model, ranks = _model(table), _ranks(table)
    norm = Stream("norm", model.hidden_size, 4.0, distinct=2.0)
    kinds = {
        "layernorm": norm,
        "final_layernorm": norm,
        "rotary_emb": Stream("rope", _rotated(model) / ranks, 2.0),
        "act_fn": Stream("activation", _width(model) / ranks, 3.0),
    }
    return streams(table, "layer", "tokens", table.times("time_us", 1e-6), kinds)


@reads("LLMServingSim per sequence", "layer sequences time_us", "matmul", repeats=True)
def sequence_matmul(table: RawTable) -> "pl.DataFrame":
    """Tables per sequence: microseconds of the head by sequences."""
    return _matmuls(table, "layer", "sequences", table.times("time_us", 1e-6), _ranks(table))


@reads("LLMServingSim per sequence", "layer sequences time_us", "elementwise")
def sequence_elementwise(table: RawTable) -> "pl.DataFrame":
    """The same table's sampler: passes over fp32 logits."""
    tensors, launches = SAMPLER
    kinds = {"sampler": Stream("sampling", _model(table).vocab_size, tensors, launches=launches)}
    return streams(table, "layer", "sequences", table.times("time_us", 1e-6), kinds)


@reads("LLMServingSim layers", _LAYERS, "matmul", repeats=True)
def layers_matmul(table: RawTable) -> "pl.DataFrame":
    """Tables layers of the first version: nanoseconds of Transformers' linear layers."""
    whole = _whole_prompts(table)
    return _matmuls(whole, "layer_name", "input", whole.times("latency(ns)", 1e-9), whole.numbers("tp_size"))


@reads("LLMServingSim layers", _LAYERS, "elementwise")
def layers_elementwise(table: RawTable) -> "pl.DataFrame":
    """The same table's other kernels: eager chains, but for layer norms."""
    table = _whole_prompts(table)
    model, ranks = _model(table), table.numbers("tp_size")
    tensors, launches = UNFUSED_NORM if model.norm == "rmsnorm" else (2.0, 1.0)
    norm = Stream("norm", model.hidden_size, tensors, launches=launches)
    kinds = {
        "embedding": Stream("embedding", model.hidden_size, 2.0),
        **dict.fromkeys(("input_layernorm", "post_layernorm", "final_layernorm"), norm),
        "rope": Stream("rope", _rotated(model) / ranks, UNFUSED_ROPE[0], launches=UNFUSED_ROPE[1]),
        "act_fn": Stream("activation", _width(model) / ranks, UNFUSED_ACTIVATION[0], launches=UNFUSED_ACTIVATION[1]),
    }
    return streams(table, "layer_name", "input", table.times("latency(ns)", 1e-9), kinds)


@reads("LLMServingSim layers", _LAYERS, PHASES[0])
def layers_attention(table: RawTable) -> "pl.DataFrame":
    """The same table's attention of whole prompts."""
    table = _whole_prompts(table)
    table = table.where((table.text("layer_name") == "attn") & (table.numbers("input") > 1))
    tokens = table.numbers("input")
    return _attention(table, tokens, tokens, 1.0, table.times("latency(ns)", 1e-9), table.numbers("tp_size"))


@reads("LLMServingSim attention", "prefill_chunk kv_prefill n_decode kv_decode time_us", *PHASES[:2])
def attention(table: RawTable) -> "pl.DataFrame":
    """Tables attention: microseconds of a chunk or of a step; those of both together are left out."""
    chunk, steps = table.numbers("prefill_chunk", least=0), table.numbers("n_decode", least=0)
    table = table.where((chunk > 0) != (steps > 0))
    chunk, steps = table.numbers("prefill_chunk", least=0), table.numbers("n_decode", least=0)
    prompt = chunk > 0
    new = chunk.zip_with(prompt, chunk * 0 + 1)
    batch = steps.zip_with(~prompt, steps * 0 + 1)
    cached = (table.numbers("kv_prefill", least=0) + chunk).zip_with(prompt, table.numbers("kv_decode", least=0))
    return _attention(table, new, cached, batch, table.times("time_us", 1e-6), _ranks(table))


def _attention(
    table: RawTable,
    new: "pl.Series",
    context: "pl.Series",
    batch: "pl.Series | float",
    seconds: "pl.Series",
    ranks: "pl.Series | float",
) -> "pl.DataFrame":
    import polars as pl

    model = _model(table)
    rows = attention_samples(
        table,
        batch=batch,
        heads=model.heads / ranks,
        kv_heads=model.kv_heads / ranks,
        head_dim=float(model.head_dim),
        query_tokens=new,
        context_tokens=context,
        seconds=seconds,
    )
    return rows.with_columns(pl.col("kv_heads").clip(lower_bound=1))


def _matmuls(
    table: RawTable, layer: str, tokens: str, seconds: "pl.Series", ranks: "pl.Series | float"
) -> "pl.DataFrame":
    """Products of the linear layers that the table names."""
    names, m = table.text(layer), table.numbers(tokens)
    ones = m * 0 + 1
    parts = []
    for name, (n, k) in _linear_layers(_model(table), ranks).items():
        rows = table.samples(kernel="16-bit", m=m, n=ones * n, k=ones * k, seconds=seconds)
        parts.append(rows.filter((names == name).fill_null(value=False)))
    return in_order(parts)


def _linear_layers(
    model: Model, ranks: "pl.Series | float"
) -> "Mapping[str, tuple[pl.Series | float, pl.Series | float]]":
    """Columns and depth of each product by the layer's name; a mixture's experts are left out."""
    h, f, d = float(model.hidden_size), float(model.intermediate_size), float(model.head_dim)
    query, key = model.heads * d / ranks, model.kv_heads * d / ranks
    dense = {
        "gate_up_proj": (2 * f / ranks, h),
        "gate_proj": (f / ranks, h),
        "up_proj": (f / ranks, h),
        "down_proj": (h, f / ranks),
    }
    return {
        "qkv_proj": (query + 2 * key, h),
        "q_proj": (query, h),
        "k_proj": (key, h),
        "v_proj": (key, h),
        "o_proj": (h, query),
        "lm_head": (model.vocab_size / ranks, h),
        **(dense if model.experts is None else {}),
    }


def _whole_prompts(table: RawTable) -> RawTable:
    return table.where(table.numbers("kv_cache", least=0) == 0)


def _rotated(model: Model) -> float:
    return float((model.heads + model.kv_heads) * model.head_dim)


def _width(model: Model) -> float:
    return float(model.intermediate_size if model.experts is None else model.experts.width)


def _model(table: RawTable) -> Model:
    if table.model is None:
        raise InputError(f"'{table.path}' times layers of a model by their names; --model NAME says which model")
    return table.model


def _ranks(table: RawTable) -> float:
    """Degree of tensor parallelism, which the file's name says; one where it does not."""
    match = _RANKS.search(table.path.stem)
    return float(match[1]) if match else 1.0
