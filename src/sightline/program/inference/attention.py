"""Mixers that attend: full and windowed attention with grouped heads, and multi-head latent attention."""

from dataclasses import replace
from typing import Final

import numpy as np

from sightline.program.address import Module
from sightline.program.inference.operators import CachedAttention
from sightline.program.inference.shapes import PassShapes
from sightline.program.mixer_operators import Indexer, SelectedAttention
from sightline.program.operators import Elementwise, Operator
from sightline.quantities import Number
from sightline.scenario import LayerKind

CORE: Final = "attention core"


def attention(x: PassShapes, kind: LayerKind) -> list[Operator]:
    """Multi-head, grouped-query or multi-query attention over all tokens, a window of the last, or selected ones."""
    model, heads = x.model, x.model.heads_of(kind)
    a, kv = heads.heads / x.t, np.maximum(heads.kv_heads / x.t, 1.0)
    query, keys = a * heads.head_dim, kv * heads.head_dim
    values = kv * heads.value_dim
    projected = 0.0 if heads.values_are_keys else values
    wide = query * (2.0 if model.attention_gate else 1.0)
    if x.fuses("qkv"):
        projections: list[Operator] = [x.linear("qkv", "qkv", wide + keys + projected, x.h)]
    else:
        projections = [
            x.linear("qkv", "query", wide, x.h),
            x.linear("qkv", "key, value", keys, x.h, count=1.0 if heads.values_are_keys else 2.0),
        ]
    grouped = x.engine.kernels.grouped_heads
    core = CachedAttention(
        module=CORE,
        part="attention",
        batch=x.b,
        heads=a,
        kv_heads=kv,
        heads_apart=x.decode and grouped is not None and heads.heads // heads.kv_heads not in grouped,
        head_dim=float(heads.head_dim),
        value_dim=float(heads.value_dim),
        query_tokens=x.q,
        context_tokens=x.c + x.q,
        window=float(model.window) if kind.mixer in ("sliding", "chunked") and model.window else None,
        decode=x.decode,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        cache_bytes=x.formats.cache_bytes,
        kernels=5.0 if x.engine.llama_cpp.writes_scores else 1.0,
    )
    return [
        *projections,
        *(_qk_norm(x, query + keys) if model.qk_norm else []),
        *([_rope(x, query + keys)] if model.positions == "rotary" else []),
        x.stream(CORE, "cache write", 2.0 * x.tokens * (keys + values)),
        *(_selection(x, kind)),
        *(
            _written_out(x, core)
            if x.engine.llama_cpp.writes_scores and not x.decode
            else [_of_selected(x, kind, core)]
        ),
        *([x.stream(CORE, "activation", 3.0 * x.tokens * query, part="gate")] if model.attention_gate else []),
        x.linear("output projection", "output", x.h, a * heads.value_dim),
    ]


def _qk_norm(x: PassShapes, width: Number) -> list[Operator]:
    """Norms of queries and keys; over all heads, ranks first add up a sum of squares of each per token, in fp32."""
    if not x.model.wide_qk_norm or not np.any(np.greater(x.t, 1.0)):
        return [x.stream("qkv", "norm", 2.0 * x.tokens * width, kernels=2.0)]
    return [
        x.stream("qkv", "norm", x.tokens * width, kernels=2.0, part="squares"),
        *x.collective("qkv", "all_reduce", 2.0 * 4.0 * x.tokens),
        x.stream("qkv", "norm", 2.0 * x.tokens * width, kernels=2.0),
    ]


