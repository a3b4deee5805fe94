"""Latent attention to the tokens an indexer selected, as DeepSeek V3.2 trains it: absorbed, one latent key for all heads.

Each head's queries are taken to the latent space and its outputs back by the halves of the keys' and values' up
projection; in between a kernel gathers the selected latent vectors of every query. See `sightline.program.indexer` for
the choice and its own loss.
"""

from typing import Final

from sightline.program.context_heads import gather_tokens
from sightline.program.indexer import indexer_backward, indexer_forward, selected
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.mixer_operators import SelectedAttention
from sightline.program.operators import Operator
from sightline.program.shapes import Shapes
from sightline.scenario import LatentAttention, LayerKind

MODULE: Final = "attention core"


def sparse_forward(x: Shapes, kind: LayerKind) -> list[Operator]:
    """Return the operators from queries and latent vectors to the context; queries and latent outputs are kept."""
    latent = _latent(x)
    rank, e, a = float(latent.kv_rank), x.element_bytes, x.heads
    queries = e * x.tokens * a
    return [
        *indexer_forward(x, kind),
        *gather_tokens(x, MODULE, rank + latent.rope_head_dim, backward=False),
        linear_forward(
            x,
            MODULE,
            float(latent.nope_head_dim),
            rank,
            saved_bytes=queries * latent.nope_head_dim,
            part="absorb query",
            experts=a,
        ),
        _selected(x, kind, latent, backward=False),
        linear_forward(
            x, MODULE, rank, float(latent.value_head_dim), saved_bytes=queries * rank, part="expand value", experts=a
        ),
    ]


def sparse_backward(x: Shapes, kind: LayerKind) -> list[Operator]:
    """Return the backward operators from the context's gradient to those of queries and latent vectors."""
    latent = _latent(x)
    rank, a = float(latent.kv_rank), x.heads
    return [
        *linear_backward(x, MODULE, rank, float(latent.value_head_dim), bias=False, experts=a),
        _selected(x, kind, latent, backward=True),
        *gather_tokens(x, MODULE, rank + latent.rope_head_dim, backward=True),
        *linear_backward(x, MODULE, float(latent.nope_head_dim), rank, bias=False, experts=a),
        *indexer_backward(x, kind, a, rank + latent.rope_head_dim),
    ]


def _latent(x: Shapes) -> LatentAttention:
    if x.model.latent is None:
        raise ValueError(f"{x.model.name} has no latent attention")
    return x.model.latent


def _selected(x: Shapes, kind: LayerKind, latent: LatentAttention, *, backward: bool) -> SelectedAttention:
    """The kernel that reads the selected latent vectors; it keeps them and the queries taken to their space."""
    rank, key = float(latent.kv_rank), float(latent.kv_rank + latent.rope_head_dim)
    kept = x.element_bytes * x.tokens * (x.heads + 1.0) * key + 4.0 * x.tokens * x.heads
    return SelectedAttention(
        module=MODULE,
        part="selected attention",
        sequences=x.b,
        new_tokens=x.s,
        context_tokens=x.context,
        selected_tokens=selected(x, kind),
        heads=x.heads,
        key_dim=key,
        value_dim=rank,
        decode=False,
        direction="backward" if backward else "forward",
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        cache_bytes=x.element_bytes,
        saved_bytes=0.0 if backward else kept,
        kernels=3.0 if backward else 1.0,
    )
