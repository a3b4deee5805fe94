"""Sizes of one pass on one device after tensor and sequence parallelism, and those of a micro-batch of training.

Legend, as in Korthikanti 2022 (arXiv 2205.05198): ``s`` tokens of a sequence on the device, ``b`` sequences, ``h``
hidden size, ``t`` tensor-parallel ranks; ``r`` divides what lies between tensor-parallel regions: t with sequence
parallelism, else 1; ``c`` context-parallel ranks, of which ``y`` split heads, ``e`` expert-parallel and ``u``
expert-tensor-parallel ranks.
"""

from dataclasses import dataclass
from typing import Any

from sightline.frameworks import Framework
from sightline.program.address import Direction, Module, Part
from sightline.program.operators import Matmul
from sightline.program.settings import LowPrecision, Trained
from sightline.quantities import Number, larger, rounded_up
from sightline.scenario import Heads, Model, Plan

ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0}
"""Bytes of an activation by compute dtype."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shapes:
    """The sizes every block is written with."""

    model: Model
    dtype: str
    """Compute type of everything that is not in fewer bits."""
    element_bytes: float
    tokens: Number
    """Tokens that pass through the layers."""
    t: Number
    e: Number
    skew: Number
    """Lasting unevenness of the experts' load, as the relative deviation of a rank's."""
    shape: Heads
    """Head shape of the layer kind that is written out."""

    @property
    def h(self) -> float:
        """Hidden size."""
        return float(self.model.hidden_size)

    @property
    def heads(self) -> Number:
        """Query heads on one device."""
        return self.shape.heads / self.t

    @property
    def kv_heads(self) -> Number:
        """Key/value heads on one device; replicated when there are fewer heads than devices."""
        return larger(self.shape.kv_heads / self.t, 1.0)

    @property
    def query_width(self) -> Number:
        """Elements of the queries of a token on one device."""
        return self.heads * self.shape.head_dim

    @property
    def key_width(self) -> Number:
        """Elements of the keys of a token on one device."""
        return self.kv_heads * self.shape.head_dim

    @property
    def value_width(self) -> Number:
        """Elements of the values of a token on one device."""
        return self.kv_heads * self.shape.value_dim

    @property
    def context_width(self) -> Number:
        """Elements that attention hands to the output projection, per token on one device."""
        return self.heads * self.shape.value_dim

    @property
    def hidden_bytes(self) -> Number:
        """Bytes of one hidden-wide activation of all tokens."""
        return self.element_bytes * self.tokens * self.model.hidden_size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingShapes(Shapes):
    """The sizes of a micro-batch, and what a framework makes of them."""

    plan: Plan
    s: Number
    """Tokens of a sequence on one device."""
    context: Number
    """Tokens of a whole sequence."""
    documents: Number
    """Sequences packed into one that do not see each other, as many equally long ones as have its tokens and scores."""
    b: Number
    r: Number
    split: Number
    """1.0 with sequence parallelism and t > 1, else 0.0."""
    c: Number
    y: Number
    u: Number
    framework: Framework
    """What it fuses, pads and accumulates."""
    trained: Trained
    """Which weights get gradients."""
    low: LowPrecision | None
    """What the layers' linear products compute in below 16 bits, if they do."""

    @property
    def piece_tokens(self) -> Number:
        """Tokens that a rank works on outside the tensor-parallel regions."""
        return self.tokens / self.r

    @property
    def own_tokens(self) -> Number:
        """Tokens that a tensor-parallel rank brings to the experts."""
        return self.tokens / self.t

    @property
    def residual_bytes(self) -> Number:
        """Bytes of one hidden-wide activation outside the tensor-parallel regions."""
        return self.element_bytes * self.tokens * self.model.hidden_size / self.r

    @property
    def entered_share(self) -> Number:
        """Share that a column-split projection keeps of its input at 16 bits: its piece, or all that it gathered."""
        return 1.0 if self.framework.native.keeps_gathered_inputs else 1.0 / self.r

    @property
    def vocabulary(self) -> Number:
        """Vocabulary rows on one device; frameworks that pad round up to whole tiles of 128."""
        if not self.framework.kernels.pads_vocabulary:
            return self.model.vocab_size / self.t
        return rounded_up(self.model.vocab_size / self.t, 128.0)

    def product(
        self,
        module: Module,
        part: Part,
        m: Number,
        n: Number,
        k: Number,
        direction: Direction = "forward",
        *,
        output_bytes: Number | None = None,
        **further: Any,
    ) -> Matmul:
        """A product of 16-bit operands, or of ``element_bytes`` each; ``further`` fields are those of `Matmul`."""
        e = self.element_bytes
        return Matmul(
            module=module,
            part=part,
            direction=direction,
            m=m,
            n=n,
            k=k,
            dtype=self.dtype,
            element_bytes=e,
            output_bytes=e if output_bytes is None else output_bytes,
            **further,
        )

    def fuses(self, kernel: str) -> bool:
        """Whether the framework runs these element-wise operators as one kernel."""
        return kernel in self.framework.fusion.fused
