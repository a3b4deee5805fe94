"""A program: operators by block kind, written once per kind and not per layer, and the steps that blocks are made of.

A block lists its steps in forward order; its backward pass is theirs in reverse.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from sightline.content import record
from sightline.program.operators import Elementwise, Module, Operator, Part
from sightline.quantities import Number
from sightline.scenario.model import WeightPart


class Step(NamedTuple):
    """One step of a micro-batch on one device; operators in order of execution within their pass."""

    forward: Sequence[Operator] = ()
    backward: Sequence[Operator] = ()
    weights: Number = 0.0
    """Elements of its matmul weights on one device."""
    other_parameters: Number = 0.0
    """Parameters that are no matmul weights."""
    adapter_parameters: Number = 0.0


class LinearLayer(NamedTuple):
    """A product of the tokens with a weight of ``inputs x outputs`` on one device, or several that run as one."""

    module: Module
    part: Part
    inputs: Number
    outputs: Number
    of: WeightPart | None = "attention"
    """Part of the model whose format the weight has; None for one that engines never quantize."""
    rows: Number | None = None
    """None means all tokens."""
    batch: Number = 1.0
    bias: bool = False
    kept: Number = 1.0
    """Share of the input that it keeps for its weight's gradient."""
    gathered: bool = False
    """Sequence parallelism gathers the input."""
    scattered: bool = False
    """It scatters the output."""
    name: str = ""
    """What an engine calls layers to join them."""
    pieces: tuple[tuple[Part, Number], ...] = ()
    """Name and outputs on one device of each layer that is joined."""
    shares: tuple[float, ...] = (1.0,)
    """Part that each has of all outputs."""
    targets: tuple[str, ...] = ()
    """Names of each among the projections that adapters may be put to."""


def moving(module: Module, part: Part, traffic_bytes: Number, kernels: Number = 1.0, **further: Any) -> Elementwise:
    """Return a bandwidth-bound operator that moves ``traffic_bytes`` in so many ``kernels``.

    `Elementwise` has the rest.
    """
    return Elementwise(module=module, part=part, traffic_bytes=traffic_bytes, kernels=kernels, **further)


def elementwise(
    module: Module,
    part: Part,
    elements: Number,
    traffic_bytes: tuple[Number, Number],
    kernels: tuple[Number, Number] = (1.0, 1.0),
    **forward_alone: Any,
) -> Step:
    """Return an element-wise step over ``elements``: bytes and kernels of its two passes, and what the first saves."""
    forward = moving(module, part, traffic_bytes[0], kernels[0], elements=elements, **forward_alone)
    backward = moving(module, part, traffic_bytes[1], kernels[1], direction="backward", elements=elements)
    return Step((forward,), (backward,))


def forward_of(steps: Iterable[Step]) -> list[Operator]:
    """Return the forward operators of steps."""
    return [op for step in steps for op in step.forward]


def backward_of(steps: Sequence[Step]) -> list[Operator]:
    """Return the backward operators of steps, the last step's first."""
    return [op for step in reversed(steps) for op in step.backward]


G = TypeVar("G")


def group_by_group(groups: Sequence[G], write: Callable[[G], Iterable[Step]]) -> list[Step]:
    """Return the steps that each group of a batch's sequences has of its own, marked with its place among several."""
    if len(groups) == 1:
        return list(write(groups[0]))
    return [
        step._replace(forward=[replace(op, group=place) for op in step.forward])
        for place, group in enumerate(groups)
        for step in write(group)
    ]


def one_step(steps: Sequence[Step]) -> Step:
    """Return steps as one."""
    sums = (sum(numbers, 0.0) for numbers in zip(*(step[2:] for step in steps), strict=True))
    return Step(forward_of(steps), backward_of(steps), *sums)


@record
class Sublayer:
    """A half of a layer: the token mixer or the MLP, between its norm and its residual."""

    module: Module
    """Where the norm before it belongs."""
    steps: Sequence[Step]
    small_parameters: Number = 0.0
    """Parameters on one device besides those of the steps: norms, decays, convolutions."""
    expert_weights: Number = 0.0
    """Elements of the matrices of routed experts."""
    expert_parameters: Number = 0.0
    """Parameters that belong to routed experts."""
    widest: Number = 0.0
    """Elements of the widest activation."""
    widest_weight: Number = 0.0
    """Elements of the widest matrix."""
    core_input_bytes: Number = 0.0
    """What its attention core starts from; 0 without one."""

    @property
    def weights(self) -> Number:
        """Elements of matmul weights on one device, those of experts included."""
        return sum((step.weights for step in self.steps), 0.0)

    @property
    def parameters(self) -> Number:
        """All parameters on one device but those of adapters."""
        return self.weights + self.small_parameters + sum((step.other_parameters for step in self.steps), 0.0)

    @property
    def adapter_parameters(self) -> Number:
        """Parameters of its adapters on one device."""
        return sum((step.adapter_parameters for step in self.steps), 0.0)


