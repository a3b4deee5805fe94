"""How a training framework runs a layer's steps: attention between its projections, embedding, head and loss."""

from dataclasses import replace
from typing import Any

import numpy as np

from sightline.program.address import ATTENTION_CORE, Module
from sightline.program.kernels.attention_core import Scores, flash, mean_seen, selected
from sightline.program.kernels.training_elementwise import LATENT_ROPE
from sightline.program.kernels.training_experts import TrainingExperts, training_experts
from sightline.program.kernels.training_mixers import TrainingMixers
from sightline.program.mixer_operators import Indexer, SelectedAttention
from sightline.program.operators import Elementwise, Operator
from sightline.program.shapes import ELEMENT_BYTES
from sightline.program.step import Step, elementwise
from sightline.program.techniques.context_heads import gather_tokens
from sightline.program.techniques.context_parallel import split_core
from sightline.program.techniques.low_precision import low_precision, quantized, transposed_weights
from sightline.program.techniques.recipes import low_precision_of
from sightline.program.techniques.residual_streams import join_streams
from sightline.program.techniques.tensor_parallel import all_reduced, enter_region, gathered, leave_region, summed
from sightline.program.techniques.trained import trained_by
from sightline.program.training_shapes import as_number, framework_under
from sightline.quantities import Number, either
from sightline.scenario import Experts, LayerKind, Scenario, SparseAttention
from sightline.scenario.context_exchange import head_ranks

FOLDING_KERNELS = 5.0
"""Position biases, softmax over the tokens of a fold, product, sum, norm."""
LOSS_FORWARD_BYTES = 22.0
"""Bytes per logit of an unfused loss forward: cast to fp32, maximum, subtraction, exponent and sum (4-byte passes)."""
LOSS_BACKWARD_BYTES = 14.0
"""Bytes per logit of an unfused loss backward: fp32 gradient in and out, cast to 16 bit."""
AUTOGRAD_BACKWARD_BYTES = 26.0
"""The same where autograd writes the gradient of picking labels, from zeros, and log-softmax reads it twice."""
SPLIT_LOSS_BYTES = 38.0
"""Bytes per logit of either pass over a sharded vocabulary, tensor by tensor (torch.distributed.tensor.parallel.loss)."""


