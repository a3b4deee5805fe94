"""What a layer does, step by step: each step has its forward operators and those of its backward pass.

A block lists its steps in forward order; its backward pass is theirs in reverse.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sightline.program.address import Module, Part
from sightline.program.operators import Elementwise, Operator
from sightline.quantities import Number


class Step(NamedTuple):
    """One step of a micro-batch on one device; operators in order of execution within their pass."""

    forward: Sequence[Operator] = ()
    backward: Sequence[Operator] = ()
    weights: Number = 0.0
    """Elements of its matmul weights on one device."""
    other_parameters: Number = 0.0
    """Parameters that are no matmul weights."""
    adapter_parameters: Number = 0.0


def elementwise(
    module: Module,
    part: Part,
    elements: Number,
    forward_bytes: Number,
    backward_bytes: Number,
    *,
    kernels: Number = 1.0,
    backward_kernels: Number = 1.0,
    saved_bytes: Number = 0.0,
) -> Step:
    """Return an element-wise step over ``elements``: the bytes and kernels of its two passes, and what it saves."""
    forward = Elementwise(
        module=module,
        part=part,
        traffic_bytes=forward_bytes,
        kernels=kernels,
        saved_bytes=saved_bytes,
        elements=elements,
    )
    backward = Elementwise(
        module=module,
        part=part,
        direction="backward",
        traffic_bytes=backward_bytes,
        kernels=backward_kernels,
        elements=elements,
    )
    return Step((forward,), (backward,))


def forward_of(steps: Iterable[Step]) -> list[Operator]:
    """Return the forward operators of steps."""
    return [op for step in steps for op in step.forward]


def backward_of(steps: Sequence[Step]) -> list[Operator]:
    """Return the backward operators of steps, the last step's first."""
    return [op for step in reversed(steps) for op in step.backward]


def one_step(steps: Sequence[Step]) -> Step:
    """Return steps as one."""
    sums = (sum(numbers, 0.0) for numbers in zip(*(step[2:] for step in steps), strict=True))
    return Step(forward_of(steps), backward_of(steps), *sums)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sublayer:
    """A half of a layer: the token mixer or the MLP, between its norm and its residual."""

    module: Module
    """Where the norm before it belongs."""
    steps: Sequence[Step]
    small_parameters: Number = 0.0
    """Parameters on one device beside those of the steps: norms, decays, convolutions."""
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