def latent_attention(x: PassShapes, kind: LayerKind) -> list[Operator]:
    """Multi-head latent attention (arXiv 2405.04434): keys and values expanded for prompts, absorbed for decoding."""
    latent = x.model.latent
    if latent is None:
        raise ValueError(f"{x.model.name} has no latent attention")
    a, cached = x.model.heads / x.t, float(latent.kv_rank + latent.rope_head_dim)
    query = a * (latent.nope_head_dim + latent.rope_head_dim)
    if latent.query_rank:
        inputs: list[Operator] = [
            x.linear("qkv", "down", latent.query_rank + cached, x.h),
            x.stream("qkv", "norm", 2.0 * x.tokens * (latent.query_rank + latent.kv_rank), kernels=2.0),
            x.linear("qkv", "query up", query, float(latent.query_rank)),
        ]
    else:
        inputs = [
            x.linear("qkv", "query", query, x.h),
            x.linear("qkv", "down", cached, x.h),
            x.stream("qkv", "norm", 2.0 * x.tokens * latent.kv_rank),
        ]
    # Selected tokens differ by query, so sparse attention reads the latents in prefill too.
    core = _absorbed(x, a) if x.decode or kind.mixer == "sparse" else _expanded(x, a)
    return [
        *inputs,
        _rope(x, (a + 1.0) * latent.rope_head_dim),
        x.stream(CORE, "cache write", 2.0 * x.tokens * cached),
        *_selection(x, kind),
        *(_of_selected(x, kind, op) for op in core),
        x.linear("output projection", "output", x.h, a * latent.value_head_dim),
    ]


def compressed_attention(x: PassShapes, kind: LayerKind) -> list[Operator]:
    """DeepSeek V4's attention: one shared key/value head, the context folded, a window of the last tokens beside it."""
    model, low = x.model, x.model.compressed
    if low is None:
        raise ValueError(f"{model.name} has no compressed attention")
    a, dim, window = model.heads / x.t, float(model.head_dim), float(model.window or 0)
    context = x.c + x.q
    folded = context / kind.compression if kind.compression > 1 else 0.0 * context
    if kind.indexed and model.sparse is not None:
        folded = np.minimum(folded, model.sparse.selected_tokens)
    fold_width = dim * (4.0 if kind.indexed else 2.0)
    return [
        x.linear("qkv", "down", low.query_rank + dim + (fold_width if kind.compression > 1 else 0.0), x.h),
        x.stream("qkv", "norm", 2.0 * x.tokens * (low.query_rank + dim), kernels=2.0),
        x.linear("qkv", "query up", a * dim, float(low.query_rank)),
        _rope(x, (a + 1.0) * dim),
        x.stream(CORE, "cache write", 4.0 * x.tokens * dim),
        *_selection(x, kind),
        CachedAttention(
            module=CORE,
            part="attention",
            batch=x.b,
            heads=a,
            kv_heads=1.0,
            head_dim=dim,
            value_dim=dim,
            query_tokens=x.q,
            context_tokens=np.minimum(context, window + folded),
            shared_kv=True,
            decode=True,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
            cache_bytes=x.formats.cache_bytes,
        ),
        x.matmul(
            "output projection",
            "group down",
            x.tokens,
            float(low.output_rank),
            model.heads * dim / low.output_groups,
            x.formats.parts["attention"],
            batch=np.maximum(low.output_groups / x.t, 1.0),
        ),
        x.linear("output projection", "output", x.h, low.output_rank * low.output_groups / x.t),
    ]


def _expanded(x: PassShapes, a: Number) -> list[Operator]:
    """Each head's keys and values made from the latent of every token it sees."""
    latent = x.model.latent
    assert latent is not None  # noqa: S101 - narrowed by the caller
    key = float(latent.nope_head_dim + latent.rope_head_dim)
    expanded = a * (latent.nope_head_dim + latent.value_head_dim)
    seen = x.b * (x.c + x.q)
    return [
        x.matmul(CORE, "key, value up", seen, expanded, float(latent.kv_rank), x.formats.parts["attention"]),
        x.stream(CORE, "copy", 2.0 * seen * a * latent.rope_head_dim, part="join keys"),
        CachedAttention(
            module=CORE,
            part="attention",
            batch=x.b,
            heads=a,
            kv_heads=a,
            head_dim=key,
            value_dim=float(latent.value_head_dim),
            query_tokens=x.q,
            context_tokens=x.c + x.q,
            decode=False,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
            cache_bytes=x.element_bytes,
        ),
    ]


