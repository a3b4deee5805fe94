"""Experts in training: how tokens reach them and come back, and their products.

Plainly a rank sends a copy of a token for each expert it chose. Deduplicating exchanges (DeepEP, HybridEP) send one to
each rank that holds any of them, and one to each node across the network, where it is handed on; copies are made, and
outputs added up, next to the experts. Source of the flow: Megatron-Core MoE (arXiv 2504.14960).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sightline.program.address import Part
from sightline.program.kernels.training_attention import TrainingAttention
from sightline.program.operators import Matmul, Operator, collective
from sightline.program.program import LinearLayer, Step, elementwise
from sightline.program.routing import RoutedExperts, busiest_share, distinct_ranks
from sightline.quantities import Number, rounded_up
from sightline.scenario import Experts

ROUTER_KERNELS = 6.0
"""Softmax, choice of the largest, their weights, the map of tokens to experts, its counts, and the balance loss."""
SCALED_OPERANDS = 2.0
"""Kernels per product that bring the scales of its operands' blocks into the order that it reads them in."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
        sizes = self._copied_bytes + self._token_bytes + 2.0 * self._sorts_again * self._copied_bytes
        return [self._sorting("permutation", sizes, sizes), self._travel("dispatch")]

    def combine(self) -> list[Step]:
        """Outputs travel back, and a token's are brought together; backward spreads the gradient to all of them.

        Where weights are applied here and not in the activation, the outputs are kept for the weights' gradient.
        """
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
        size = self.x.element_bytes * self.x.own_tokens * self.x.h
        return [elementwise("shared experts", "sum", size / self.x.element_bytes, (3.0 * size, 3.0 * size))]

    @property
    def _copied_bytes(self) -> Number:
        """All copies of the rank's tokens: one for each chosen expert, or the experts' capacity."""
        return self.x.element_bytes * self.copies * self.width

    @property
    def _token_bytes(self) -> Number:
        """The rank's tokens once."""
        return self.x.element_bytes * self.x.own_tokens * self.width

    @property
    def _sorts_again(self) -> Number:
        """1.0 where copies arrive plainly from several ranks."""
        return 1.0 * (self.x.e > 1) * (self.x.plan.expert_dispatch == "all-to-all")

    def _sorting(self, part: Part, forward: Number, backward: Number, saved: Number = 0.0) -> Step:
        kernels, elements = 1.0 + self._sorts_again, self._copied_bytes / self.x.element_bytes
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
        """The same operators launched for every expert: products, their operands' quantization and scales."""
        low = self.x.low
        scaled = low is not None and low.recipe.name in ("mxfp8", "nvfp4")
        return [
            replace(op, kernels=self.local * (1.0 + SCALED_OPERANDS * (scaled and isinstance(op, Matmul))) * op.kernels)
            for op in operators
        ]


def training_experts(x: TrainingAttention, of: Experts) -> TrainingExperts:
    """Return the routed experts of one layer.

    Without a capacity the busiest rank has its share of all the ``e u`` ranks' choices. A capacity gives every expert
    the same number of rows from every rank, dropped or padded.
    """
    own, ranks, width = x.own_tokens, x.e * x.u, float(of.latent_width or x.h)
    if x.plan.expert_capacity > 0:
        taken = np.ceil(own * of.per_token / of.count * x.plan.expert_capacity)
        return TrainingExperts(x=x, of=of, width=width, each=taken * ranks, copies=taken * of.count)
    chosen = own * ranks * of.per_token
    each = chosen * busiest_share(x.e, chosen, skew=x.skew) / rounded_up(of.count / x.e)
    return TrainingExperts(x=x, of=of, width=width, each=each, copies=own * of.per_token)
