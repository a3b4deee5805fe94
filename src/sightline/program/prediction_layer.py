"""Multi-token prediction in training: a layer that goes on from the last one's output to the token after next.

Each depth norms the output of what is before it and the embedding of the token that comes next, joins both in a
projection from twice the hidden size, runs a layer of the model's last kind, and ends in the shared head with a loss
of its own (DeepSeek V3, arXiv 2412.19437, section 2.2). It stands on the last pipeline stage, beside the head.
"""

from dataclasses import replace
from typing import Final

import numpy as np

from sightline.program import elementwise
from sightline.program.address import Part
from sightline.program.layer import layer_block
from sightline.program.linear import linear_backward, linear_forward
from sightline.program.operators import Collective, Elementwise, Operator
from sightline.program.program import Block
from sightline.program.shapes import Shapes
from sightline.program.tensor_parallel import enter_region
from sightline.scenario import LayerKind, Plan

MODULE: Final = "prediction"


def prediction_block(x: Shapes, ends: Shapes, head: Block, kind: LayerKind, plan: Plan) -> Block:
    """Return the ``plan.prediction_layers`` of a model whose last layers are of ``kind``, with ``head``'s operators.

    The table's and the head's weights are the model's own, and so are their gradients' tensors.
    """
    layer = layer_block(x, kind, plan)
    h = float(x.model.hidden_size)
    outputs = h / x.t
    twice = 2.0 * x.residual_bytes
    forward: list[Operator] = [
        Elementwise(module=MODULE, part="lookup", traffic_bytes=2.0 * x.hidden_bytes, elements=x.tokens * h),
        elementwise.norm(ends, MODULE),
        elementwise.norm(ends, MODULE),
        _copy(x, "joined"),
        *enter_region(ends, MODULE),
        linear_forward(ends, MODULE, 2.0 * h, outputs, saved_bytes=twice, part="joining"),
        *_gather(x),
        *layer.forward,
        *head.forward,
    ]
    backward: list[Operator] = [
        *head.backward,
        *layer.backward,
        *linear_backward(ends, MODULE, 2.0 * h, outputs, bias=False),
        _copy(x, "split"),
        elementwise.norm_gradient(ends, MODULE),
        elementwise.norm_gradient(ends, MODULE),
    ]
    own = 2.0 * h * outputs + 3.0 * x.model.norm_parameters
    return replace(
        layer,
        name=MODULE,
        layers=int(plan.prediction_layers),
        leading=False,
        forward=forward,
        backward=backward,
        parameters=layer.parameters + own,
    )


def _copy(x: Shapes, part: Part) -> Elementwise:
    """Both halves are copied beside each other, or their gradients apart."""
    return Elementwise(
        module=MODULE,
        part=part,
        traffic_bytes=4.0 * x.residual_bytes,
        elements=2.0 * x.residual_bytes / x.element_bytes,
    )


def _gather(x: Shapes) -> list[Operator]:
    """The joined activation is put together from the tensor-parallel ranks."""
    many = np.asarray(x.t) > 1
    if not np.any(many):
        return []
    return [
        Collective(module=MODULE, part="all-gather", kind="all_gather", buffer_bytes=x.hidden_bytes, count=many * 1.0)
    ]
