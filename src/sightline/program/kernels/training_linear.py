"""Linear layers of training: one matmul forward, two backward, and what techniques add around them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sightline.program.operators import Elementwise, Matmul, Module, Operator, Part
from sightline.program.program import LinearLayer, Step, elementwise, moving, one_step
from sightline.program.shapes import TrainingShapes
from sightline.program.techniques.adapters import adapter_steps, adapters_of, enter_adapted
from sightline.program.techniques.low_precision import (
    cast,
    dequantize,
    low_precision,
    quantized,
    quantized_weights,
    transposed_operands,
    transposed_weights,
)
from sightline.program.techniques.tensor_parallel import (
    enter_region,
    hook_calls,
    leave_backward,
    leave_region,
    reenter_region,
)
from sightline.quantities import Number, anywhere


class TrainingLinear(TrainingShapes):
    """Products with weights, and the regions that tensor parallelism makes of them."""

    __slots__ = ()

    def linear(self, layer: LinearLayer, *, trained: bool = True, keeps: bool = True) -> Step:
        """A product at 16 bits; where its weight is not ``trained``, the gradient only passes.

        It ``keeps`` its input for the backward pass, or has no use for it.
        """
        inputs, outputs, batch = layer.inputs, layer.outputs, layer.batch
        rows = self.tokens if layer.rows is None else layer.rows
        size = self.element_bytes * batch * rows
        product = partial(self.product, layer.module, layer.part, batch=batch, shares=layer.shares)
        hooks = hook_calls(self, trained=trained, weights=sum(share > 0 for share in layer.shares))
        forward = product(
            rows, outputs, inputs, saved_bytes=layer.kept * keeps * size * inputs, host_calls=hooks.forward
        )
        backward: list[Operator] = [product(rows, inputs, outputs, "input gradient", host_calls=hooks.backward)]
        accumulation: list[Operator] = []
        if trained:
            gradient, *accumulation = self._weight_gradient(forward)
            backward.append(gradient)
        if layer.bias and (trained or self.trained.rest):
            backward.append(moving(layer.module, "bias", size * outputs, direction="weight gradient"))
        return Step((forward,), [*backward, *accumulation], batch * inputs * outputs, batch * outputs * layer.bias)

    def _weight_gradient(self, product: Matmul) -> list[Operator]:
        """The product that makes a weight's gradient, and its addition to those of other micro-batches.

        Frameworks that fuse accumulation add the product to the gradient inside the matmul; others write a gradient and
        add or copy it in a kernel of its own, for every micro-batch.
        """
        module, traffic = product.module, self.framework.kernels.accumulation_traffic
        sizes: Any = {"batch": product.batch, "shares": product.shares, "input_row": product.n}
        if self.fuses("gradient-accumulation"):
            return [
                self.product(
                    module,
                    product.part,
                    product.n,
                    product.k,
                    product.m,
                    "weight gradient",
                    output_bytes=traffic,
                    **sizes,
                )
            ]
        n = product.batch * product.k * product.n
        return [
            self.product(module, product.part, product.n, product.k, product.m, "weight gradient", **sizes),
            moving(module, "accumulation", traffic * n, direction="weight gradient", elements=n),
        ]

    def projection(self, layer: LinearLayer) -> Step:
        """A linear layer that is trained, or a frozen one, quantized or not, with adapters.

        Below 16 bits it follows the recipe.

        A frozen matmul needs no input for its backward pass; an adapter next to it does, and some libraries keep it
        anyway.
        """
        trained = self.trained.projections
        keeps = trained or (self.trained.quantization != "none" and self.framework.litgpt.quantized_keeps_inputs)
        step = self._quantized(layer, self.linear(layer, trained=trained, keeps=keeps))
        if trained or not layer.targets:
            return step
        steps = [step]
        for i, adapter in enumerate(adapters_of(self, layer.inputs, layer.outputs, layer.targets, layer.shares)):
            steps += adapter_steps(self, layer.module, adapter, input_is_kept=keeps or i > 0)
        return one_step(steps)

    def _quantized(self, layer: LinearLayer, plain: Step) -> Step:
        """A linear layer with what makes its operands: from 16 bits to fewer, or from fewer to 16 bits."""
        trained, weights = self.trained.projections, plain.weights
        native = self.framework.native
        apart = layer.name in native.separate_projections
        if trained and self.low is None and not apart and not native.chunked_products:
            return plain
        module, gathered, scattered = layer.module, layer.gathered, layer.scattered
        each = layer.batch * (self.tokens if layer.rows is None else layer.rows)
        inputs, outputs = each * layer.inputs, each * layer.outputs
        forward, backward = plain.forward, plain.backward
        # Attention, before the output projection, computes in 16 bits.
        parts = sum(share > 0 for share in layer.shares) * (module != "output projection")
        into, out = cast(self, module, inputs * parts, parts), cast(self, module, outputs * (parts > 0), parts)
        if trained and apart:
            forward, backward = _apart(self, forward), _apart(self, backward)
        forward, backward = ([low_precision(self, op) for op in operators] for operators in (forward, backward))
        if trained and (gathered or scattered):
            forward = [_chunked(self, op) for op in forward]
        if trained and scattered:
            backward = [_chunked(self, op) if op.direction == "input gradient" else op for op in backward]
        return plain._replace(
            forward=[
                *(quantized_weights(self, module, weights) if trained else dequantize(self, module, weights)),
                *quantized(self, module, "input quantization", inputs, for_weights=trained, gathered=gathered),
                *into,
                *forward,
                *out,
            ],
            backward=[
                *out,
                *([] if trained else dequantize(self, module, weights)),
                *transposed_weights(self, module, weights),
                *quantized(self, module, "gradient quantization", outputs, for_weights=trained, gathered=scattered),
                *(transposed_operands(self, module, outputs + inputs) if trained else []),
                *backward,
                *into,
            ],
        )

    def region(
        self, module: Module, projections: Sequence[Step], targets: tuple[str, ...] = (), *, enters: bool = True
    ) -> list[Step]:
        """Column-split projections: with sequence parallelism their input is gathered, and again for their gradients.

        ``enters`` is False where the input was gathered for others already, and its gradient is summed with theirs.
        """
        native, trained = self.framework.native, self.trained.projections
        apart = ("qkv" if module == "qkv" else "gate-up") in native.separate_projections
        each = len(targets) if apart and native.reduces_each_gradient else 1
        left = leave_backward(self, module, trained=trained, joined=not apart, each=each)
        entering = Step(enter_adapted(self, module, targets), left)
        return [*([entering] if enters else []), *projections, Step((), reenter_region(self, module))]

    def leave(self, module: Module) -> list[Step]:
        """Behind a row-split projection: partial sums are reduced; backward the gradient is gathered.

        Routed experts' outputs come back whole, and in a parallel block the MLP leaves the region for attention too.
        """
        if module == "experts" or (module == "output projection" and self.model.parallel_block):
            return []
        return [Step(leave_region(self, module), enter_region(self, module))]


def _apart(x: TrainingShapes, operators: Sequence[Operator]) -> list[Operator]:
    """Return the operators of one pass of a linear layer with a product for each of its parts.

    The first keeps the input.
    """
    return [part for operator in operators for part in _parts(x, operator)]


def _chunked(x: TrainingShapes, operator: Operator) -> Operator:
    """Return a product next to a collective that is split by rank: a kernel for every rank's tokens.

    Without such a collective it stays as it is.
    """
    if not x.framework.native.chunked_products or not isinstance(operator, Matmul) or not anywhere(x.split):
        return operator
    return replace(operator, m=operator.m / x.r, count=operator.count * x.r, saved_bytes=operator.saved_bytes / x.r)


def _parts(x: TrainingShapes, operator: Operator) -> list[Operator]:
    shares = [share for share in operator.shares if share > 0.0] if isinstance(operator, Matmul) else []
    if not isinstance(operator, Matmul) or len(shares) < 2:
        return [operator]
    match operator.direction:
        case "input gradient":
            products = [replace(operator, k=operator.k * share, shares=(1.0,)) for share in shares]
            return [*products, _summed(x, operator, len(shares))]
        case "weight gradient":
            rows = [operator.m * share for share in shares]
            return [replace(operator, m=m, input_row=m, shares=(1.0,)) for m in rows]
        case _:
            products = [replace(operator, n=operator.n * share, shares=(1.0,)) for share in shares]
            return [products[0], *(replace(product, saved_bytes=0.0) for product in products[1:])]


def _summed(x: TrainingShapes, operator: Matmul, parts: int) -> Elementwise:
    elements = operator.batch * operator.m * operator.n
    return moving(
        operator.module, "input gradients summed", (parts + 1.0) * x.element_bytes * elements, elements=elements
    )


LATENT_ROPE = "latent-rope"
"""What a framework fuses that rotates, joins and cuts the heads in one kernel for queries and one for keys and values
(Megatron-Core's fused_mla_yarn_rope_apply, which is experimental there)."""
SINKHORN_KERNELS = 3.0
"""Sigmoids, and the rounds that make the mixing doubly stochastic in one kernel."""


class TrainingElementwise(TrainingLinear):
    """Norms, rotary embedding, activations, residuals."""

    __slots__ = ()

    def read_residual(self, module: Module, *, first: bool) -> list[Step]:
        """Before a half of a layer: its norm, which the MLP may share with attention, and what it reads of streams."""
        return [*_read_streams(self), *([self.norm(module)] if first or self.model.layer_norms > 1 else [])]

    def write_residual(self, module: Module) -> list[Step]:
        """Behind a half of a layer: a second norm, and the residual addition or its counterpart over streams."""
        second = [self.norm(module)] if self.model.layer_norms > 2 else []
        return [*second, *(_write_streams(self) or [self.residual()])]

    def norm(self, module: Module, part: Part = "norm", elements: Number | None = None, calls: float = 1.0) -> Step:
        """A norm of the hidden activation, or over ``elements``; LayerNorm is one kernel of PyTorch's own.

        An RMSNorm that nobody fuses upcasts, squares, averages, scales and casts back in seven kernels; autograd makes
        14 of them for the input, and two for the weight, whose gradient needs the normed input in 16 bits. In fp32 two
        of either pass cast nothing.
        """
        e, rest, casts = self.stream_bytes, self.trained.rest, 2.0 * (not self.trained.upcast)
        n = self.residual_bytes / e if elements is None else elements
        if self.fuses("norm") or self.model.norm == "layernorm":
            sizes, kernels = (2.0 * e * n, 4.0 * e * n), (1.0, 2.0)
            saved = e * n
        else:
            cast = casts * (4.0 + e)
            sizes = ((20.0 + 2.0 * e + cast) * n, (68.0 + (2.0 + 4.0 * rest) * e + cast) * n)
            kernels = (5.0 + casts, 12.0 + casts + 2.0 * rest)
            saved = (4.0 + e * rest) * n
        return elementwise(module, part, n, sizes, (calls * kernels[0], calls * kernels[1]), saved_bytes=saved)

    def head_norm(self) -> Step:
        """Norms of the query and key heads, a call for each."""
        return self.norm("qkv", "head norm", self.tokens * (self.query_width + self.key_width), calls=2.0)

    def latent_norm(self, width: Number, norms: float = 1.0) -> Step:
        """Norms of latent vectors of ``width`` elements together, on every rank's piece of the sequence."""
        return self.norm("qkv", elements=width * self.piece_tokens)

    def rope(self, width: Number, *, latent: bool = False) -> Step:
        """Rotary embedding of ``width`` elements per token: read and write.

        Unfused it slices, negates, joins, multiplies and adds; in complex numbers it is a cast to fp32, one product and
        a cast back, of queries and of keys.
        """
        elements = self.tokens * width
        if self.fuses(LATENT_ROPE if latent else "rope"):
            passes, kernels = 2.0, 2.0
        else:
            passes, kernels = 10.0, 6.0 if self.framework.native.complex_rope else 10.0
        moved = passes * self.stream_bytes * elements
        return elementwise("rope", "rope", elements, (moved, moved), (kernels, kernels))

    def activation(self, width: Number, *, module: Module = "mlp", rows: Number | None = None) -> Step:
        """GELU, ReLU or SwiGLU over ``width`` elements of each of ``rows`` (the tokens); the inputs are kept.

        Eager PyTorch squares ReLU in a second kernel, whose gradient it makes as grad * (2 * x ** 1), each a kernel.
        """
        n = (self.tokens if rows is None else rows) * width
        tensor = self.stream_bytes * n
        if self.model.gated:
            fused = self.fuses("activation")
            there, back, kept = (3.0, 5.0, 2.0) if fused else (5.0, 9.0, 3.0)
            kernels = (1.0, 1.0) if fused else (2.0, 3.0)
        else:
            squares = self.model.activation == "relu2" and not self.fuses("squared-relu")
            there, back, kept = (4.0, 10.0, 1.0) if squares else (2.0, 3.0, 1.0)
            kernels = (2.0, 4.0) if squares else (1.0, 1.0)
        return elementwise(module, "activation", n, (there * tensor, back * tensor), kernels, saved_bytes=kept * tensor)

    def residual(self) -> Step:
        """Bias, dropout and residual addition.

        A dropout keeps one byte per element and is a kernel of its own unless fused.

        Backward the branch's masked gradient, and the sum of the branches' gradients.
        """
        size, drops = self.residual_bytes, self.model.dropout > 0
        n = size / self.stream_bytes
        kernels = 2.0 if drops and not self.fuses("bias-dropout-add") else 1.0
        back = (5.0 if drops else 3.0) * size + n * drops
        return elementwise(
            "residual",
            "residual",
            n,
            ((1.0 + 2.0 * kernels) * size + n * drops, back),
            (kernels, 2.0 if drops else 1.0),
            saved_bytes=n * drops,
        )

    def gate(self) -> list[Step]:
        """The context times a sigmoid of the gate that was projected with the queries, where the model has one."""
        if not self.model.attention_gate:
            return []
        n = self.tokens * self.context_width
        size = self.element_bytes * n
        return [elementwise("attention core", "gate", n, (3.0 * size, 5.0 * size), (2.0, 2.0), saved_bytes=2.0 * size)]

    def gated_norm(self, module: Module, width: Number) -> Step:
        """A norm of ``width`` elements per token times the activation of as wide a gate, in one kernel.

        Both are kept.
        """
        n = self.tokens * width
        size = self.element_bytes * n
        return elementwise(module, "gated norm", n, (3.0 * size, 5.0 * size), (1.0, 2.0), saved_bytes=2.0 * size)


def _read_streams(x: TrainingLinear) -> list[Step]:
    """Return what stands before a block: the streams' norm, the coefficients, and the block's input."""
    n = float(x.model.residual_streams)
    if n == 1.0:
        return []
    columns, stream = n * (n + 2.0), x.residual_bytes
    mixed = x.piece_tokens * columns
    return [
        _mix(x, "streams' norm", (n * stream, 3.0 * n * stream), kernels=(2.0, 2.0)),
        x.linear(LinearLayer("residual", "coefficients", n * x.h, columns, kept=0.0, rows=x.piece_tokens)),
        _mix(
            x, "mixing", (32.0 * mixed, 64.0 * mixed), kernels=(SINKHORN_KERNELS, SINKHORN_KERNELS), saved=8.0 * mixed
        ),
        # The streams are kept, for this sum and for the mixing behind the block.
        _mix(x, "streams read", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), saved=n * stream),
    ]


def _write_streams(x: TrainingLinear) -> list[Step]:
    """Return what takes the place of the residual addition behind a block; its output is kept."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [_mix(x, "streams written", ((2.0 * n + 1.0) * stream, (3.0 * n + 2.0) * stream), saved=stream)]


def join_streams(x: TrainingLinear) -> list[Step]:
    """Return how the streams become one vector before the last norm."""
    n, stream = float(x.model.residual_streams), x.residual_bytes
    if n == 1.0:
        return []
    return [
        x.linear(LinearLayer("head", "coefficients", n * x.h, n, rows=x.piece_tokens)),
        _mix(x, "streams joined", ((n + 1.0) * stream, (3.0 * n + 1.0) * stream), kernels=(1.0, 1.0)),
    ]


def _mix(
    x: TrainingLinear,
    part: Part,
    traffic_bytes: tuple[Number, Number],
    kernels: tuple[float, float] = (1.0, 2.0),
    saved: Number = 0.0,
) -> Step:
    elements = x.residual_bytes / x.stream_bytes * x.model.residual_streams
    return elementwise("residual", part, elements, traffic_bytes, kernels, saved_bytes=saved)
