"""How a training framework runs a layer's steps: recurrent mixers, embedding, head and loss."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import numpy as np

from sightline.content import record
from sightline.program.attention_core import soft_cap
from sightline.program.kernels.training_attention import TrainingAttention
from sightline.program.kernels.training_linear import join_streams
from sightline.program.operators import LINEAR_ATTENTION, Elementwise, Matmul, Module, Operator, Part, collective
from sightline.program.program import LinearLayer, Step, elementwise, moving
from sightline.program.routing import RoutedExperts, busiest_share, distinct_ranks
from sightline.program.shapes import ELEMENT_BYTES, framework_under, low_precision_of, trained_by
from sightline.program.techniques.context_parallel import exchange, head_ranks
from sightline.program.techniques.low_precision import cast, low_precision, quantized, transposed_weights
from sightline.program.techniques.tensor_parallel import enter_region, leave_backward, leave_region
from sightline.quantities import Number, either, plain, rounded_up
from sightline.scenario import Experts, LayerKind, LinearAttention, Scenario

ROUTER_KERNELS = 6.0
"""Softmax, choice of the largest, their weights, the map of tokens to experts, its counts, and the balance loss."""
SCALED_OPERANDS = 2.0
"""Kernels per product that bring the scales of its operands' blocks into the order that it reads them in."""


