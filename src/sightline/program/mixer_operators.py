"""Operators of mixers beyond softmax attention, of training and inference alike.

``backward`` marks the gradients of all inputs. Chunked kernels keep neither the states between chunks nor the products
of corrections, so their backward pass makes those again: what that adds is counted where a backward pass is.
"""

from typing import Any

from sightline.content import record
from sightline.program.operators import ATTENTION_CORE, Operator
from sightline.program.shapes import Shapes
from sightline.quantities import Number, smaller
from sightline.scenario import SparseAttention


@record
class SequenceOperator(Operator):
    """What works on new tokens of sequences, with a state or a context of each."""

    sequences: Number
    new_tokens: Number
    """Per sequence."""


@record
class StateOperator(SequenceOperator):
    """The same in a kernel of its own for prompts and for decoding."""

    decode: bool
    dtype: str
    element_bytes: float


@record
class GatedDelta(StateOperator):
    """Gated delta rule of linear attention: in chunks over many new tokens, or an update of each sequence's state."""

    key_heads: Number
    value_heads: Number
    key_dim: Number
    value_dim: Number

    @property
    def flops(self) -> Number:
        """About 6 d_k d_v per value head and token: decay, correction, output (arXiv 2412.06464).

        Backward twice that for the gradients, and 4 d_k d_v for the states, which are made again.
        """
        products = 16.0 if self.backward else 6.0
        return products * self.sequences * self.new_tokens * self.value_heads * self.key_dim * self.value_dim

    @property
    def bytes(self) -> Number:
        """Queries, keys, values and output of the tokens, and each sequence's fp32 state in and out; backward twice."""
        tokens = self.sequences * self.new_tokens
        widths = 2.0 * self.key_heads * self.key_dim + 2.0 * self.value_heads * self.value_dim
        state = 8.0 * self.sequences * self.value_heads * self.key_dim * self.value_dim
        return (2.0 if self.backward else 1.0) * (tokens * widths * self.element_bytes + state)


@record
class StateSpaceScan(StateOperator):
    """Mamba-2's scan (arXiv 2405.21060): in chunks over many new tokens, or an update of each sequence's state."""

    heads: Number
    head_dim: Number
    groups: Number
    state: Number

    @property
    def flops(self) -> Number:
        """About 6 head_dim state per head and token: input, decay, output; backward twice that and the states again."""
        products = 14.0 if self.backward else 6.0
        return products * self.sequences * self.new_tokens * self.heads * self.head_dim * self.state

    @property
    def bytes(self) -> Number:
        """Inputs and outputs of the tokens, and each sequence's fp32 state in and out; backward twice."""
        widths = 2.0 * self.heads * self.head_dim + 2.0 * self.groups * self.state
        state = 8.0 * self.sequences * self.heads * self.head_dim * self.state
        return (2.0 if self.backward else 1.0) * (
            self.sequences * self.new_tokens * widths * self.element_bytes + state
        )


@record
class ShortConvolution(SequenceOperator):
    """The causal convolution of a few taps before a recurrent mixer."""

    channels: Number
    width: Number
    decode: bool
    element_bytes: float

    @property
    def bytes(self) -> Number:
        """Every token in and out, and the last tokens of each sequence in and out; backward a gradient more in."""
        tensors = 3.0 if self.backward else 2.0
        return tensors * self.channels * self.sequences * (self.new_tokens + self.width) * self.element_bytes


@record
class SelectedAttention(StateOperator):
    """Absorbed latent attention over the cached tokens that an indexer selected."""

    context_tokens: Number
    selected_tokens: Number
    heads: Number
    key_dim: Number
    value_dim: Number
    cache_bytes: float

    @property
    def flops(self) -> Number:
        """2 heads (d_k + d_v) per query and token that it reads; backward 2 heads (3 d_k + 2 d_v)."""
        read = smaller(self.context_tokens, self.selected_tokens)
        width = 3.0 * self.key_dim + 2.0 * self.value_dim if self.backward else self.key_dim + self.value_dim
        return 2.0 * self.sequences * self.new_tokens * read * self.heads * width

    @property
    def bytes(self) -> Number:
        """Queries and outputs, and every latent that any query may read, once; backward their gradients too."""
        queries = self.sequences * self.new_tokens * self.heads * (self.key_dim + self.value_dim)
        reached = smaller(self.context_tokens, self.selected_tokens * self.new_tokens)
        once = queries * self.element_bytes + self.sequences * reached * self.key_dim * self.cache_bytes
        return (2.0 if self.backward else 1.0) * once


@record
class Indexer(SequenceOperator):
    """Scores of every cached token for choosing those that sparse attention reads (DeepSeek V3.2's lightning indexer).

    Backward, ``context_tokens`` are those that were selected, whose scores are made again.
    """

    context_tokens: Number
    heads: Number
    head_dim: Number
    dtype: str
    key_bytes: float

    @property
    def flops(self) -> Number:
        """2 heads head_dim per new token and token that it sees; backward three times that of those selected."""
        return (6.0 if self.backward else 2.0) * self._pairs * self.heads * self.head_dim

    @property
    def bytes(self) -> Number:
        """Queries and keys, with their gradients where backward makes them, and a score in fp32 per pair."""
        operands = self.sequences * (self.context_tokens + self.new_tokens * self.heads) * self.head_dim
        return (2.0 if self.backward else 1.0) * operands * self.key_bytes + 4.0 * self._pairs

    @property
    def _pairs(self) -> Number:
        """New tokens times those that each sees."""
        later = 0.0 if self.backward else (smaller(self.new_tokens, self.context_tokens) - 1.0) / 2.0
        return self.sequences * self.new_tokens * (self.context_tokens - later)


def selected_attention(x: Shapes, sequences: Number, **further: Any) -> SelectedAttention:
    """Return attention to selected tokens by the heads of ``x``; ``further`` fields complete it."""
    return SelectedAttention(
        module=ATTENTION_CORE,
        part="selected attention",
        sequences=sequences,
        heads=x.heads,
        dtype=x.dtype,
        element_bytes=x.element_bytes,
        **further,
    )


def index_scores(sparse: SparseAttention, **further: Any) -> Indexer:
    """Return the scores of an indexer; ``further`` fields are those of `Indexer`."""
    heads, head_dim = float(sparse.heads), float(sparse.head_dim)
    return Indexer(module="indexer", part="scores", heads=heads, head_dim=head_dim, **further)
