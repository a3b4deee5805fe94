"""Readers of casys-kaist/LLMServingSim's profiles, which time layers by name: ``--model`` says their shapes."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from sightline.calibration.readers.raw_table import (
    PHASES,
    RawTable,
    Stream,
    attention_samples,
    in_order,
    reads,
    stream_samples,
)
from sightline.errors import InputError
from sightline.scenario import Model

UNFUSED_NORM, UNFUSED_ROPE, UNFUSED_ACTIVATION = (18.0, 7.0), (9.0, 10.0), (5.0, 2.0)
"""16-bit tensors and kernels of Transformers' RMSNorm in fp32, rotary embedding and gated activation."""
SAMPLER = (6.0, 4.0)
"""16-bit tensors of the logits' size and kernels: a cast to fp32, a pass for the maximum, one for the choice."""
_DENSE, _SEQUENCES = "layer tokens time_us", "layer sequences time_us"
_LAYERS = "layer_name input kv_cache tp_size latency(ns)"
_RANKS = re.compile(r"_tp(\d+)(?:_|$)")


@reads("LLMServingSim dense", _DENSE, "matmul", repeats=True)
@reads("LLMServingSim per sequence", _SEQUENCES, "matmul", repeats=True)
@reads("LLMServingSim layers", _LAYERS, "matmul", repeats=True)
def matmul(table: RawTable) -> pl.DataFrame:
    """The linear layers that a table names; those of the first version are Transformers'."""
    layers = _layers(table)
    m = layers.tokens
    return _by_name(
        layers,
        {
            name: layers.table.samples(kernel="16-bit", m=m, n=m * 0 + n, k=m * 0 + k, seconds=layers.seconds)
            for name, (n, k) in _linear_layers(_model(table), layers.ranks).items()
        },
    )


@reads("LLMServingSim dense", _DENSE, "elementwise")
@reads("LLMServingSim per sequence", _SEQUENCES, "elementwise")
def elementwise(table: RawTable) -> pl.DataFrame:
    """The same tables' other kernels; norms add the residual in place, the embedding of equal tokens is left out."""
    layers, model = _layers(table), _model(table)
    ranks = layers.ranks
    norm = Stream("norm", model.hidden_size, 4.0, distinct=2.0)
    return _streams(
        layers,
        {
            "layernorm": norm,
            "final_layernorm": norm,
            "rotary_emb": Stream("rope", _rotated(model) / ranks, 2.0),
            "act_fn": Stream("activation", _width(model) / ranks, 3.0),
            "sampler": Stream("sampling", model.vocab_size, SAMPLER[0], launches=SAMPLER[1]),
        },
    )


@reads("LLMServingSim layers", _LAYERS, "elementwise")
def eager_elementwise(table: RawTable) -> pl.DataFrame:
    """The other kernels of the first version's: several eager kernels each, but for layer norms."""
    layers, model = _layers(table), _model(table)
    ranks = layers.ranks
    tensors, launches = UNFUSED_NORM if model.norm == "rmsnorm" else (2.0, 1.0)
    norm = Stream("norm", model.hidden_size, tensors, launches=launches)
    return _streams(
        layers,
        {
            "embedding": Stream("embedding", model.hidden_size, 2.0),
            **dict.fromkeys(("input_layernorm", "post_layernorm", "final_layernorm"), norm),
            "rope": Stream("rope", _rotated(model) / ranks, UNFUSED_ROPE[0], launches=UNFUSED_ROPE[1]),
            "act_fn": Stream(
                "activation", _width(model) / ranks, UNFUSED_ACTIVATION[0], launches=UNFUSED_ACTIVATION[1]
            ),
        },
    )


@reads("LLMServingSim layers", _LAYERS, PHASES[0])
def layers_attention(table: RawTable) -> pl.DataFrame:
    """The first version's attention of whole prompts."""
    prompts = _layers(table.where((table.text("layer_name") == "attn") & (table.numbers("input") > 1)))
    return _attention(prompts.table, prompts.tokens, prompts.tokens, 1.0, prompts.seconds, prompts.ranks)


@reads("LLMServingSim attention", "prefill_chunk kv_prefill n_decode kv_decode time_us", *PHASES[:2])
def attention(table: RawTable) -> pl.DataFrame:
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
    new: pl.Series,
    context: pl.Series,
    batch: pl.Series | float,
    seconds: pl.Series,
    ranks: pl.Series | float,
) -> pl.DataFrame:
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


class Layers(NamedTuple):
    """A table of layers by their names."""

    table: RawTable
    names: pl.Series
    tokens: pl.Series
    """Tokens, or sequences."""
    seconds: pl.Series
    ranks: pl.Series | float


def _layers(table: RawTable) -> Layers:
    """A table's layers: microseconds by tokens or sequences, or nanoseconds of the first version's whole prompts."""
    if "layer_name" in table.columns:
        table = table.where(table.numbers("kv_cache", least=0) == 0)
        tokens, ranks = table.numbers("input"), table.numbers("tp_size")
        return Layers(table, table.text("layer_name"), tokens, table.times("latency(ns)", 1e-9), ranks)
    tokens = table.numbers("tokens" if "tokens" in table.columns else "sequences")
    return Layers(table, table.text("layer"), tokens, table.times("time_us", 1e-6), _ranks(table))


def _by_name(layers: Layers, samples: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The samples of each layer where the table names it."""
    return in_order([rows.filter((layers.names == name).fill_null(value=False)) for name, rows in samples.items()])


def _streams(layers: Layers, kinds: Mapping[str, Stream]) -> pl.DataFrame:
    """Samples of the layers that are bandwidth-bound kernels."""
    table, tokens, seconds = layers.table, layers.tokens, layers.seconds
    return _by_name(layers, {name: stream_samples(table, stream, tokens, seconds) for name, stream in kinds.items()})


def _linear_layers(model: Model, ranks: pl.Series | float) -> Mapping[str, tuple[pl.Series | float, pl.Series | float]]:
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
