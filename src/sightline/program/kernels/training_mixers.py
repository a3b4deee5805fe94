"""Kernels of recurrent mixers in training: what flash-linear-attention and Mamba-2 launch, and what they keep.

A state sees tokens one after the other, so context parallelism exchanges sequences for heads around it.
"""

from typing import Any

from sightline.program.address import Module
from sightline.program.kernels.training_elementwise import TrainingElementwise
from sightline.program.mixer_operators import GatedDelta, ShortConvolution, StateSpaceScan
from sightline.program.operators import Operator
from sightline.program.step import Step, elementwise
from sightline.program.techniques.context_heads import exchange
from sightline.quantities import Number
from sightline.scenario import LinearAttention, StateSpace

CHUNK = 64.0
"""Tokens of a chunk of the gated delta rule, whose inverted triangle of corrections is kept."""
GATE_KERNELS = 6.0
"""Sigmoid of the strength; cast, bias, softplus, exponent and product of the decay."""


class TrainingMixers(TrainingElementwise):
    """Recurrent mixers, between their projections."""

    __slots__ = ()

    def whole_sequences(self, module: Module, inputs: Number, outputs: Number, steps: list[Step]) -> list[Step]:
        """``steps`` on whole sequences of some heads: ``inputs`` elements per token are exchanged, and ``outputs`` back."""
        there, back = (exchange(self, module, inputs, "to heads"), exchange(self, module, outputs, "from heads"))
        return [Step(there, there), *steps, Step(back, back)]

    def convolution(
        self, module: Module, channels: Number, width: float, *, gates: Number = 0.0, runs_again: bool = False
    ) -> list[Step]:
        """The short convolution, whose inputs are kept with ``gates`` elements per token that others need.

        Where its output is not kept it ``runs_again`` in the backward pass.
        """
        kept = self.element_bytes * self.tokens * (channels + gates)
        common: dict[str, Any] = {
            **self._sequences(module),
            "part": "conv",
            "channels": channels / self.c,
            "width": width,
            "element_bytes": self.element_bytes,
        }
        again: list[Operator] = [ShortConvolution(**common)] if runs_again else []
        backward = (*again, ShortConvolution(direction="backward", **common))
        return [Step((ShortConvolution(saved_bytes=kept, **common),), backward)]

    def gated_delta(self, linear: LinearAttention) -> list[Step]:
        """The gated delta rule in chunks behind norms of queries and keys, decays and strengths.

        Keys are repeated for every value head.
        """
        e, tokens = self.element_bytes, self.tokens
        key, value, heads = linear.key_width / self.t, linear.value_width / self.t, linear.value_heads / self.t
        repeated = heads * linear.key_dim
        decays = heads if linear.gate_rank is None else repeated
        normed, gated = e * tokens * (2.0 * key + 2.0 * repeated), tokens * (16.0 + 4.0 * e) * decays
        calls = 2.0 + 2.0 * (linear.value_heads > linear.key_heads)
        common: dict[str, Any] = {
            **self._sequences("linear attention"),
            "part": "gated delta",
            "key_heads": heads / self.c,
            "value_heads": heads / self.c,
            "key_dim": float(linear.key_dim),
            "value_dim": float(linear.value_dim),
            "dtype": self.dtype,
            "element_bytes": e,
        }
        return [
            elementwise(
                "linear attention",
                "norm of queries and keys",
                tokens * 2.0 * repeated,
                normed,
                2.0 * normed,
                kernels=calls,
                backward_kernels=calls,
                saved_bytes=e * tokens * (2.0 * repeated + value),
            ),
            elementwise(
                "linear attention",
                "decay and strength",
                tokens * decays,
                gated,
                2.0 * gated,
                kernels=GATE_KERNELS,
                backward_kernels=GATE_KERNELS,
                saved_bytes=tokens * ((4.0 + e) * decays + 4.0 * heads),
            ),
            Step(
                (GatedDelta(saved_bytes=e * tokens * heads * CHUNK, kernels=5.0, **common),),
                (GatedDelta(direction="backward", kernels=9.0, **common),),
            ),
        ]

    def scan(self, space: StateSpace) -> list[Step]:
        """Mamba-2's scan, whose fused kernel keeps what the projection and the convolution keep."""
        common: dict[str, Any] = {
            **self._sequences("state space"),
            "part": "scan",
            "heads": space.heads / self.t / self.c,
            "head_dim": float(space.head_dim),
            "groups": space.groups / self.t / self.c,
            "state": float(space.state),
            "dtype": self.dtype,
            "element_bytes": self.element_bytes,
        }
        forward, backward = (
            StateSpaceScan(kernels=5.0, **common),
            StateSpaceScan(direction="backward", kernels=10.0, **common),
        )
        return [Step((forward,), (backward,))]

    def _sequences(self, module: Module) -> dict[str, Any]:
        return {"module": module, "sequences": self.b, "new_tokens": self.s * self.c, "decode": False}
