"""Which of the ranks that a sequence is cut over share out heads, and which cut the tokens that attention sees."""

from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from sightline.quantities import Count
from sightline.scenario.blocks import LayerKind
from sightline.scenario.model import Model
from sightline.scenario.plan import Plan

ATTENTION = ("attention", "sliding", "chunked", "latent")
"""Mixers with keys and values to exchange."""


def exchanged_heads(model: Model) -> int:
    """Return the key/value heads that ranks may share out: those that every attention layer has a multiple of."""
    return reduce(gcd, [_kv_heads(model, kind) for kind in model.kinds if kind.mixer in ATTENTION], 0) or 1


def head_ranks(plan: Plan, model: Model, per_node: int) -> Count:
    """Return how many ranks of a sequence share out heads: all of them, none (1), or those inside a node.

    A mixed exchange shares out heads among as many ranks as a node has beside tensor parallelism and as key heads
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


def can_be_cut(model: Model, plan: Plan, sequence_length: int) -> NDArray[np.bool_]:
    """Return whether attention of a sequence can be cut over the plan's context-parallel ranks, plan by plan.

    Every rank has an early and a late chunk; shared-out heads stay whole; chunks of scores are put together from what
    fused kernels return; a ring passes every block to every rank, which windows have no use for.
    """
    t, c = np.asarray(plan.tensor_parallel), np.asarray(plan.context_parallel)
    shares, rings = plan.context_exchange == "all-to-all", plan.context_exchange in ("ring", "mixed")
    possible = (np.mod(sequence_length, 2 * c) == 0) & ((model.heads % (t * c) == 0) | (not shares))
    possible &= (plan.attention == "flash" or shares) and not (rings and has_windows(model, sequence_length))
    return np.asarray((c == 1) | possible)


def has_windows(model: Model, sequence_length: int) -> bool:
    """Return whether some layers see less than the sequence."""
    windowed = any(kind.mixer in ("sliding", "chunked") for kind in model.kinds)
    return windowed and model.window is not None and model.window < sequence_length


def _kv_heads(model: Model, kind: LayerKind) -> int:
    """Latent attention is trained with keys and values of every head."""
    return model.heads if kind.mixer == "latent" else model.heads_of(kind).kv_heads
