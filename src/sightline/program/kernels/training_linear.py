"""Linear layers of training: one matmul forward, two backward, and what techniques add around them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sightline.program.address import Module
from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.program import LinearLayer, Step, moving, one_step
from sightline.program.shapes import TrainingShapes
from sightline.program.techniques.adapters import adapter_steps, adapters_of, enter_adapted
from sightline.program.techniques.low_precision import (
    dequantize,
    low_precision,
    quantized,
    quantized_weights,
    transposed_operands,
    transposed_weights,
)
from sightline.program.techniques.tensor_parallel import enter_region, leave_backward, leave_region, reenter_region
from sightline.program.techniques.zero_hooks import hook_calls
from sightline.quantities import anywhere


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

    def _weight_gradient(self, of: Matmul) -> list[Operator]:
        """The product that makes a weight's gradient, and its addition to those of other micro-batches.

        Frameworks that fuse accumulation add the product to the gradient inside the matmul; others write a gradient and
        add or copy it in a kernel of its own, for every micro-batch.
        """
        module, traffic = of.module, self.framework.kernels.accumulation_traffic
        sizes: Any = {"batch": of.batch, "shares": of.shares, "input_row": of.n}
        if self.fuses("gradient-accumulation"):
            return [self.product(module, of.part, of.n, of.k, of.m, "weight gradient", output_bytes=traffic, **sizes)]
        n = of.batch * of.k * of.n
        return [
            self.product(module, of.part, of.n, of.k, of.m, "weight gradient", **sizes),
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
        for i, one in enumerate(adapters_of(self, layer.inputs, layer.outputs, layer.targets, layer.shares)):
            steps += adapter_steps(self, layer.module, one, input_is_kept=keeps or i > 0)
        return one_step(steps)

    def _quantized(self, layer: LinearLayer, plain: Step) -> Step:
        """A linear layer with what makes its operands: from 16 bits to fewer, or from fewer to 16 bits."""
        module, gathered, scattered = layer.module, layer.gathered, layer.scattered
        each = layer.batch * (self.tokens if layer.rows is None else layer.rows)
        inputs, outputs = each * layer.inputs, each * layer.outputs
        trained, weights = self.trained.projections, plain.weights
        forward, backward = plain.forward, plain.backward
        if trained:
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
                *forward,
            ],
            backward=[
                *([] if trained else dequantize(self, module, weights)),
                *transposed_weights(self, module, weights),
                *quantized(self, module, "gradient quantization", outputs, for_weights=trained, gathered=scattered),
                *(transposed_operands(self, module, outputs + inputs) if trained else []),
                *backward,
            ],
        )

    def region(
        self, module: Module, projections: Sequence[Step], targets: tuple[str, ...] = (), *, enters: bool = True
    ) -> list[Step]:
        """Column-split projections: with sequence parallelism their input is gathered, and again for their gradients.

        ``enters`` is False where the input was gathered for others already, and its gradient is summed with theirs.
        """
        entering = Step(enter_adapted(self, module, targets), leave_backward(self, module))
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
    if not x.framework.native.separate_projections:
        return list(operators)
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
