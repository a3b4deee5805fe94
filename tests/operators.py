"""Operators alone, as formulas are asked for them: sizes, and what tests rarely change."""

from sightline.program import CachedAttention, Elementwise, FlashAttention, Matmul


def product(m, n, k, batch=1.0, **changes):
    """A 16-bit product."""
    how = {"dtype": "bf16", "element_bytes": 2, "output_bytes": 2, **changes}
    return Matmul(module="mlp", part="matmul", m=m, n=n, k=k, batch=batch, **how)


def flash(batch, heads, kv_heads, head_dim, query_tokens, context_tokens, *, backward=False, **changes):
    """A pass of fused attention over whole sequences, in 16 bits."""
    how = {"causal": True, "value_dim": head_dim, "dtype": "bf16", "element_bytes": 2, **changes}
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    tokens = {"query_tokens": query_tokens, "context_tokens": context_tokens}
    direction = "backward" if backward else "forward"
    return FlashAttention(module="attention core", part="attention", direction=direction, **sizes, **tokens, **how)


def cached(batch, heads, kv_heads, head_dim, query_tokens, context_tokens, **changes):
    """Attention of an engine in 16 bits."""
    how = {"value_dim": head_dim, "dtype": "bf16", "element_bytes": 2, "cache_bytes": 2, "decode": False, **changes}
    sizes = {"batch": batch, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    tokens = {"query_tokens": query_tokens, "context_tokens": context_tokens}
    return CachedAttention(module="attention core", part="attention", **sizes, **tokens, **how)


def stream(traffic_bytes, arithmetic=0.0, kernels=1.0):
    """Element-wise kernels."""
    return Elementwise(module="mlp", part="norm", traffic_bytes=traffic_bytes, arithmetic=arithmetic, kernels=kernels)
