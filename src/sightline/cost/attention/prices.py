"""Prices of attention: fused kernels of training, and kernels of engines over cached keys and values."""

from sightline.cost.attention.constants import AttentionConstants, load_attention
from sightline.cost.attention.decode import DecodeAttentionConstants, decode_attention_cost, vector_attention
from sightline.cost.attention.families import decode_constants, prefill_constants
from sightline.cost.attention.fused import attention_cost
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import family_of
from sightline.cost.operator_cost import Alike, OperatorCost
from sightline.cost.ranks import Ranks

_SIZES = ("batch", "heads", "kv_heads")
_TOKENS = ("query_tokens", "context_tokens")


def price_fused(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of whole sequences and its gradients."""
    first, model = alike.first, on.device_model
    batch, heads, kv_heads, head_dim, value_dim = alike.stacked(*_SIZES, "head_dim", "value_dim")
    query, context = alike.stacked(*_TOKENS)
    return attention_cost(
        batch,
        heads,
        kv_heads,
        # Kernels take as long as if both products were of the mean width.
        0.5 * (head_dim + value_dim),
        query,
        context,
        causal=alike.any("causal"),
        backward=alike.any("backward"),
        dtype=first.dtype,
        device=model.device,
        constants=model.constants(_fused),
    )


def _fused(model: DeviceModel) -> AttentionConstants:
    return load_attention(family_of(model.device, "attention"), model.kernels.attention)


def price_cached(alike: Alike, on: Ranks) -> OperatorCost:
    """Attention of one phase over cached and new tokens."""
    return (_decode if alike.first.decode else _prefill)(alike, on.device_model)


def _prefill(alike: Alike, model: DeviceModel) -> OperatorCost:
    first = alike.first
    return attention_cost(
        *alike.stacked(*_SIZES, "head_dim", *_TOKENS),
        causal=True,
        backward=False,
        dtype=first.dtype,
        device=model.device,
        constants=model.constants(_prefill_constants),
        value_dim=alike.stacked("value_dim")[0],
        kv_bytes=first.cache_bytes,
        window=first.window,
    )


def _prefill_constants(model: DeviceModel) -> AttentionConstants:
    return prefill_constants(model.device)


def _decode(alike: Alike, model: DeviceModel) -> OperatorCost:
    first = alike.first
    return decode_attention_cost(
        *alike.stacked(*_SIZES, "head_dim", *_TOKENS),
        value_dim=alike.stacked("value_dim")[0],
        shared_kv=first.shared_kv,
        kv_bytes=first.cache_bytes,
        dtype=first.dtype,
        device=model.device,
        constants=model.constants(_decode_constants, first.heads_apart, first.shared_kv),
        window=first.window,
        heads_apart=first.heads_apart,
    )


def _decode_constants(model: DeviceModel, heads_apart: bool, shared_kv: bool) -> DecodeAttentionConstants:
    device = model.device
    if heads_apart:
        return vector_attention(device.vector_flops / device.compute_units)
    return decode_constants(device, "mla" if shared_kv else "mha")
