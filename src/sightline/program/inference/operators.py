"""Operators that only inference has, beside those of `sightline.program.operators`."""

from dataclasses import dataclass

import numpy as np

from sightline.program.operators import Matmul, Operator
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CachedAttention(Operator):
    """Attention of new tokens over cached and new keys and values, in one kernel that never writes the scores.

    With few new tokens (decoding) the kernel splits the context over the device; with many (prefill, a chunk of a
    prompt) it walks along it per block of queries.
    """

    batch: Number
    heads: Number
    kv_heads: Number
    head_dim: float
    value_dim: float
    query_tokens: Number
    context_tokens: Number
    """Keys a query may see at most, its own included."""
    window: float | None = None
    """Last tokens that a query sees; None means all."""
    shared_kv: bool = False
    """Keys and values are one tensor (the latent of MLA), read once."""
    heads_apart: bool = False
    """Each query head walks along its keys and values by itself, on vector units, though heads share them."""
    decode: bool
    dtype: str
    element_bytes: float
    cache_bytes: float
    """Bytes per cached element."""

    @property
    def seen(self) -> Number:
        """Mean keys a query sees."""
        q, c = self.query_tokens, self.context_tokens
        mean = c - (q - 1.0) / 2.0
        return mean if self.window is None else np.minimum(mean, self.window)

    @property
    def flops(self) -> Number:
        """2 b a sq sk (d_k + d_v) over the keys that are seen."""
        pairs = self.batch * self.heads * self.query_tokens * self.seen
        return 2.0 * pairs * (self.head_dim + self.value_dim)

    @property
    def bytes(self) -> Number:
        """Queries and output, and every cached element that any query sees, once."""
        queries = self.batch * self.query_tokens * self.heads * (self.head_dim + self.value_dim)
        widest = (
            self.context_tokens
            if self.window is None
            else np.minimum(self.context_tokens, self.window + self.query_tokens)
        )
        width = self.head_dim if self.shared_kv else self.head_dim + self.value_dim
        return queries * self.element_bytes + self.batch * widest * self.kv_heads * width * self.cache_bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupedMatmul(Operator):
    """Products of tokens with the experts they chose: ``rows`` token-expert pairs over ``experts`` local experts."""

    rows: Number
    experts: Number
    active: Number
    """Experts that any token chose (expected)."""
    n: Number
    k: Number
    dtype: str
    element_bytes: float
    weight_bytes: float
    output_bytes: float
    kernel: str
    decode: bool
    """Few tokens, in slots of fixed size, as a captured graph needs; else each expert's tokens behind the other's."""

    @property
    def flops(self) -> Number:
        """2 rows n k."""
        return 2.0 * self.rows * self.n * self.k

    @property
    def bytes(self) -> Number:
        """Rows in and out, and the weights of every active expert once."""
        rows = self.rows * (self.element_bytes * self.k + self.output_bytes * self.n)
        return rows + self.weight_bytes * self.active * self.n * self.k


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixVector(Matmul):
    """A product of few rows in an engine's own kernel, which unpacks weights and multiplies them on the vector units."""

    most_rows: float
    """Rows beyond which the library's kernels take over."""