@record
class TrainingExperts(RoutedExperts[TrainingAttention]):
    """The routed experts of a layer on one rank of ``e`` that hold experts and ``u`` that split each.

    A rank brings the tokens that are its own (tokens / t) and works on as many, times ``u``, as the router sends on
    average; the busiest rank sets the pace (`sightline.program.routing`), unless experts are padded to a capacity.
    """

    each: Number
    """Rows that each expert of the busiest rank works on."""
    copies: Number
    """Rows that the rank's own tokens make."""

    @property
    def rows(self) -> Number:
        """Rows that all experts of the busiest rank work on."""
        return self.each * self.local

    def router(self, *, reads_norm: bool) -> list[Step]:
        """The router's product, whose input shared experts keep where there are any, and the choice, in fp32."""
        x, of = self.x, self.of
        kept = 1.0 * reads_norm
        product = x.linear(LinearLayer("router", "router", x.h, float(of.count), kept=kept, rows=x.own_tokens))
        scores = x.own_tokens * of.count
        choice = elementwise(
            "router",
            "choice",
            scores,
            (32.0 * scores, 24.0 * scores),
            (ROUTER_KERNELS, ROUTER_KERNELS),
            saved_bytes=9.0 * scores,
        )
        # A router is trained in full precision, whatever becomes of the layers' matrices.
        parameters = (x.h + x.model.mlp_bias) * of.count
        return [product._replace(weights=0.0, other_parameters=parameters), choice]

    def dispatch(self) -> list[Step]:
        """Copies are sorted by expert and travel to the ranks of their experts.

        A copy is written for every one that is read, but of a token's copies the first pass reads only one. Arriving
        plainly from several ranks they are sorted once more.
        """
        if self._by_masks:
            return [self._masked("permutation"), self._travel("dispatch")]
        sizes = self._copied_bytes + self._token_bytes + 2.0 * self._sorts_again * self._copied_bytes
        return [self._sorting("permutation", sizes, sizes), self._travel("dispatch")]

    def combine(self) -> list[Step]:
        """Outputs travel back, and a token's are brought together; backward spreads the gradient to all of them.

        Where weights are applied here and not in the activation, the outputs are kept for the weights' gradient.
        """
        if self._by_masks:
            return [self._travel("combine"), self._masked("weighted sum")]
        copies, once = self._copied_bytes, self._token_bytes
        here = not self.x.fuses("expert-weights")
        again = 2.0 * self._sorts_again * copies
        forward, backward = copies + once + again, (1.0 + here) * copies + once + again
        return [self._travel("combine"), self._sorting("weighted sum", forward, backward, saved=copies * here)]

    def product(self, part: Part, inputs: Number, outputs: Number, *, kept: Number = 1.0) -> Step:
        """The products of all the rank's experts; some libraries launch a kernel for each."""
        x = self.x
        step = x.projection(LinearLayer("experts", part, inputs, outputs, kept=kept, rows=self.each, batch=self.local))
        biases = self.local * outputs * x.model.mlp_bias
        step = step._replace(other_parameters=biases)
        if not x.framework.transformer_engine.launches_each_expert:
            return step
        return step._replace(forward=self._launched_each(step.forward), backward=self._launched_each(step.backward))

    def shared_sum(self) -> list[Step]:
        """Outputs of the shared experts are added to those of the routed ones, and their gradients likewise."""
        size = self.x.stream_bytes * self.x.own_tokens * self.x.h
        return [elementwise("shared experts", "sum", size / self.x.stream_bytes, (3.0 * size, 3.0 * size))]

    @property
    def _copied_bytes(self) -> Number:
        """All copies of the rank's tokens: one for each chosen expert, or the experts' capacity."""
        return self.x.stream_bytes * self.copies * self.width

    @property
    def _token_bytes(self) -> Number:
        """The rank's tokens once."""
        return self.x.stream_bytes * self.x.own_tokens * self.width

    @property
    def _sorts_again(self) -> Number:
        """1.0 where copies arrive plainly from several ranks."""
        return 1.0 * (self.x.e > 1) * (self.x.plan.expert_dispatch == "all-to-all")

    @property
    def _by_masks(self) -> bool:
        return self.x.plan.expert_capacity > 0 and self.x.framework.kernels.masks_capacity

    def _masked(self, part: Part) -> Step:
        """The product of each sequence's tokens, or its experts' outputs, with a mask of tokens by places of experts.

        Places are those of a whole sequence. The first mask is of bytes without a gradient; the second one holds the
        router's weights, whose gradient is a product too, which a pass over it sums up.
        """
        x, width, combines = self.x, self.width / self.x.t, part == "weighted sum"
        places = self.copies * x.t * x.c / x.b
        mask = x.b * x.s * places
        product = partial(x.product, "experts", part, batch=x.b)
        if not combines:
            there = (moving("experts", part, mask, elements=mask), product(places, width, x.s, saved_bytes=mask))
            return Step(there, (product(x.s, width, places, "input gradient"),))
        size = x.element_bytes * mask
        written, summed = (moving("experts", part, size, direction=d, elements=mask) for d in ("forward", "backward"))
        out = product(x.s, width, places, saved_bytes=size + self._copied_bytes)
        back = (product(places, width, x.s, "input gradient"), product(x.s, places, width, "input gradient"))
        return Step((written, out), (*back, summed))

    def _sorting(self, part: Part, forward: Number, backward: Number, saved: Number = 0.0) -> Step:
        kernels, elements = 1.0 + self._sorts_again, self._copied_bytes / self.x.stream_bytes
        return elementwise("experts", part, elements, (forward, backward), (kernels, kernels), saved_bytes=saved)

    def _travel(self, part: Part) -> Step:
        """Between ranks with other experts, and among those that split one, which all get the expert's tokens.

        The gradient of a dispatch travels as outputs do, and that of outputs as a dispatch.
        """
        x = self.x
        share = self.of.chosen_groups / self.of.groups
        sent, once = self._copied_bytes, None
        if x.plan.expert_dispatch != "all-to-all":
            sent = self._token_bytes * distinct_ranks(self.of.count, self.of.per_token, x.e, group_share=share)
            once = (float(self.of.per_token), float(self.of.count), share)
        leg = partial(collective, "experts", part=part, overlapped_with="micro-batch")
        across = leg("all_to_all", sent, x.e > 1, ranks="expert", choices=once)
        whole = self._copied_bytes * x.u
        gathered = [*across, *leg("all_gather", whole, x.u > 1, ranks="expert tensor")]
        scattered = [*leg("reduce_scatter", whole, x.u > 1, ranks="expert tensor"), *across]
        return Step(gathered, scattered) if part == "dispatch" else Step(scattered, gathered)

    def _launched_each(self, operators: Sequence[Operator]) -> list[Operator]:
        """The same operators launched for every expert: products, their operands' quantization and scales.

        A product has whole tiles and waves of its own.
        """
        low = self.x.low
        scaled = low is not None and low.recipe.name in ("mxfp8", "nvfp4")
        kernels = 1.0 + SCALED_OPERANDS * scaled
        return [
            replace(op, batch=1.0, count=self.local, kernels=kernels, saved_bytes=op.saved_bytes / self.local)
            if isinstance(op, Matmul)
            else replace(op, kernels=self.local * op.kernels)
            for op in operators
        ]


