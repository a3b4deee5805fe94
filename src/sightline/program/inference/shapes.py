"""Sizes of one inference pass on one device.

Legend: ``b`` sequences of a data-parallel rank, ``q`` new tokens of each, ``c`` tokens already cached, ``h`` hidden size,
``t`` tensor-parallel, ``d`` data-parallel, ``e`` expert-parallel ranks, ``u`` ranks that an expert is cut over.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sightline.program.address import KernelClass, Module, Part
from sightline.program.formats import Formats
from sightline.program.inference.operators import MatrixVector
from sightline.program.operators import (
    COLLECTIVE_PARTS,
    Collective,
    CollectiveKind,
    CollectiveRanks,
    Elementwise,
    Matmul,
)
from sightline.quantities import Number
from sightline.scenario import Engine, Model
from sightline.scenario.model import WeightPart


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PassShapes:
    """The sizes every block of a pass is written with."""

    model: Model
    engine: Engine
    formats: Formats
    dtype: str
    element_bytes: float
    b: Number
    q: Number
    c: Number
    t: Number
    d: Number
    e: Number
    skew: Number
    decode: bool
    logits: Number
    """Tokens per sequence whose logits are wanted."""
    alike: bool = False
    """All tokens are the same one, and choose the same experts."""
    expands_weights: bool = False
    """Quantized weights are written out in 16 bits before each product."""

    @property
    def tokens(self) -> Number:
        """New tokens of the rank."""
        return self.b * self.q

    @property
    def h(self) -> float:
        """Hidden size."""
        return float(self.model.hidden_size)

    @property
    def u(self) -> Number:
        """Ranks that each expert is cut over."""
        return self.t * self.d / self.e

    @property
    def hidden_bytes(self) -> Number:
        """Bytes of one hidden-wide activation of the new tokens."""
        return self.element_bytes * self.tokens * self.h

    def fuses(self, chain: str) -> bool:
        """Whether the engine runs that chain as one kernel."""
        return chain in self.engine.kernels.fused

    def linear(
        self, module: Module, part: Part, n: Number, k: Number, of: WeightPart = "attention", *, count: Number = 1.0
    ) -> Matmul:
        """A projection of the new tokens from ``k`` to ``n`` elements, whose weights belong to part ``of``."""
        return self.matmul(module, part, self.tokens, n, k, self.formats.parts[of], count=count)

    def matmul(
        self,
        module: Module,
        part: Part,
        m: Number,
        n: Number,
        k: Number,
        kernel: str,
        *,
        batch: Number = 1.0,
        count: Number = 1.0,
    ) -> Matmul:
        """A product with weights in the format ``kernel``."""
        stored, most_rows = self.formats.operands[kernel], self.engine.kernels.matrix_vector_rows
        own = (
            self.decode and most_rows > 0 and (self.engine.kernels.matrix_vector_16_bit or kernel != self.formats.plain)
        )
        return (partial(MatrixVector, most_rows=most_rows) if own else Matmul)(
            module=module,
            part=part,
            count=count,
            kernels=self.engine.kernels.product_kernels.get(kernel, 1.0),
            m=m,
            n=n,
            k=k,
            batch=batch,
            dtype=stored.compute_dtype,
            element_bytes=stored.activation_bytes,
            output_bytes=self.element_bytes,
            weight_bytes=stored.weight_bytes,
            kernel=kernel,
        )

    def stream(
        self,
        module: Module,
        kind: KernelClass,
        elements: Number,
        *,
        kernels: Number = 1.0,
        part: Part | None = None,
        count: Number = 1.0,
    ) -> Elementwise:
        """A bandwidth-bound kernel (or several) moving ``elements`` in all, read and written together."""
        traffic = self.element_bytes * elements
        return Elementwise(
            module=module,
            part=part or kind,
            kind=kind,
            traffic_bytes=traffic,
            arithmetic=self.engine.llama_cpp.stream_instructions * elements,
            kernels=kernels,
            count=count,
        )

    def collective(
        self, module: Module, kind: CollectiveKind, buffer_bytes: Number, ranks: CollectiveRanks = "tensor"
    ) -> list[Collective]:
        """A collective over ``ranks``; nothing where they are one."""
        size = {"tensor": self.t, "expert": self.e, "data": self.d}[ranks]
        many = size > 1.0
        if not (many if isinstance(many, bool) else np.any(many)):
            return []
        count: Number = many * 1.0
        part = COLLECTIVE_PARTS[kind]
        return [Collective(module=module, part=part, kind=kind, buffer_bytes=buffer_bytes, ranks=ranks, count=count)]
