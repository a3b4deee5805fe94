"""Kernels of recurrent mixers in training: what flash-linear-attention and Mamba-2 launch, and what they keep.

A state sees tokens one after the other, so context parallelism exchanges sequences for heads around it.
"""

from dataclasses import replace
from typing import Any

from sightline.program.address import LINEAR_ATTENTION, Module
from sightline.program.kernels.training_elementwise import TrainingElementwise
from sightline.program.operators import Operator
from sightline.program.step import Step, elementwise
from sightline.program.techniques.context_heads import exchange
from sightline.quantities import Number
from sightline.scenario import LinearAttention

GATE_KERNELS = 6.0
"""Sigmoid of the strength; cast, bias, softplus, exponent and product of the decay."""


class TrainingMixers(TrainingElementwise):
    """Recurrent mixers, between their projections: what flash-linear-attention and Mamba-2 launch, and what they keep."""

    __slots__ = ()

    def whole_sequences(self, module: Module, inputs: Number, outputs: Number, steps: list[Step]) -> list[Step]:
        """``steps`` on whole sequences of some heads: ``inputs`` elements per token are exchanged, and ``outputs`` back."""
        there, back = (exchange(self, module, inputs, "to heads"), exchange(self, module, outputs, "from heads"))
        return [Step(there, there), *steps, Step(back, back)]

    def recurrent(
        self, op: Operator, *, saved_bytes: Number = 0.0, kernels: tuple[float, float] = (1.0, 1.0), again: bool = False
    ) -> Step:
        """A kernel over whole sequences and its gradient; one whose output is not kept runs ``again`` in the backward pass."""
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
        """What flash-linear-attention launches before the gated delta rule: norms of queries and keys, decays, strengths."""
        e, tokens, module = self.element_bytes, self.tokens, LINEAR_ATTENTION
        key, value, heads = linear.key_width / self.t, linear.value_width / self.t, linear.value_heads / self.t
        repeated = heads * linear.key_dim
        decays = heads if linear.gate_rank is None else repeated
        n, normed, gated = (
            tokens * 2.0 * repeated,
            e * tokens * 2.0 * (key + repeated),
            tokens * (16.0 + 4.0 * e) * decays,
        )
        calls = 2.0 + 2.0 * (linear.value_heads > linear.key_heads)
        norm: Any = {"kernels": calls, "backward_kernels": calls, "saved_bytes": e * (n + tokens * value)}
        kept = tokens * ((4.0 + e) * decays + 4.0 * heads)
        gates: Any = {"kernels": GATE_KERNELS, "backward_kernels": GATE_KERNELS, "saved_bytes": kept}
        return [
            elementwise(module, "norm of queries and keys", n, normed, 2.0 * normed, **norm),
            elementwise(module, "decay and strength", tokens * decays, gated, 2.0 * gated, **gates),
        ]