def training_experts(x: TrainingAttention, figures: Experts) -> TrainingExperts:
    """Return the routed experts of one layer.

    Without a capacity the busiest rank has its share of all the ``e u`` ranks' choices. A capacity gives every expert
    the same number of rows from every rank, dropped or padded.
    """
    own, ranks, width = x.own_tokens, x.e * x.u, float(figures.latent_width or x.h)
    if x.plan.expert_capacity > 0:
        taken = np.ceil(own * figures.per_token / figures.count * x.plan.expert_capacity)
        return TrainingExperts(x=x, of=figures, width=width, each=taken * ranks, copies=taken * figures.count)
    chosen = own * ranks * figures.per_token
    each = chosen * busiest_share(x.e, chosen, skew=x.skew) / rounded_up(figures.count / x.e)
    return TrainingExperts(x=x, of=figures, width=width, each=each, copies=own * figures.per_token)


GATE_KERNELS = 6.0
"""Sigmoid of the strength; cast, bias, softplus, exponent and product of the decay."""


AUTOGRAD_BACKWARD_BYTES = 26.0
"""Bytes per logit of a loss backward where autograd writes the gradient of picking labels, from zeros, and log-softmax
reads it twice."""
SPLIT_LOSS_BYTES = 38.0
"""Bytes per logit of either pass over a sharded vocabulary, tensor by tensor
(torch.distributed.tensor.parallel.loss)."""


