"""A half of a layer: the token mixer or the MLP, as it stands between its norm and its residual."""

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.program.address import Module
from sightline.program.operators import Operator
from sightline.quantities import Number


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sublayer:
    """Operators of one micro-batch on one device, in order of execution, and the parameters they work with."""

    module: Module
    """Where the norm before it and its biases are booked."""
    forward: Sequence[Operator]
    backward: Sequence[Operator]
    weights: Number
    """Elements of matmul weights on one device, those of experts included."""
    parameters: Number
    """All parameters on one device."""
    expert_weights: Number = 0.0
    """Elements of the matrices of routed experts."""
    expert_parameters: Number = 0.0
    """Those of them that belong to routed experts."""
    adapter_parameters: Number = 0.0
    widest: Number = 0.0
    """Elements of the widest activation."""
    widest_weight: Number = 0.0
    """Elements of the widest matrix."""
    core_input_bytes: Number = 0.0
    """What its attention core starts from; 0 without one."""
    output_bias: bool = False
