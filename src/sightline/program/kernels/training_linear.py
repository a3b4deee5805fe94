"""Linear layers of training: one matmul forward, two backward, and what techniques add around them."""

from collections.abc import Sequence

from sightline.program.address import Module, Part
from sightline.program.operators import Elementwise, Matmul, Operator
from sightline.program.step import Step
from sightline.program.techniques.adapter_exchange import enter_adapted, exchange_backward, exchange_forward
from sightline.program.techniques.adapters import adapter_backward, adapter_forward, adapters_of
from sightline.program.techniques.low_precision import (
    low_precision,
    quantized,
    quantized_weights,
    transposed_operands,
    transposed_weights,
)
from sightline.program.techniques.quantized_weights import dequantize
from sightline.program.techniques.separate_products import apart, chunked
from sightline.program.techniques.tensor_parallel import enter_region, leave_backward, leave_region, reenter_region
from sightline.program.training_shapes import TrainingShapes
from sightline.quantities import Number
from sightline.scenario.model import WeightPart


class TrainingLinear(TrainingShapes):
    """Products with weights, and the regions that tensor parallelism makes of them."""

    __slots__ = ()

    def linear(
        self,
        module: Module,
        part: Part,
        inputs: Number,
        outputs: Number,
        *,
        of: WeightPart | None = None,
        kept: Number = 1.0,
        bias: bool = False,
        shares: tuple[float, ...] = (1.0,),
        rows: Number | None = None,
        batch: Number = 1.0,
        trained: bool = True,
    ) -> Step:
        """A product of ``rows x inputs`` (the tokens) by ``inputs x outputs`` at 16 bits, of which ``batch`` run as one.

        ``kept`` is the share of the input that this product keeps for its weight's gradient; ``shares`` are the parts of
        the outputs that models keep as layers of their own. Where a weight is not ``trained``, the gradient only passes.
        """
        rows = self.tokens if rows is None else rows
        e = self.element_bytes
        forward = Matmul(
            module=module,
            part=part,
            m=rows,
            n=outputs,
            k=inputs,
            batch=batch,
            dtype=self.dtype,
            element_bytes=e,
            output_bytes=e,
            saved_bytes=kept * e * batch * rows * inputs,
            shares=shares,
        )
        backward: list[Operator] = [
            Matmul(
                module=module,
                part=part,
                direction="input gradient",
                m=rows,
                n=inputs,
                k=outputs,
                batch=batch,
                dtype=self.dtype,
                element_bytes=e,
                output_bytes=e,
                shares=shares,
            )
        ]
        if trained:
            backward += self._weight_gradient(forward)
        if bias and (trained or self.trained.rest):
            traffic = e * batch * rows * outputs
            summed = Elementwise(module=module, part="bias", direction="weight gradient", traffic_bytes=traffic)
            backward.insert(2, summed)
        return Step((forward,), backward, batch * inputs * outputs, batch * outputs * bias)

    def _weight_gradient(self, forward: Matmul) -> list[Operator]:
        """The product that makes a weight's gradient, and its addition to those of other micro-batches.

        Frameworks that fuse accumulation add the product to the gradient inside the matmul; others write a gradient and
        add or copy it in a kernel of its own, for every micro-batch.
        """
        module, traffic = forward.module, self.framework.kernels.accumulation_traffic
        fused = self.fuses("gradient-accumulation")
        product = Matmul(
            module=module,
            part=forward.part,
            direction="weight gradient",
            m=forward.n,
            n=forward.k,
            k=forward.m,
            batch=forward.batch,
            input_row=forward.n,
            output_bytes=traffic if fused else self.element_bytes,
            dtype=self.dtype,
            element_bytes=self.element_bytes,
            shares=forward.shares,
        )
        if fused:
            return [product]
        elements = forward.batch * forward.k * forward.n
        added = Elementwise(
            module=module,
            part="accumulation",
            direction="weight gradient",
            traffic_bytes=traffic * elements,
            elements=elements,
        )
        return [product, added]

    def projection(
        self,
        module: Module,
        part: Part,
        inputs: Number,
        outputs: Number,
        *,
        of: WeightPart = "attention",
        pieces: Sequence[tuple[Part, Number]] = (),
        joined: str = "",
        shares: tuple[float, ...] = (1.0,),
        targets: tuple[str, ...] = (),
        kept: Number = 1.0,
        bias: bool = False,
        rows: Number | None = None,
        batch: Number = 1.0,
        gathered: bool = False,
        scattered: bool = False,
    ) -> Step:
        """A linear layer that is trained, or a frozen one, quantized or not, with adapters; below 16 bits as recipes say.

        The outputs are the projections ``targets`` in the parts ``shares``. ``gathered``: sequence parallelism gathers the input;
        ``scattered``: it scatters the output. A frozen matmul needs no input for its backward pass; an adapter beside it
        does, and some libraries keep it anyway.
        """
        trained = self.trained.projections
        keeps = trained or (self.trained.quantization != "none" and self.framework.litgpt.quantized_keeps_inputs)
        plain = self.linear(
            module,
            part,
            inputs,
            outputs,
            kept=kept * keeps,
            bias=bias,
            shares=shares,
            rows=rows,
            batch=batch,
            trained=trained,
        )
        each = batch * (self.tokens if rows is None else rows)
        weights = batch * inputs * outputs
        forward = quantized(
            self, module, "input quantization", each * inputs, for_weights=trained, gathered=gathered
        ) + [low_precision(self, op) for op in (apart(self, plain.forward) if trained else plain.forward)]
        backward = [
            *transposed_weights(self, module, weights),
            *quantized(self, module, "gradient quantization", each * outputs, for_weights=trained, gathered=scattered),
            *(transposed_operands(self, module, each * (outputs + inputs)) if trained else []),
            *(low_precision(self, op) for op in (apart(self, plain.backward) if trained else plain.backward)),
        ]
        if trained:
            forward = quantized_weights(self, module, weights) + forward
            if gathered or scattered:
                forward = [chunked(self, op) for op in forward]
            if scattered:
                backward = [chunked(self, op) if op.direction == "input gradient" else op for op in backward]
            return plain._replace(forward=forward, backward=backward)
        forward = dequantize(self, module, weights) + forward
        backward = dequantize(self, module, weights) + backward
        adapters = adapters_of(self, inputs, outputs, targets, shares) if targets else []
        for i, adapter in enumerate(adapters):
            forward += adapter_forward(self, module, adapter, input_is_kept=keeps or i > 0)
            forward += exchange_forward(self, module, adapter)
            backward += [*exchange_backward(self, module, adapter), *adapter_backward(self, module, adapter)]
        elements = sum((adapter.parameters for adapter in adapters), 0.0)
        return plain._replace(forward=forward, backward=backward, adapter_parameters=elements)

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
