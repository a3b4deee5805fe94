"""What moves between replicas in a step: which bytes, how often, and what a processor's code around it takes.

Volumes as in ZeRO (arXiv 1910.02054): without it gradients are all-reduced once per step; stages 1 and 2 reduce-scatter
gradients and gather parameters; stage 3 gathers parameters in every forward and backward pass. Frameworks differ in
whether that happens per micro-batch.
"""

from typing import Any, NamedTuple

from sightline.cost.device_model import DeviceModel
from sightline.prediction.training.sizes import DenseAndExperts
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, either, larger
from sightline.scenario import Plan


class Replica(NamedTuple):
    """What is reduced between replicas, and the passes of the pace-setting stage that it overlaps with."""

    parameters: DenseAndExperts
    """Those with gradients, of the stage that holds most."""
    stored_bytes: DenseAndExperts
    """All weights of that stage as the passes read them."""
    embedding_and_head_bytes: Number
    """Those of them that are no layer's: embedding, last norm, head."""
    layers: Number
    forward_s: Number
    """Forward passes that gathers overlap with: of one micro-batch, or of a group where stages are interleaved."""
    backward_s: Number
    """Recomputation and backward passes of as many."""
    micro_batches: Number


class Movement(NamedTuple):
    """Bytes of a replica's gradients and weights, and how often they move in a step."""

    gradients: DenseAndExperts
    weights: DenseAndExperts
    """Gathered before a forward pass."""
    weights_again: DenseAndExperts
    """Gathered before a backward pass."""
    reductions: Number
    forward_gathers: Number
    backward_gathers: Number
    every_pass: Any
    """Whether every micro-batch gathers."""
    pipelines_once: Any
    """Whether stages of a pipeline gather and reduce once a step, when nothing else runs."""

    @property
    def gathered(self) -> DenseAndExperts:
        """Bytes that are gathered in a step."""
        before, again = self.weights.times(self.forward_gathers), self.weights_again.times(self.backward_gathers)
        return DenseAndExperts(before.dense + again.dense, before.experts + again.experts)


def movement(replica: Replica, plan: Plan) -> Movement:
    """Return what moves in a step of ``plan``, whose ZeRO stage may be an array."""
    framework, zero, m = plan.framework, plan.zero_stage, replica.micro_batches
    once = (plan.pipeline_parallel > 1) & framework.native.synchronizes_after_pipeline
    gathers_each = (zero == 3) | ((zero == 2) & framework.sharding.regathers_every_micro_batch & (once == 0))
    weights = replica.stored_bytes
    if plan.adapter is not None or plan.quantization != "none":
        # Sharded parameters are gathered whole, frozen ones too; stages 1 and 2 gather what was updated.
        updated = replica.parameters.times(ELEMENT_BYTES[plan.wide_dtype])
        weights = DenseAndExperts(*(either(gathers_each, a, b) for a, b in zip(weights, updated, strict=True)))
    again = weights
    if framework.sharding.keeps_root_gathered:
        again = weights._replace(dense=larger(weights.dense - replica.embedding_and_head_bytes, 0.0))
    reduces_each = (zero == 3) | ((zero == 2) & framework.sharding.reduces_every_micro_batch)
    return Movement(
        gradients=replica.parameters.times(framework.sharding.gradient_reduce_bytes[plan.wide_dtype]),
        weights=weights,
        weights_again=again,
        reductions=either(reduces_each, m, 1.0),
        # Parameters: stage 3 gathers before the forward and again before the backward pass.
        forward_gathers=(zero > 0) * either(gathers_each, m, 1.0),
        backward_gathers=(zero == 3) * m,
        every_pass=gathers_each,
        pipelines_once=once,
    )


def sharding_code_s(moves: Movement, layers: Number, plan: Plan, model: DeviceModel) -> Number:
    """Return a step's seconds of a processor's code around gathers and reductions of fully sharded parameters.

    ``calls per unit + copied bytes / memory bandwidth``: hooks gather a unit's parameters into views of one buffer, free
    it, copy its gradients together; an accelerator works on meanwhile, a processor does nothing else. Every layer is a
    unit, and what is no layer's is one more.
    """
    found = model.sharding
    if found is None or not plan.framework.sharding.keeps_root_gathered:
        return 0.0
    units = layers + 1.0
    gathers = moves.forward_gathers * units + moves.backward_gathers * layers
    reduced_bytes = moves.reductions * moves.gradients.total
    calls_s = found.gather_call_s * gathers + found.reduce_call_s * moves.reductions * units
    copies = found.gather_passes * moves.gathered.total + found.reduce_passes * reduced_bytes
    return (plan.zero_stage > 0) * (calls_s + copies / model.device.memory_bandwidth)