class TrainingKernels(TrainingAttention):
    """The steps that differ between training and inference, as a training framework runs them."""

    __slots__ = ()

    @property
    def decode(self) -> bool:
        """Training sees whole sequences."""
        return False

    def groups(self) -> list[Self]:
        """Groups of sequences that attention treats differently: one."""
        return [self]

    def absorbs(self, kind: LayerKind) -> bool:
        """Whether attention reads latent vectors themselves: selected tokens differ by query."""
        return kind.mixer == "sparse"

    def experts(self, figures: Experts) -> TrainingExperts:
        """The routed experts of a layer."""
        return training_experts(self, figures)

    @property
    def product_share(self) -> float:
        """1.0 where the down projection keeps its input; a fused gate recomputes the product from what went into it."""
        return 1.0 * (self.framework.memory.keeps_product or not (self.model.gated and self.fuses("activation")))

    def cache_write(self, elements: Number) -> list[Step]:
        """Training keeps no cache."""
        return []

    def whole_sequences(self, module: Module, inputs: Number, outputs: Number, steps: list[Step]) -> list[Step]:
        """``steps`` on whole sequences of some heads: ``inputs`` elements per token go there, and ``outputs`` back."""
        there, back = (exchange(self, module, inputs, "to heads"), exchange(self, module, outputs, "from heads"))
        return [Step(there, there), *steps, Step(back, back)]

    def recurrent(
        self, op: Operator, *, saved_bytes: Number = 0.0, kernels: tuple[float, float] = (1.0, 1.0), again: bool = False
    ) -> Step:
        """A kernel over whole sequences and its gradient.

        One whose output is not kept runs ``again`` in the backward pass.
        """
        forward = replace(op, saved_bytes=saved_bytes, kernels=kernels[0])
        backward = replace(op, direction="backward", kernels=kernels[1])
        return Step((forward,), (op, backward) if again else (backward,))

    @property
    def sequence_tokens(self) -> Number:
        """New tokens of a whole sequence."""
        return self.s * self.c

    @property
    def head_ranks(self) -> Number:
        """Ranks that heads of a recurrent mixer are split over, which context parallelism adds to."""
        return self.t * self.c

    def key_heads(self, linear: LinearAttention) -> Number:
        """Key heads of the gated delta rule on one device, repeated for every value head."""
        return linear.value_heads / self.head_ranks

    def rule_inputs(self, linear: LinearAttention) -> list[Step]:
        """What flash-linear-attention launches before the gated delta rule: norms of queries and keys, gates."""
        e, tokens, module = self.element_bytes, self.tokens, LINEAR_ATTENTION
        key, value, heads = linear.key_width / self.t, linear.value_width / self.t, linear.value_heads / self.t
        repeated = heads * linear.key_dim
        if not linear.decays:
            return []
        decays = repeated if linear.decays > linear.value_heads else heads
        n, calls = tokens * 2.0 * repeated, 2.0 + 2.0 * (linear.value_heads > linear.key_heads)
        normed, kept = e * tokens * 2.0 * (key + repeated), e * (n + tokens * value)
        norm = elementwise(
            module, "norm of queries and keys", n, (normed, 2.0 * normed), (calls, calls), saved_bytes=kept
        )
        n, gated = tokens * decays, tokens * (16.0 + 4.0 * e) * decays
        kept = tokens * ((4.0 + e) * decays + 4.0 * heads)
        kernels = (GATE_KERNELS, GATE_KERNELS)
        gates = elementwise(module, "decay and strength", n, (gated, 2.0 * gated), kernels, saved_bytes=kept)
        return [norm, gates]

    def embed(self) -> list[Step]:
        """A gather (and the position's), its norm and dropout; backward scatters into the table."""
        lookups = 2.0 + (3.0 if self.model.positions == "learned" else 0.0)
        lookup = moving("embedding", "lookup", lookups * self.hidden_bytes, 4.0, elements=self.tokens * self.h)
        trained = self.trained.embedding
        steps = [
            Step((lookup,), (self._table_gradient(),) if trained else ()),
            Step(leave_region(self, "embedding"), enter_region(self, "embedding") if trained else ()),
        ]
        if self.model.embedding_norm:
            steps.append(self.norm("embedding"))
        if self.model.dropout > 0:
            mask = self.residual_bytes / self.stream_bytes
            moved = 2.0 * self.residual_bytes + mask
            steps.append(elementwise("embedding", "dropout", 0.0, (moved, moved), saved_bytes=mask))
        return steps

    def _table_gradient(self) -> Elementwise:
        """The dense gradient of the table is cleared, filled and added to the accumulated one."""
        elements = self.vocabulary * self.model.table_width
        added = elements * (self.element_bytes + self.framework.kernels.accumulation_traffic)
        return moving(
            "embedding", "table", added + 3.0 * self.hidden_bytes, 6.0, direction="backward", elements=elements
        )

    def final_norm(self) -> list[Step]:
        """The norm before the head, of several residual streams' sum."""
        return [*join_streams(self), self.norm("final norm")]

    def logits(self) -> list[Step]:
        """The logits of all tokens over the (sharded) vocabulary.

        The product is as low in precision as ``low`` says.
        """
        trained, kept = self.trained.head, self.entered_share * self.trained.head
        h, width = self.h, float(self.model.logits_width)
        product = self.linear(LinearLayer("head", "logits", width, self.vocabulary, kept=kept), trained=trained)
        inputs = quantized(self, "head", "input quantization", self.tokens * width, for_weights=trained)
        outputs = self.tokens * self.vocabulary
        backward = [
            *transposed_weights(self, "head", width * self.vocabulary),
            *quantized(self, "head", "gradient quantization", outputs, for_weights=trained),
            *(low_precision(self, op) for op in product.backward),
        ]
        casts = cast(self, "head", self.tokens * width, 1.0)
        backward += casts
        step = Step([*casts, *inputs, *(low_precision(self, op) for op in product.forward)], backward)
        caps = [soft_cap(self, "head", "capped logits", outputs)] if self.model.logit_cap else []
        transform = [self.linear(LinearLayer("head", "transform", h, width))] if self.model.transforms else []
        return [
            *transform,
            Step(enter_region(self, "head"), leave_backward(self, "head", trained=trained)),
            step,
            *caps,
        ]

    def choose(self) -> list[Step]:
        """Cross-entropy; unfused it is several kernels in fp32, whose gradient autograd may write out."""
        gathers = self.framework.allocation.gathers_logits
        logits, fused = self.tokens * self.vocabulary * (self.t if gathers else 1.0), self.fuses("cross-entropy")
        traffic = self.framework.kernels
        sizes: Sequence[Number] = [2.0 * self.element_bytes] * 2
        if not fused:
            forward, back = traffic.loss_traffic
            back = AUTOGRAD_BACKWARD_BYTES if self.framework.native.loss_by_autograd else back
            sizes = [self._unfused(forward), self._unfused(back)]
        elif traffic.fused_loss_traffic is not None:
            sizes = traffic.fused_loss_traffic
        kernels = (2.0, 1.0) if fused else (8.0, 3.0)
        there, back_bytes = (size * logits for size in sizes)
        steps = [elementwise("head", "cross-entropy", logits, (there, back_bytes), kernels)]
        return [*self._gathered_logits(logits), *steps] if gathers else steps

    def _gathered_logits(self, logits: Number) -> list[Step]:
        """All ranks' logits: copied out of the collective's buffer, then joined; backward a rank cuts out its own."""
        size, split = self.element_bytes * logits, 1.0 * (self.t > 1)
        sent = collective("head", "all_gather", size, split, overlapped_with="nothing")
        moved = split * size * 2.0
        return [Step(sent), elementwise("head", "joined", logits, (2.0 * moved, moved / self.t), (2.0 * split, split))]

    def _unfused(self, whole: float) -> Number:
        """Bytes per logit that a pass of an unfused loss moves, of which ``whole`` where every rank has all logits."""
        if not self.framework.native.loss_by_autograd or self.framework.allocation.gathers_logits:
            return whole
        return either(self.t > 1, SPLIT_LOSS_BYTES, whole)