def _absorbed(x: PassShapes, a: Number) -> list[Operator]:
    """The up projections moved to queries and outputs, so that the cached latent serves as key and value of all heads."""
    latent = x.model.latent
    assert latent is not None  # noqa: S101 - narrowed by the caller
    rank = float(latent.kv_rank)
    plain = x.formats.plain  # engines keep the absorbed weights unquantized
    return [
        x.matmul(CORE, "absorb query", x.tokens, rank, float(latent.nope_head_dim), plain, batch=a),
        CachedAttention(
            module=CORE,
            part="attention",
            batch=x.b,
            heads=a,
            kv_heads=1.0,
            head_dim=rank + latent.rope_head_dim,
            value_dim=rank,
            query_tokens=x.q,
            context_tokens=x.c + x.q,
            shared_kv=True,
            decode=True,
            dtype=x.dtype,
            element_bytes=x.element_bytes,
            cache_bytes=x.formats.cache_bytes,
        ),
        x.matmul(CORE, "expand value", x.tokens, float(latent.value_head_dim), rank, plain, batch=a),
    ]


def _selection(x: PassShapes, kind: LayerKind) -> list[Operator]:
    """The indexer that scores cached tokens, and the choice of the best (DeepSeek V3.2); nothing without one."""
    sparse, latent = x.model.sparse, x.model.latent
    if sparse is None or not kind.indexed:
        return []
    low = latent or x.model.compressed
    source = float((low and low.query_rank) or x.h)
    # Folded keys have two of overlapping folds, and gates.
    keys = sparse.head_dim * (1.0 if x.model.compressed is None else 4.0) + sparse.heads
    width = float(sparse.heads * sparse.head_dim)
    context = (x.c + x.q) / kind.compression
    return [
        x.linear("indexer", "query", width, source),
        x.linear("indexer", "key, weights", keys, x.h),
        _rope(x, width + sparse.head_dim, module="indexer"),
        Indexer(
            module="indexer",
            part="scores",
            sequences=x.b,
            new_tokens=x.q,
            context_tokens=context,
            heads=float(sparse.heads),
            head_dim=float(sparse.head_dim),
            dtype=x.formats.index_dtype,
            key_bytes=1.0 if x.formats.index_dtype == "fp8" else x.element_bytes,
        ),
        x.stream("indexer", "softmax", 4.0 * x.tokens * context, kernels=2.0, part="top-k"),
    ]


def _of_selected(x: PassShapes, kind: LayerKind, operator: Operator) -> Operator:
    """Attention over the tokens that an indexer chose; any other operator as it is."""
    sparse = x.model.sparse
    if kind.mixer != "sparse" or sparse is None or not isinstance(operator, CachedAttention):
        return operator
    chosen = float(sparse.selected_tokens * sparse.block_tokens)
    if not operator.shared_kv:
        return replace(operator, window=chosen)
    return SelectedAttention(
        module=operator.module,
        part="selected attention",
        sequences=operator.batch,
        new_tokens=operator.query_tokens,
        context_tokens=operator.context_tokens,
        selected_tokens=chosen,
        heads=operator.heads,
        key_dim=operator.head_dim,
        value_dim=operator.value_dim,
        decode=x.decode,
        dtype=operator.dtype,
        element_bytes=operator.element_bytes,
        cache_bytes=operator.cache_bytes,
    )


def _written_out(x: PassShapes, core: CachedAttention) -> list[Operator]:
    """Attention with its scores in memory: all pairs of new and seen tokens, those that the mask hides included.

    The softmax reads and writes every score, which is then narrowed to the product's type.
    """
    pairs, seen, plain = core.batch * core.heads, core.context_tokens, x.formats.plain
    if granule := x.engine.llama_cpp.context_granule:
        seen = np.ceil(seen / granule) * granule
    scores = pairs * core.query_tokens * seen
    return [
        x.matmul(CORE, "scores", core.query_tokens, seen, core.head_dim, plain, batch=pairs),
        x.stream(CORE, "softmax", 2.0 * scores),
        x.matmul(CORE, "values", core.query_tokens, core.value_dim, seen, plain, batch=pairs),
    ]


def _rope(x: PassShapes, width: Number, module: Module = "rope") -> Elementwise:
    """Rotary embedding of ``width`` elements per token; unfused it slices, negates, joins, multiplies and adds."""
    fused = x.fuses("rope")
    elements = (2.0 if fused else 9.0) * x.tokens * width
    return x.stream(module, "rope", elements, kernels=1.0 if fused else 10.0)
