"""What moves between replicas in a step: which bytes, and how often.

Volumes as in ZeRO (arXiv 1910.02054): without it gradients are all-reduced once per step; stages 1 and 2 reduce-scatter
gradients and gather parameters; stage 3 gathers parameters in every forward and backward pass. Frameworks differ in
whether that happens per micro-batch.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.prediction.shared import Shared
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Plan


class Replica(NamedTuple):
    """What is reduced between replicas, and the passes of the pace-setting stage that it runs beside."""

    parameters: Shared
    """Those with gradients, of the stage that holds most."""
    stored_bytes: Shared
    """All weights of that stage as the passes read them."""
    end_bytes: Number
    """Those of them that are no layer's: embedding, last norm, head."""
    layers: Number
    forward_s: Number
    """Forward passes that gathers run beside: of one micro-batch, or of a group where stages are interleaved."""
    backward_s: Number
    """Recomputation and backward passes of as many."""
    micro_batches: Number


class Movement(NamedTuple):
    """Bytes of a replica's gradients and weights, and how often they move in a step."""

    gradients: Shared
    weights: Shared
    """Gathered before a forward pass."""
    weights_again: Shared
    """Gathered before a backward pass."""
    reductions: Number
    forward_gathers: Number
    backward_gathers: Number
    every_pass: Number
    """Whether every micro-batch gathers."""
    pipelines_once: NDArray[np.bool_]
    """Whether stages of a pipeline gather and reduce once a step, when nothing else runs."""

    @property
    def gathered(self) -> Shared:
        """Bytes that are gathered in a step."""
        if self.weights_again is self.weights:
            return self.weights * (self.forward_gathers + self.backward_gathers)
        return self.weights * self.forward_gathers + self.weights_again * self.backward_gathers


def movement(replica: Replica, plan: Plan) -> Movement:
    """Return what moves in a step of ``plan``, whose ZeRO stage may be an array."""
    framework = plan.framework
    zero = np.asarray(plan.zero_stage)
    once = framework.native.synchronizes_after_pipeline & (np.asarray(plan.pipeline_parallel) > 1)
    gathers_each = (zero == 3) | ((zero == 2) & framework.sharding.regathers_every_micro_batch & ~once)
    weights = replica.stored_bytes
    if plan.adapter is not None or plan.quantization != "none":
        # Sharded parameters are gathered whole, frozen ones too; stages 1 and 2 gather what was updated.
        updated = replica.parameters * ELEMENT_BYTES[plan.wide_dtype]
        weights = Shared(
            np.where(gathers_each, weights.common, updated.common),
            np.where(gathers_each, weights.experts, updated.experts),
        )
    again = weights
    if framework.sharding.keeps_root_gathered:
        again = Shared(np.maximum(weights.common - replica.end_bytes, 0.0), weights.experts)
    m = replica.micro_batches
    return Movement(
        gradients=replica.parameters * framework.sharding.gradient_reduce_bytes[plan.wide_dtype],
        weights=weights,
        weights_again=again,
        reductions=np.where(zero == 3, m, np.where((zero == 2) & framework.sharding.reduces_every_micro_batch, m, 1.0)),
        # Parameters: stage 3 gathers before the forward and again before the backward pass.
        forward_gathers=np.where(zero == 0, 0.0, np.where(gathers_each, m, 1.0)),
        backward_gathers=np.where(zero == 3, m, 0.0),
        every_pass=gathers_each,
        pipelines_once=once,
    )
