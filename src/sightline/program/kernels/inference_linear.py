"""Products, element-wise kernels and collectives of an inference pass."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from sightline.content import fields_of, record
from sightline.frameworks import Engine
from sightline.program.formats import Formats
from sightline.program.operators import (
    CollectiveRanks,
    Elementwise,
    GroupedMatmul,
    KernelClass,
    Matmul,
    MatrixVector,
    Module,
    Operator,
    Part,
    collective,
)
from sightline.program.program import LinearLayer, Step
from sightline.program.routing import Batch, SequenceGroup, expected_active
from sightline.program.shapes import Shapes
from sightline.quantities import Number, anywhere, identity
from sightline.scenario.cluster import CollectiveKind
from sightline.scenario.generation import Sampling, ServedAdapters


@record
class InferenceLinear(Shapes):
    """The sizes of a batch, and what an engine makes of products with weights.

    Legend besides that of `sightline.program.shapes`: ``q`` new tokens of a sequence, ``c`` tokens already cached,
    ``d`` data-parallel ranks, ``u`` ranks that split each expert.
    """

    engine: Engine
    formats: Formats
    batch: Batch
    d: Number
    spread: float | None = None
    """Relative deviation of experts' popularity, where it is known."""
    copies: Number | None = None
    """Copies of busy experts, where experts are placed by their load."""
    identical_tokens: bool = False
    """All tokens are the same one, and choose the same experts."""
    expands_weights: bool = False
    """Quantized weights are written out in 16 bits before each product."""
    expert_multiples: tuple[float, float] = (1.0, 1.0)
    """`EngineKernels.mxfp4_multiples` of the device."""
    adapters: ServedAdapters | None = None
    """Low-rank adapters next to all linear layers, one of them for each sequence."""
    sampling: Sampling | None = None
    """How tokens are drawn; None: the most likely one."""
    nvidia: bool = True
    """The device is NVIDIA's, for which engines have sampling kernels."""
    expert_devices: Number = 0
    """Devices that hold experts alone; 0: those with attention hold them."""
    beside: "InferenceLinear | None" = None
    """The sizes on devices with attention, of those on such devices."""

    @property
    def group(self) -> SequenceGroup:
        """The sequences, where they are alike."""
        return self.batch.groups[0]

    @property
    def b(self) -> Number:
        """Sequences of the (first) group."""
        return self.group.count

    @property
    def q(self) -> Number:
        """New tokens of each."""
        return self.group.new_tokens

    @property
    def c(self) -> Number:
        """Tokens of each that are cached."""
        return self.group.context_tokens

    @property
    def decode(self) -> bool:
        """Whether all sequences decode."""
        return self.batch.decode

    @property
    def u(self) -> Number:
        """Ranks that each expert is split over."""
        return self.t * self.d / self.e

    @property
    def piece_tokens(self) -> Number:
        """Tokens of a rank outside the tensor-parallel regions: all, since engines do not split sequences there."""
        return self.tokens

    own_tokens = piece_tokens

    @property
    def entered_share(self) -> float:
        """Nothing is kept for a backward pass; the share has no effect."""
        return 1.0

    def fuses(self, kernel: str) -> bool:
        """Whether the engine runs these operators as one kernel."""
        return kernel in self.engine.kernels.fused

    def projection(self, layer: LinearLayer) -> Step:
        """A product with weights in the format of their part; joined layers run separately unless fused.

        Pieces of one name and width are executions of one operator.
        """
        module, k = layer.module, layer.inputs
        m = self.tokens if layer.rows is None else layer.rows
        kernel = self.formats.plain if layer.of is None else self.formats.parts[layer.of]
        products: list[Operator] = []
        if not layer.pieces or self.fuses(layer.name):
            products.append(self.matmul(module, layer.part, m, layer.outputs, k, kernel, batch=layer.batch))
        else:
            for (name, width), copies in _alike(layer.pieces):
                products.append(self.matmul(module, name, m, width, k, kernel, count=copies))
        if self.adapters is None or not layer.targets:
            return Step(products)
        return self._adapted(layer, m, products, self.adapters)

    def _adapted(self, layer: LinearLayer, rows: Number, products: list[Operator], adapters: ServedAdapters) -> Step:
        """A linear layer with its adapters in two kernels, as Punica has them (arXiv 2310.18547).

        Each reads the matrices of the adapters that the batch's sequences asked for, one each, evenly chosen. Of so low
        ranks they are bound by memory. With tensor parallelism a rank has the whole of one matrix and its part of the
        other; layers that run as one have their adapters in one kernel. Left out: adapters of routed experts.
        """
        down, up = layer.inputs * adapters.rank * len(layer.targets), layer.outputs * adapters.rank
        active = expected_active(float(adapters.count), 1.0, self.batch.logits, spread=0.0)
        inner = float(adapters.rank * len(layer.targets))
        # The second adds to what the layer put out.
        moved = rows * (layer.inputs + inner) + active * down, rows * (inner + 2.0 * layer.outputs) + active * up
        return Step(
            (
                *products,
                self.stream(layer.module, "adapter A", "residual", moved[0]),
                self.stream(layer.module, "adapter B", "residual", moved[1]),
            ),
            adapter_parameters=adapters.count * (down + up),
        )

    linear = projection

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
        """A product with weights in the format ``kernel``; of few rows in the engine's own kernel, if it has one."""
        stored, own = self.formats.operands[kernel], self.engine.kernels
        product = Matmul(
            module=module,
            part=part,
            count=count,
            kernels=own.product_kernels.get(kernel, 1.0),
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
        unpacks = own.matrix_vector_16_bit or stored.weight_bytes < stored.activation_bytes
        if own.matrix_vector_rows > 0 and self.decode and unpacks:
            on_matrix_units = own.matrix_vector_units == "matrix"
            return MatrixVector(most_rows=own.matrix_vector_rows, on_matrix_units=on_matrix_units, **fields_of(product))
        return product

    def stream(
        self,
        module: Module,
        part: Part,
        kind: KernelClass,
        elements: Number,
        kernels: Number = 1.0,
        count: Number = 1.0,
    ) -> Elementwise:
        """A bandwidth-bound kernel (or several) moving ``elements`` in all, read and written together."""
        return Elementwise(
            module=module,
            part=part,
            kind=kind,
            traffic_bytes=self.element_bytes * elements,
            arithmetic=self.engine.llama_cpp.stream_instructions * elements,
            kernels=kernels,
            count=count,
        )

    def collective(
        self,
        module: Module,
        kind: CollectiveKind,
        buffer_bytes: Number,
        ranks: CollectiveRanks = "tensor",
        count: Number = 1.0,
    ) -> list[Operator]:
        """A collective over ``ranks``; nothing where they are one."""
        several = {"tensor": self.t, "data": self.d}[ranks] > 1.0
        return collective(module, kind, buffer_bytes, several * count, ranks=ranks)

    def region(
        self, module: Module, projections: Sequence[Step], targets: tuple[str, ...] = (), *, enters: bool = True
    ) -> list[Step]:
        """Column-split projections: every rank has their whole input."""
        return list(projections)

    def leave(self, module: Module) -> list[Step]:
        """Behind a row-split projection partial sums are added up, then its bias, if no other kernel takes that along.

        Shared experts are summed with the routed ones; in a parallel block attention with the MLP.
        """
        model = self.model
        if module == "shared experts" or (module == "output projection" and model.parallel_block):
            return []
        sums = self.collective(module, "all_reduce", self.hidden_bytes)
        bias = model.output_bias if module == "output projection" else model.mlp_bias
        if not sums or not bias or model.parallel_block or self.fuses("layernorm"):
            return [Step(sums)]
        return [Step((*sums, self.stream(module, "bias", "residual", 2.0 * self.tokens * self.h)))]


def _alike(pieces: Sequence[tuple[Part, Number]]) -> Iterator[tuple[tuple[Part, Number], float]]:
    """Pieces of one name and width with their number; one without outputs, as of values that are keys, is none."""
    found: dict[object, list[tuple[Part, Number]]] = {}
    for name, width in pieces:
        if anywhere(width > 0.0):
            found.setdefault((name, identity(width)), []).append((name, width))
    return ((copies[0], float(len(copies))) for copies in found.values())


UNPACKING = 12.0
"""Vector instructions that unpack and scale a weight; estimated."""
UNPACKING_IN_PRODUCT: Mapping[str, float] = {"q4_0": 2.7, "q4_k_m": 7.1}
"""The same where a product's own kernel does it besides multiplying, by format: what 512-token prompts of Llama-2-7B
took longer than in f16 on M2 Ultra, at 1,164 and 1,028 instead of 1,265 tokens/s (ggml-org/llama.cpp#3084, 2023-09)."""
SINGLE_ROW_KERNELS = frozenset({"nf4"})
"""Formats whose library multiplies packed weights with one row only (bitsandbytes), whatever engine calls it."""
PRODUCTS = (Matmul, GroupedMatmul)
"""Operators whose inputs are quantized where their format asks for it."""


def converted(x: InferenceLinear, operators: Sequence[Operator]) -> list[Operator]:
    """Return a layer's operators with what converts operands of its products, unless the kernels before them do.

    Weights are written out in 16 bits before products that the engine or the library computes so: llama.cpp does in all
    products of prompts, and casts their results; bitsandbytes in those of more than one row. Inputs are quantized.
    """
    found: list[Operator] = []
    for op in operators:
        products = _around(x, op) if isinstance(op, Matmul) else [op]
        around = [one for each in products for one in (*_quantization(x, each), each)]
        found += around if op.group is None else [replace(each, group=op.group) for each in around]
    return found


def _quantization(x: InferenceLinear, op: Operator) -> Sequence[Operator]:
    """The kernel that quantizes the input of a matmul; nothing before one that takes it as it is."""
    if not isinstance(op, PRODUCTS) or op.element_bytes >= x.element_bytes or x.fuses("quantization"):
        return ()
    # What goes up to experts is quantized before it is laid out in blocks.
    rows = op.batch * op.m if isinstance(op, Matmul) else op.rows + op.empty_rows * (op.part != "up")
    elements = rows * op.k * (1.0 + op.element_bytes / x.element_bytes)
    return [x.stream(op.module, "quantization", "copy", elements, count=op.count)]


def _around(x: InferenceLinear, op: Matmul) -> list[Operator]:
    if x.expands_weights:
        return _expanded(x, op)
    if x.engine.llama_cpp.product_columns and not x.decode and op.kernel in UNPACKING_IN_PRODUCT:
        return [_unpacking(x, op), op]
    return _by_rows(x, op) if op.kernel in SINGLE_ROW_KERNELS else [op]


def _by_rows(x: InferenceLinear, op: Matmul) -> list[Operator]:
    """One row as it is, more of them after the weights were written out."""
    many = np.greater(op.m, 1.0) * 1.0
    plain = Matmul(**{f.name: getattr(op, f.name) for f in fields(Matmul)})
    expanded = [replace(each, count=each.count * many) for each in _expanded(x, plain)] if anywhere(many) else []
    return [*expanded, *([] if np.all(many) else [replace(op, count=op.count * (1.0 - many))])]


def _unpacking(x: InferenceLinear, op: Matmul) -> Operator:
    """What the product's own kernel does besides multiplying: each tile of columns unpacks all weights again."""
    tiles = np.ceil(op.m / x.engine.llama_cpp.product_columns)
    inside = x.stream(op.module, "unpack weights", "copy", 0.0, kernels=0.0, count=op.count)
    return replace(inside, arithmetic=UNPACKING_IN_PRODUCT[op.kernel] * op.batch * op.n * op.k * tiles)


def _expanded(x: InferenceLinear, op: Matmul) -> list[Operator]:
    own, plain = x.element_bytes, x.formats.operands[x.formats.plain]
    stored = plain.weight_bytes if op.weight_bytes is None else op.weight_bytes
    product = replace(op, kernel=x.formats.plain, weight_bytes=plain.weight_bytes, stored_bytes=stored, kernels=1.0)
    around: list[Operator] = [replace(product, output_bytes=plain.activation_bytes)]
    if op.kernel != x.formats.plain:
        elements = op.batch * op.n * op.k * (stored + plain.weight_bytes) / own
        expansion = x.stream(op.module, "expand weights", "copy", elements, kernels=op.kernels, count=op.count)
        around.insert(0, replace(expansion, arithmetic=UNPACKING * op.batch * op.n * op.k))
    if own > plain.activation_bytes:
        elements = op.batch * op.m * op.n * (1.0 + plain.activation_bytes / own)
        around.append(x.stream(op.module, "widen", "copy", elements, count=op.count))
    return around
