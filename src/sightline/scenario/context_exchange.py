"""Which context-parallel ranks split heads, and which split the tokens that attention sees."""

from functools import reduce
from math import gcd

import numpy as np

from sightline.quantities import Count
from sightline.scenario.blocks import LayerKind
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan

ATTENTION = ("attention", "sliding", "chunked", "latent")
"""Mixers with keys and values to exchange."""


def exchanged_heads(model: Model) -> int:
    """Return the number of key/value heads that ranks may split: every attention layer has a multiple of it."""
    return reduce(gcd, [_kv_heads(model, kind) for kind in model.kinds if kind.mixer in ATTENTION], 0) or 1


def head_ranks(plan: Plan, model: Model, per_node: int) -> Count:
    """Return how many context-parallel ranks split heads: all of them, none (1), or those inside a node.

    A mixed exchange splits heads among as many ranks as a node has next to tensor parallelism and as key heads
    divide by, and goes round a ring over the rest (USP, arXiv 2405.07719; hierarchical context parallelism of
    TransformerEngine).
    """
    if plan.context_exchange == "all-to-all":
        return plan.context_parallel
    if plan.context_exchange != "mixed":
        return 1
    t, c = (np.asarray(degree).astype(int) for degree in (plan.tensor_parallel, plan.context_parallel))
    inside = np.gcd(c, np.maximum(per_node // t, 1))
    shared = np.gcd(inside, np.maximum(exchanged_heads(model) // t, 1))
    return shared if shared.ndim else int(shared)


def has_windows(model: Model, sequence_length: int) -> bool:
    """Return whether some layers see less than the sequence."""
    windowed = any(kind.mixer in ("sliding", "chunked") for kind in model.kinds)
    return windowed and model.window is not None and model.window < sequence_length


def _kv_heads(model: Model, kind: LayerKind) -> int:
    """Latent attention is trained with keys and values of every head."""
    return model.heads if kind.mixer == "latent" else model.heads_of(kind).kv_heads
