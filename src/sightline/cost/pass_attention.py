"""Prices of a pass's attention: prefill and decode."""

from collections.abc import Sequence

from sightline.cost.alike import stacked
from sightline.cost.attention.decode import decode_attention_cost
from sightline.cost.attention.decode_constants import vector_attention
from sightline.cost.attention.families import decode_constants, prefill_constants
from sightline.cost.attention.fused import attention_cost
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.ranks import Ranks
from sightline.program.inference import CachedAttention
from sightline.quantities import Number


def price_attention(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    """Attention of one phase over cached and new tokens."""
    return (_decode if operators[0].decode else _prefill)(operators, ranks, axes)


def _attention_sizes(operators: Sequence[CachedAttention], axes: int) -> list[Number]:
    names = ("batch", "heads", "kv_heads", "head_dim", "query_tokens", "context_tokens")
    return [stacked(operators, name, axes) for name in names]


def _prefill(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    return attention_cost(
        *_attention_sizes(operators, axes),
        causal=True,
        backward=False,
        dtype=first.dtype,
        device=device,
        constants=prefill_constants(device),
        value_dim=stacked(operators, "value_dim", axes),
        kv_bytes=first.cache_bytes,
        window=first.window,
    )


def _decode(operators: Sequence[CachedAttention], ranks: Ranks, axes: int) -> OperatorCost:
    first, device = operators[0], ranks.device
    if first.heads_apart:
        constants = vector_attention(device.vector_flops / device.compute_units)
    else:
        constants = decode_constants(device, "mla" if first.shared_kv else "mha")
    return decode_attention_cost(
        *_attention_sizes(operators, axes),
        value_dim=stacked(operators, "value_dim", axes),
        shared_kv=first.shared_kv,
        kv_bytes=first.cache_bytes,
        dtype=first.dtype,
        device=device,
        constants=constants,
        window=first.window,
        heads_apart=first.heads_apart,
    )
