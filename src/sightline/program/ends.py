"""The ends of the model: token embedding before the first layer, head and loss after the last."""

import numpy as np

from sightline.program import elementwise
from sightline.program.linear import input_gradient, linear_backward, linear_forward
from sightline.program.low_precision import narrow_weights, narrowed, quantized, turned_weights
from sightline.program.operators import Elementwise, Operator
from sightline.program.program import Block
from sightline.program.residual_streams import join_streams
from sightline.program.shapes import Shapes
from sightline.program.soft_caps import capped_logits
from sightline.program.tensor_parallel import enter_region, entered_bytes, leave_region
from sightline.quantities import Number

LOSS_FORWARD_BYTES = 22.0
"""Bytes per logit of an unfused loss forward: cast to fp32, maximum, subtraction, exponent and sum (4-byte passes)."""
LOSS_BACKWARD_BYTES = 14.0
"""Bytes per logit of an unfused loss backward: fp32 gradient in and out, cast to 16 bit."""
AUTOGRAD_BACKWARD_BYTES = 26.0
"""The same where autograd writes the gradient of picking labels, from zeros, and log-softmax reads it twice."""
SPLIT_LOSS_BYTES = 38.0
"""Bytes per logit of either pass over a shared-out vocabulary, tensor by tensor (torch.distributed.tensor.parallel.loss)."""


def embedding_block(x: Shapes) -> Block:
    """Return the embedding: a gather (and the position's), its dropout and norm; backward scatters into the table."""
    e, h = x.element_bytes, float(x.model.hidden_size)
    lookups = 2.0 + (3.0 if x.model.positions == "learned" else 0.0)
    mask = x.residual_bytes / e * (x.model.dropout > 0)
    forward: list[Operator] = [
        Elementwise(
            module="embedding",
            part="lookup",
            traffic_bytes=lookups * x.hidden_bytes,
            kernels=4.0,
            elements=x.tokens * h,
        ),
        *leave_region(x, "embedding"),
    ]
    backward: list[Operator] = []
    if x.model.embedding_norm:
        forward.append(elementwise.norm(x, "embedding"))
        backward.append(elementwise.norm_gradient(x, "embedding"))
    if x.model.dropout > 0:
        traffic = 2.0 * x.residual_bytes + mask
        forward.append(Elementwise(module="embedding", part="dropout", traffic_bytes=traffic, saved_bytes=mask))
        backward.append(Elementwise(module="embedding", part="dropout", direction="backward", traffic_bytes=traffic))
    if x.trained.embedding:
        backward += [*enter_region(x, "embedding"), _table_gradient(x)]
    positions = x.model.embedding_parameters - x.model.vocab_size * x.model.hidden_size
    parameters = x.vocabulary * h + positions
    beside_adapter = x.trained.adapter is not None
    return Block(
        name="embedding",
        forward=forward,
        backward=backward,
        boundary_bytes=x.hidden_bytes * x.model.residual_streams,
        parameters=parameters,
        frozen_parameters=parameters * beside_adapter,
        copied_parameters=parameters * (beside_adapter and x.trained.embedding),
    )


def _table_gradient(x: Shapes) -> Elementwise:
    """The dense gradient of the table is cleared, filled and added to the accumulated one."""
    elements = x.vocabulary * float(x.model.hidden_size)
    return Elementwise(
        module="embedding",
        part="table",
        direction="backward",
        traffic_bytes=elements * (x.element_bytes + x.framework.kernels.accumulation_traffic) + 3.0 * x.hidden_bytes,
        kernels=6.0,
        elements=elements,
    )


def head_block(x: Shapes) -> Block:
    """Return the head: final norm, logits matmul and cross-entropy over the (sharded) vocabulary.

    Its products are as narrow as ``x`` says; the logits stay wide.
    """
    h = float(x.model.hidden_size)
    logits = x.tokens * x.vocabulary
    logits_matmul = linear_forward(
        x, "head", h, x.vocabulary, saved_bytes=entered_bytes(x) * x.trained.head, part="logits"
    )
    fused = "cross-entropy" in x.framework.fusion.fused
    products: list[Operator] = (
        linear_backward(x, "head", h, x.vocabulary, bias=False)
        if x.trained.head
        else [input_gradient(x, "head", h, x.vocabulary)]
    )
    by_autograd = x.framework.native.loss_by_autograd
    gradient_bytes = _unfused(x, AUTOGRAD_BACKWARD_BYTES if by_autograd else LOSS_BACKWARD_BYTES)
    forward: list[Operator] = [
        *join_streams(x, backward=False),
        elementwise.norm(x, "final norm"),
        *enter_region(x, "head"),
        *quantized(x, "head", "input quantization", x.tokens * h, for_weights=x.trained.head),
        narrowed(x, logits_matmul),
        *capped_logits(x, logits, backward=False),
        Elementwise(
            module="head",
            part="cross-entropy",
            traffic_bytes=(2.0 * x.element_bytes if fused else _unfused(x, LOSS_FORWARD_BYTES)) * logits,
            kernels=2.0 if fused else 8.0,
            elements=logits,
        ),
    ]
    backward: list[Operator] = [
        Elementwise(
            module="head",
            part="cross-entropy",
            direction="backward",
            traffic_bytes=(2.0 * x.element_bytes if fused else gradient_bytes) * logits,
            kernels=1.0 if fused else 3.0,
            elements=logits,
        ),
        *capped_logits(x, logits, backward=True),
        *turned_weights(x, "head", h * x.vocabulary),
        *quantized(x, "head", "gradient quantization", logits, for_weights=x.trained.head),
        *(narrowed(x, product) for product in products),
        *leave_region(x, "head"),
        elementwise.norm_gradient(x, "final norm"),
        *join_streams(x, backward=True),
    ]
    own = 0.0 if x.model.tied_embeddings else 1.0
    matrix = own * x.vocabulary * h
    rest = x.model.norm_parameters + x.model.joining_parameters
    beside_adapter = x.trained.adapter is not None
    return Block(
        name="head",
        forward=forward,
        backward=backward,
        logits=logits,
        parameters=matrix + rest,
        frozen_parameters=(matrix + rest) * beside_adapter,
        copied_parameters=matrix * (beside_adapter and x.trained.head),
        narrow=narrow_weights(x, matrix, 0.0),
    )


def _unfused(x: Shapes, whole: float) -> Number:
    """Bytes per logit that a pass of an unfused loss moves, of which ``whole`` where every rank has all logits."""
    if not x.framework.native.loss_by_autograd:
        return whole
    return np.where(np.asarray(x.t) > 1, SPLIT_LOSS_BYTES, whole)