def training_kernels(scenario: Scenario) -> TrainingKernels:
    """Return the kernels and sizes of ``scenario``'s micro-batch."""
    plan = scenario.plan
    t, c = plain(plan.tensor_parallel), plain(plan.context_parallel)
    split = (np.asarray(plan.sequence_parallel) != 0) & (np.asarray(t) > 1)
    split = split.astype(float) if split.ndim else float(split)
    rows = scenario.workload.rows(plan.sequences)
    s, b = rows.tokens / c, plan.sequences * 1.0 * scenario.workload.sequences
    return TrainingKernels(
        model=scenario.model,
        plan=plan,
        dtype=plan.high_precision_dtype,
        element_bytes=ELEMENT_BYTES[plan.high_precision_dtype],
        s=s,
        context=rows.tokens,
        documents=rows.tokens**2 / rows.squares,
        b=b,
        tokens=s * b,
        t=t,
        r=1.0 + split * (t - 1.0),
        split=split,
        c=c,
        y=plain(head_ranks(plan, scenario.model, scenario.cluster.per_node)),
        e=plain(plan.expert_parallel),
        u=plain(plan.expert_tensor_parallel),
        skew=plan.expert_skew,
        shape=scenario.model.own_heads,
        framework=framework_under(plan, log_probabilities=scenario.workload.preference != "none"),
        trained=trained_by(plan, tied=scenario.model.tied_embeddings),
        low=low_precision_of(scenario),
    )