class TrainingKernels(TrainingMixers):
    """The steps that differ between training and inference, as a training framework runs them."""

    __slots__ = ()

    @property
    def decode(self) -> bool:
        """Training sees whole sequences."""
        return False

    def groups(self) -> "list[TrainingKernels]":
        """Groups of sequences that attention treats differently: one."""
        return [self]

    def absorbs(self, kind: LayerKind) -> bool:
        """Whether attention reads latent vectors themselves: selected tokens differ by query."""
        return kind.mixer == "sparse"

    def experts(self, of: Experts) -> TrainingExperts:
        """The routed experts of a layer."""
        return training_experts(self, of)

    @property
    def product_share(self) -> float:
        """1.0 where the down projection keeps its input; a fused gate recomputes the product from what went into it."""
        return 1.0 * (self.framework.memory.keeps_product or not (self.model.gated and self.fuses("activation")))

    def cache_write(self, elements: Number) -> list[Step]:
        """Training keeps no cache."""
        return []

    @property
    def attended(self) -> "TrainingKernels":
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
        """Scores, softmax and context; where a framework repeats keys and values for every query head, a copy before."""
        x = self.attended
        if x is self:
            return split_core(self, kind)
        widths = self.key_width + self.value_width + x.key_width + x.value_width
        moved = self.element_bytes * self.tokens * widths
        elements = self.tokens * (x.key_width + x.value_width)
        repeated = elementwise("qkv", "heads repeated", elements, moved, moved, kernels=2.0, backward_kernels=2.0)
        return [repeated, *split_core(x, kind)]

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
        rotated = Elementwise(
            module="indexer",
            part="rope",
            traffic_bytes=2.0 * self.element_bytes * n,
            kernels=2.0,
            saved_bytes=self.trained.projections * self.element_bytes * self.tokens * kept,
            elements=n,
        )
        return Step((rotated,))

    def gather_latents(self, width: Number) -> list[Step]:
        """Latent vectors, made from every rank's piece of the sequence, are gathered; their gradients are summed."""
        size = self.element_bytes * self.tokens * width
        return [Step(gathered(self, "qkv", size), summed(self, "qkv", size))]

    def join_heads(self) -> list[Step]:
        """Rotary parts are joined to every head's own: one copy of queries and keys, and the cut of keys from values.

        Where that is fused with the rotation, queries turn in place, and one kernel writes keys and values from what was
        projected.
        """
        latent = self.model.latent
        if latent is None:
            return []
        e, expanded = self.element_bytes, self.core_input_bytes
        fused = self.fuses(LATENT_ROPE)
        projected = self.heads * (latent.nope_head_dim + latent.value_head_dim)
        moved = e * self.tokens * (projected + self.key_width + self.value_width) if fused else 2.0 * expanded
        calls = 1.0 if fused else 3.0
        return [elementwise("qkv", "heads joined", expanded / e, moved, moved, kernels=calls, backward_kernels=calls)]

    def share_keys(self, width: Number) -> list[Step]:
        """What all heads share of every token is gathered over context-parallel ranks, since any token may be chosen."""
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
        return [
            elementwise(
                "qkv",
                "folding",
                n,
                6.0 * size,
                10.0 * size,
                kernels=FOLDING_KERNELS,
                backward_kernels=2.0 * FOLDING_KERNELS,
                saved_bytes=2.0 * size,
            )
        ]

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

        As DeepSeek V3.2 trains it after its dense warm-up (technical report, section 2.1.1): the indexer learns to score
        tokens as attention weighs them, whose weights are added up over all heads in a pass over the selected ones. Left
        out: the dense warm-up, in which the indexer alone is trained.
        """
        # Of all entries those up to its own, which are half of them in the mean on every rank.
        entries = 0.5 * (self.context + self.s) / kind.compression
        chosen = selected(self, kind)
        learns = self.trained.projections
        shared = self._gathered_tokens("indexer", sparse.head_dim / kind.compression)
        # Scores in fp32 are read twice; the chosen places are kept as 32-bit numbers.
        choice = Elementwise(
            module="indexer",
            part="top-k",
            traffic_bytes=8.0 * self.tokens * entries,
            kernels=2.0,
            saved_bytes=4.0 * self.tokens * np.minimum(entries, float(sparse.selected_tokens)),
            elements=self.tokens * entries,
        )
        return [
            shared if learns else shared._replace(backward=()),
            Step((self._scored(sparse, entries),), (self._scored(sparse, chosen, backward=True),) if learns else ()),
            Step((choice,), self._index_loss(chosen) if learns else ()),
        ]

    def _scored(self, sparse: SparseAttention, entries: Number, *, backward: bool = False) -> Indexer:
        return Indexer(
            module="indexer",
            part="scores",
            direction="backward" if backward else "forward",
            sequences=self.b,
            new_tokens=self.s,
            context_tokens=entries,
            heads=float(sparse.heads),
            head_dim=float(sparse.head_dim),
            dtype=self.dtype,
            key_bytes=self.element_bytes,
        )

    def _index_loss(self, chosen: Number) -> list[Operator]:
        """Attention's weights of the selected tokens, summed over ranks' heads, and the loss towards them."""
        latent = self.model.latent
        width = float(self.shape.head_dim if latent is None else latent.kv_rank + latent.rope_head_dim)
        size = 4.0 * self.tokens * chosen
        target = SelectedAttention(
            module="indexer",
            part="target",
            sequences=self.b,
            new_tokens=self.s,
            context_tokens=self.context,
            selected_tokens=chosen,
            heads=self.heads,
            key_dim=width,
            value_dim=0.0,
            decode=False,
            dtype=self.dtype,
            element_bytes=self.element_bytes,
            cache_bytes=self.element_bytes,
        )
        elements = self.tokens * chosen
        loss = Elementwise(module="indexer", part="loss", traffic_bytes=4.0 * size, kernels=6.0, elements=elements)
        return [target, *all_reduced(self, "indexer", size), loss]

    def _gathered_tokens(self, module: Module, width: Number) -> Step:
        there, back = (gather_tokens(self, module, width, backward=backward) for backward in (False, True))
        return Step(there, back)

    def _selected(self, tokens: Number, key: float, value: float, kept: Number, *, backward_kernels: float) -> Step:
        common: dict[str, Any] = {
            "module": ATTENTION_CORE,
            "part": "selected attention",
            "sequences": self.b,
            "new_tokens": self.s,
            "context_tokens": self.context,
            "selected_tokens": tokens,
            "heads": self.heads,
            "key_dim": key,
            "value_dim": value,
            "decode": False,
            "dtype": self.dtype,
            "element_bytes": self.element_bytes,
            "cache_bytes": self.element_bytes,
        }
        backward = SelectedAttention(direction="backward", kernels=backward_kernels, **common)
        return Step((SelectedAttention(saved_bytes=kept, **common),), (backward,))

    def embed(self) -> list[Step]:
        """A gather (and the position's), its norm and dropout; backward scatters into the table."""
        e = self.element_bytes
        lookups = 2.0 + (3.0 if self.model.positions == "learned" else 0.0)
        lookup = Elementwise(
            module="embedding",
            part="lookup",
            traffic_bytes=lookups * self.hidden_bytes,
            kernels=4.0,
            elements=self.tokens * self.h,
        )
        trained = self.trained.embedding
        steps = [
            Step((lookup,), (self._table_gradient(),) if trained else ()),
            Step(leave_region(self, "embedding"), enter_region(self, "embedding") if trained else ()),
        ]
        if self.model.embedding_norm:
            steps.append(self.norm("embedding"))
        if self.model.dropout > 0:
            mask = self.residual_bytes / e
            moved = 2.0 * self.residual_bytes + mask
            steps.append(elementwise("embedding", "dropout", 0.0, moved, moved, saved_bytes=mask))
        return steps

    def _table_gradient(self) -> Elementwise:
        """The dense gradient of the table is cleared, filled and added to the accumulated one."""
        elements = self.vocabulary * self.h
        added = elements * (self.element_bytes + self.framework.kernels.accumulation_traffic)
        return Elementwise(
            module="embedding",
            part="table",
            direction="backward",
            traffic_bytes=added + 3.0 * self.hidden_bytes,
            kernels=6.0,
            elements=elements,
        )

    def final_norm(self) -> list[Step]:
        """The norm before the head, of several residual streams' sum."""
        return [*join_streams(self), self.norm("final norm")]

    def logits(self) -> list[Step]:
        """The logits of all tokens over the (sharded) vocabulary; the product is as low in precision as ``low`` says."""
        trained, kept = self.trained.head, self.entered_share * self.trained.head
        plain = self.linear("head", "logits", self.h, self.vocabulary, kept=kept, trained=trained)
        inputs = quantized(self, "head", "input quantization", self.tokens * self.h, for_weights=trained)
        outputs = self.tokens * self.vocabulary
        backward = [
            *transposed_weights(self, "head", self.h * self.vocabulary),
            *quantized(self, "head", "gradient quantization", outputs, for_weights=trained),
            *(low_precision(self, op) for op in plain.backward),
        ]
        product = Step([*inputs, *(low_precision(self, op) for op in plain.forward)], backward)
        caps = [self.soft_cap("head", "capped logits", outputs)] if self.model.logit_cap else []
        return [Step(enter_region(self, "head"), leave_region(self, "head")), product, *caps]

    def choose(self) -> list[Step]:
        """Cross-entropy; unfused it is a chain of kernels in fp32, whose gradient autograd may write out."""
        logits, fused = self.tokens * self.vocabulary, self.fuses("cross-entropy")
        by_autograd = self.framework.native.loss_by_autograd
        back = AUTOGRAD_BACKWARD_BYTES if by_autograd else LOSS_BACKWARD_BYTES
        sizes = [2.0 * self.element_bytes] * 2 if fused else [self._unfused(LOSS_FORWARD_BYTES), self._unfused(back)]
        kernels = (2.0, 1.0) if fused else (8.0, 3.0)
        there, back_bytes = (size * logits for size in sizes)
        return [
            elementwise(
                "head", "cross-entropy", logits, there, back_bytes, kernels=kernels[0], backward_kernels=kernels[1]
            )
        ]

    def _unfused(self, whole: float) -> Number:
        """Bytes per logit that a pass of an unfused loss moves, of which ``whole`` where every rank has all logits."""
        if not self.framework.native.loss_by_autograd:
            return whole
        return either(self.t > 1, SPLIT_LOSS_BYTES, whole)


def training_kernels(scenario: Scenario) -> TrainingKernels:
    """Return the kernels and sizes of ``scenario``'s micro-batch."""
    plan = scenario.plan
    t, c = as_number(plan.tensor_parallel), as_number(plan.context_parallel)
    split = (np.asarray(plan.sequence_parallel) != 0) & (np.asarray(t) > 1)
    split = split.astype(float) if split.ndim else float(split)
    rows = scenario.workload.rows(plan.sequences)
    s, b = rows.tokens / c, plan.sequences * 1.0
    return TrainingKernels(
        model=scenario.model,
        plan=plan,
        dtype=plan.wide_dtype,
        element_bytes=ELEMENT_BYTES[plan.wide_dtype],
        s=s,
        context=rows.tokens,
        documents=rows.tokens**2 / rows.squares,
        b=b,
        tokens=s * b,
        t=t,
        r=1.0 + split * (t - 1.0),
        split=split,
        c=c,
        y=as_number(head_ranks(plan, scenario.model, scenario.cluster.per_node)),
        exchange=plan.context_exchange,
        e=as_number(plan.expert_parallel),
        u=as_number(plan.expert_tensor_parallel),
        skew=plan.expert_skew,
        capacity=plan.expert_capacity,
        dispatch=plan.expert_dispatch,
        shape=scenario.model.own_heads,
        framework=framework_under(plan),
        trained=trained_by(plan, tied=scenario.model.tied_embeddings),
        low=low_precision_of(scenario),
    )
