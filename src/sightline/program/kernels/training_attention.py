"""Attention of training between its projections: the core, latent vectors, folded entries, and the indexer's loss."""

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from sightline.program.attention_core import Scores, flash, mean_seen, selected
from sightline.program.kernels.training_linear import LATENT_ROPE, TrainingElementwise
from sightline.program.operators import ATTENTION_CORE, Module, Operator, collective
from sightline.program.program import Step, elementwise, moving
from sightline.program.techniques.context_parallel import gather_tokens, split_core
from sightline.program.techniques.low_precision import cast
from sightline.program.techniques.tensor_parallel import gathered, summed
from sightline.quantities import Number, smaller
from sightline.scenario import LayerKind, SparseAttention

if TYPE_CHECKING:
    from sightline.program.mixer_operators import SelectedAttention

FOLDING_KERNELS = (5.0, 10.0)
"""Position biases, softmax over the tokens of a fold, product, sum, norm; and their gradients."""


class TrainingAttention(TrainingElementwise):
    """Attention in all its forms, with what ranks of a split sequence exchange for it."""

    __slots__ = ()

    @property
    def attended(self) -> Self:
        """The sizes that the core works with: key heads as many as query heads where a framework repeats them."""
        if not self.framework.native.repeats_keys or self.shape.kv_heads == self.shape.heads:
            return self
        return replace(self, shape=replace(self.shape, kv_heads=self.shape.heads))

    @property
    def core_input_bytes(self) -> Number:
        """Queries, keys and values, from which the attention core can run again."""
        x = self.attended
        return self.element_bytes * self.tokens * (x.query_width + x.key_width + x.value_width)

    def attention(self, kind: LayerKind) -> list[Step]:
        """Scores, softmax and context, of queries, keys and values in the products' format.

        Where a framework repeats keys and values for every query head, a copy precedes them.
        """
        x = self.attended
        casts = cast(self, "qkv", self.core_input_bytes / self.element_bytes, 3.0)
        cast_steps = [Step(casts, casts)] if casts else []
        if x is self:
            return [*cast_steps, *split_core(self, kind)]
        widths = self.key_width + self.value_width + x.key_width + x.value_width
        moved = self.element_bytes * self.tokens * widths
        elements = self.tokens * (x.key_width + x.value_width)
        repeated = elementwise("qkv", "heads repeated", elements, (moved, moved), (2.0, 2.0))
        return [*cast_steps, repeated, *split_core(x, kind)]

    @property
    def seen_tokens(self) -> Number:
        """Tokens whose keys and values are expanded from latent vectors."""
        return self.tokens

    def expanded_attention(self, kind: LayerKind) -> list[Step]:
        """Attention to keys and values that were expanded from latent vectors."""
        return self.attention(kind)

    def cut_off(self, linear: Step) -> Step:
        """A linear layer whose input gets no gradient from it; a frozen one has no backward pass at all."""
        learned = (
            [op for op in linear.backward if op.direction == "weight gradient"] if self.trained.projections else []
        )
        return linear._replace(backward=learned)

    def index_rope(self, width: Number) -> Step:
        """Rotary embedding of the indexer's queries and keys in one kernel each; they and the weights are kept."""
        n, sparse = self.tokens * width, self.model.sparse
        kept = width + (0.0 if sparse is None else sparse.heads)
        rotated = moving(
            "indexer",
            "rope",
            2.0 * self.element_bytes * n,
            2.0,
            saved_bytes=self.trained.projections * self.element_bytes * self.tokens * kept,
            elements=n,
        )
        return Step((rotated,))

    def gather_latents(self, width: Number) -> list[Step]:
        """Latent vectors, made from every rank's piece of the sequence, are gathered; their gradients are summed."""
        size = self.element_bytes * self.tokens * width
        return [Step(gathered(self, "qkv", size), summed(self, "qkv", size, "weight gradient"))]

    def join_heads(self) -> list[Step]:
        """Rotary parts are joined to every head's own: one copy of queries and keys, and the cut of keys from values.

        Where that is fused with the rotation, queries turn in place, and one kernel writes keys and values from what
        was projected.
        """
        latent = self.model.latent
        if latent is None:
            return []
        e, expanded = self.element_bytes, self.core_input_bytes
        fused = self.fuses(LATENT_ROPE)
        projected = self.heads * (latent.nope_head_dim + latent.value_head_dim)
        moved = e * self.tokens * (projected + self.key_width + self.value_width) if fused else 2.0 * expanded
        calls = 1.0 if fused else 3.0
        return [elementwise("qkv", "heads joined", expanded / e, (moved, moved), (calls, calls))]

    def share_keys(self, width: Number) -> list[Step]:
        """What all heads share is gathered over context-parallel ranks, since any token may be chosen."""
        return [self._gathered_tokens(ATTENTION_CORE, width)]

    def attention_to_latents(self, kind: LayerKind) -> list[Step]:
        """Attention to selected latent vectors; queries taken to their space and latent vectors are kept."""
        latent = self.model.latent
        if latent is None:
            return []
        key = float(latent.kv_rank + latent.rope_head_dim)
        kept = self.element_bytes * self.tokens * (self.heads + 1.0) * key + 4.0 * self.tokens * self.heads
        return [self._selected(selected(self, kind), key, float(latent.kv_rank), kept, backward_kernels=3.0)]

    def fold(self, width: Number) -> list[Step]:
        """Neighboring tokens become one entry, a sum weighted by a softmax over them; its inputs are kept."""
        n = width * self.piece_tokens
        size = self.element_bytes * n
        return [elementwise("qkv", "folding", n, (6.0 * size, 10.0 * size), FOLDING_KERNELS, saved_bytes=2.0 * size)]

    def attention_to_folds(self, kind: LayerKind) -> list[Step]:
        """Attention to the window's and the folded entries, as many as a query sees in the mean."""
        dim, e = float(self.model.head_dim), self.element_bytes
        window = mean_seen(self.context, float(self.model.window or 0))
        kept = e * self.tokens * (self.heads * dim + dim) + 4.0 * self.tokens * self.heads
        if kind.indexed:
            return [self._selected(window + selected(self, kind), dim, dim, kept, backward_kernels=1.0)]
        folded = mean_seen(self.context / kind.compression, self.context) if kind.compression > 1 else 0.0
        scores = Scores(self.b, self.s, window + folded, causal=False)
        forward, backward = flash(self, scores), flash(self, scores, backward=True)
        return [Step((replace(forward, saved_bytes=kept),), (backward,))]

    def index_scores(self, kind: LayerKind, sparse: SparseAttention) -> list[Step]:
        """Scores of all pairs, the choice, and backward a loss of the indexer's own.

        As DeepSeek V3.2 trains it after its dense warm-up (technical report, section 2.1.1): the indexer learns to
        score tokens as attention weighs them, whose weights are added up over all heads in a pass over the selected
        ones. Left
        out: the dense warm-up, in which the indexer alone is trained.
        """
        from sightline.program.mixer_operators import index_scores

        # Of all entries those up to its own, which are half of them in the mean on every rank.
        entries = 0.5 * (self.context + self.s) / kind.compression
        chosen = selected(self, kind)
        learns = self.trained.projections
        sizes = {"sequences": self.b, "new_tokens": self.s, "context_tokens": entries}
        scores = index_scores(sparse, **sizes, dtype=self.dtype, key_bytes=self.element_bytes)
        shared = self._gathered_tokens("indexer", sparse.head_dim / kind.compression)
        # Scores in fp32 are read twice; the chosen places are kept as 32-bit numbers.
        choice = moving(
            "indexer",
            "top-k",
            8.0 * self.tokens * entries,
            2.0,
            saved_bytes=4.0 * self.tokens * smaller(entries, float(sparse.selected_tokens)),
            elements=self.tokens * entries,
        )
        return [
            shared if learns else shared._replace(backward=()),
            Step((scores,), (replace(scores, direction="backward", context_tokens=chosen),) if learns else ()),
            Step((choice,), self._index_loss(chosen) if learns else ()),
        ]

    def _index_loss(self, chosen: Number) -> list[Operator]:
        """Attention's weights of the selected tokens, summed over ranks' heads, and the loss towards them."""
        latent = self.model.latent
        width = float(self.shape.head_dim if latent is None else latent.kv_rank + latent.rope_head_dim)
        size = 4.0 * self.tokens * chosen
        target = replace(self._reading(chosen, width, 0.0), module="indexer", part="target")
        elements = self.tokens * chosen
        loss = moving("indexer", "loss", 4.0 * size, 6.0, elements=elements)
        return [target, *collective("indexer", "all_reduce", size, self.t > 1), loss]

    def _gathered_tokens(self, module: Module, width: Number) -> Step:
        there, back = (gather_tokens(self, module, width, backward=backward) for backward in (False, True))
        return Step(there, back)

    def _selected(self, tokens: Number, key: float, value: float, kept: Number, *, backward_kernels: float) -> Step:
        """Attention to so many selected tokens, with the bytes that it keeps."""
        reading = self._reading(tokens, key, value)
        backward = replace(reading, direction="backward", kernels=backward_kernels)
        return Step((replace(reading, saved_bytes=kept),), (backward,))

    def _reading(self, tokens: Number, key: float, value: float) -> "SelectedAttention":
        from sightline.program.mixer_operators import selected_attention

        sizes = {"new_tokens": self.s, "context_tokens": self.context, "selected_tokens": tokens}
        widths = {"key_dim": key, "value_dim": value, "cache_bytes": self.element_bytes}
        return selected_attention(self, self.b, **sizes, **widths, decode=False)