@record
class LowPrecisionWeights:
    """What copies of matmul weights in 8 or 4 bits change on a device, in bytes; those of routed experts separately."""

    kept_bytes: Number = 0.0
    """Added to the weights; negative where they take the place of wider ones."""
    expert_kept_bytes: Number = 0.0
    gathered_bytes: Number = 0.0
    """Added to what replicas gather."""
    expert_gathered_bytes: Number = 0.0
    cast_bytes: Number = 0.0
    """Traffic of making them anew after an update."""

    def __mul__(self, share: Number) -> "LowPrecisionWeights":
        return LowPrecisionWeights(**{field.name: getattr(self, field.name) * share for field in fields(self)})


NO_LOW_PRECISION_WEIGHTS = LowPrecisionWeights()


@record
class Block:
    """One block kind (embedding, decoder layer, head): what one pass executes on one device.

    An inference pass has forward operators alone.
    """

    name: str
    count: int = 1
    """Layers of this kind in the model."""
    leading: bool = False
    """They come before all other layers."""
    forward: Sequence[Operator]
    backward: Sequence[Operator] = ()
    recomputed: Sequence[Operator] = ()
    """Operators that run again before the backward pass: those of ``forward``, or parts of them."""
    recomputed_share: Number = 1.0
    """Share of the layers of this kind that recompute."""
    recomputed_together: Number = 1.0
    """Layers that run again one after the other from one kept input."""
    without_gradient: Sequence[Operator] = ()
    """Operators of ``forward`` in passes that have no backward pass, such as a reference model's."""
    freed_bytes: Number = 0.0
    """Bytes that a layer does not keep because they come back, averaged over the layers that run again together."""
    update: Sequence[Operator] = ()
    """Operators of the optimizer's step, once per step."""
    logits: Number = 0.0
    """Logits that one micro-batch makes on one device (the head alone)."""
    transient_bytes: Number = 0.0
    """Gradients of the block's widest activation, which live for a moment of its backward pass."""
    boundary_bytes: Number = 0.0
    """Bytes of the activation that leaves the block for all tokens."""
    parameters: Number = 0.0
    """Parameters on one device (after tensor parallelism, before ZeRO), adapters aside."""
    expert_parameters: Number = 0.0
    """Those of them that belong to routed experts, of which other ranks hold copies than of the rest."""
    matrix_parameters: Number = 0.0
    """Those that the optimizer treats as matrices (Muon); 0 where it makes no difference."""
    frozen_parameters: Number = 0.0
    """Those of the parameters that get no gradient."""
    quantized_parameters: Number = 0.0
    """Those of the frozen ones that are kept in 8 or 4 bits."""
    quantized_bytes: float = 0.0
    """Bytes that each of these takes with its scales."""
    low_precision: LowPrecisionWeights = NO_LOW_PRECISION_WEIGHTS
    adapter_parameters: Number = 0.0
    copied_parameters: Number = 0.0
    """Copies of frozen modules that are trained whole next to adapters."""

    @property
    def operators(self) -> Sequence[Operator]:
        """Every operator once, parts that run again and those of the update included."""
        if not self.backward:
            return self.forward
        by_identity = {id(op): op for op in (*self.forward, *self.recomputed, *self.backward, *self.update)}
        return list(by_identity.values())

    @property
    def own_trained_parameters(self) -> Number:
        """Parameters of the model itself that get gradients."""
        return self.parameters - self.frozen_parameters

    @property
    def trained_parameters(self) -> Number:
        """All that gets gradients: the model's own, adapters, copies."""
        return self.own_trained_parameters + self.adapter_parameters + self.copied_parameters

    @property
    def trained_expert_parameters(self) -> Number:
        """Parameters of routed experts that get gradients."""
        return self.expert_parameters * (np.asarray(self.frozen_parameters) < self.expert_parameters)

    def frozen_bytes(self, element_bytes: float) -> Number:
        """Bytes of the weights that get no gradient, where those not quantized take ``element_bytes`` each."""
        plain = self.frozen_parameters - self.quantized_parameters
        return plain * element_bytes + self.quantized_parameters * self.quantized_bytes

    def stored_bytes(self, element_bytes: float) -> Number:
        """Bytes of all weights as the passes read them, where those not quantized take ``element_bytes`` each."""
        plain = self.parameters - self.quantized_parameters + self.adapter_parameters + self.copied_parameters
        gathered = self.low_precision.gathered_bytes + self.low_precision.expert_gathered_bytes
        return plain * element_bytes + self.quantized_parameters * self.quantized_bytes + gathered

    @property
    def saved_bytes(self) -> Number:
        """Bytes one micro-batch keeps from this block's forward until its backward pass."""
        kept = sum(op.count * op.saved_bytes for op in self.forward)
        return kept - self.recomputed_share * self.freed_bytes

    @property
    def working_bytes(self) -> Number:
        """Further bytes that live while the block's backward runs: what recomputation brings back."""
        return self.freed_bytes * self.recomputed_together


@record
class Program:
    """A micro-batch of training, or a batch of inference, on one device, by kind of block; ``layers`` repeat."""

    embedding: Block
    layers: tuple[Block, ...]
    head: Block
    boundary: Sequence[Operator]
    """What hands the activation from one pipeline stage to the next; no part of ``operators``, which every plan has."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The block kinds in order of execution."""
        return (self.embedding, *self.layers, self.head)

    @property
    def operators(self) -> Sequence[Operator]:
        """The operators of all blocks, each once."""
        return [op for block in self.blocks for op in block.operators]
