"""Data parallelism and ZeRO: what moves between replicas in a step, and how much of it shows.

Volumes as in ZeRO (arXiv 1910.02054): without it gradients are all-reduced once per step; stages 1 and 2 reduce-scatter
gradients and gather parameters; stage 3 gathers parameters in every forward and backward pass. Frameworks differ in
whether that happens per micro-batch and beside compute. One replica moves exactly nothing.
"""

from typing import NamedTuple

import numpy as np

from sightline.cost.collective_constants import CollectiveConstants
from sightline.cost.collectives import collective_time
from sightline.cost.processor_constants import processor_family
from sightline.cost.topology import Group
from sightline.cost.training_constants import TrainingConstants
from sightline.prediction.shared import Shared
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Cluster, Plan


class DataParallelTime(NamedTuple):
    """Seconds that data-parallel collectives add to a step, exposed, and their bytes."""

    exposed_s: Number
    network_bytes: Number


class Replica(NamedTuple):
    """What is reduced between replicas, and the passes of the pace-setting stage that it runs beside."""

    parameters: Shared
    """Those with gradients, of the stage that holds most."""
    stored_bytes: Shared
    """All weights of that stage as the passes read them."""
    layers: Number
    forward_s: Number
    """One micro-batch's forward pass."""
    backward_s: Number
    """One micro-batch's recomputation and backward pass."""
    micro_batches: Number


def exposed(compute_s: Number, transfer_s: Number, layers: Number, slowdown: Number) -> Number:
    """Seconds that layer-wise transfers add to the compute they run beside.

    The first (or last) layer's transfer has nothing to hide behind; the others show where they outlast a layer's
    compute, which the hidden part slows by contention: g/L + (L - 1)/L max(g - c, 0) + slowdown min(g, c).
    """
    hidden = np.minimum(transfer_s, compute_s)
    return transfer_s / layers + (1.0 - 1.0 / layers) * (transfer_s - hidden) + slowdown * hidden


def data_parallel_time(
    replica: Replica,
    plan: Plan,
    *,
    group: Group,
    expert_group: Group,
    cluster: Cluster,
    library: CollectiveConstants,
    constants: TrainingConstants,
) -> DataParallelTime:
    """Return the exposed seconds of a step's data-parallel collectives; experts' follow the others' over their group."""
    framework = plan.framework
    layered = framework.overlaps_gradients or framework.overlaps_parameters
    messages = np.maximum(replica.layers, 1.0) if layered else 1.0

    def seconds(kind: str, size: Shared) -> Number:
        parts = [(size.common, group), *([(size.experts, expert_group)] if np.any(size.experts) else [])]
        once = sum(
            collective_time(kind, part / messages, group=among, cluster=cluster, constants=library)
            for part, among in parts
        )
        return constants.collective_slowdown * messages * once

    gradient_bytes = replica.parameters * framework.gradient_reduce_bytes[plan.wide_dtype]
    zero = np.asarray(plan.zero_stage)
    gathers_each = (zero == 3) | ((zero == 2) & framework.regathers_every_micro_batch)
    weight_bytes = replica.stored_bytes
    if plan.adapter is not None or plan.quantization != "none":
        # Sharded parameters are gathered whole, frozen ones too; stages 1 and 2 gather what was updated.
        updated = replica.parameters * ELEMENT_BYTES[plan.wide_dtype]
        weight_bytes = Shared(
            np.where(gathers_each, weight_bytes.common, updated.common),
            np.where(gathers_each, weight_bytes.experts, updated.experts),
        )
    reduce_s = seconds("all_reduce", gradient_bytes) if np.any(zero == 0) else 0.0
    scatter_s = seconds("reduce_scatter", gradient_bytes) if np.any(zero > 0) else 0.0
    gather_s = seconds("all_gather", weight_bytes) if np.any(zero > 0) else 0.0

    m = replica.micro_batches
    reductions = np.where(zero == 3, m, np.where((zero == 2) & framework.reduces_every_micro_batch, m, 1.0))
    # Parameters: stage 3 gathers before the forward and again before the backward pass.
    forward_gathers = np.where(zero == 0, 0.0, np.where(gathers_each, m, 1.0))
    backward_gathers = np.where(zero == 3, m, 0.0)
    gradient_s = np.where(zero == 0, reduce_s, scatter_s)
    back_s = gradient_s + np.where(zero == 3, gather_s, 0.0)

    slow, layers = constants.overlap_slowdown, messages
    # Processes that share a machine's cores compute slower while they copy what they send.
    aside = processor_family(cluster.device) is None
    overlaps = framework.overlaps_gradients and aside
    shown_backward = exposed(replica.backward_s, back_s, layers, slow) if overlaps else back_s
    beside = np.where(gathers_each, framework.overlaps_parameters, framework.overlaps_update) & aside
    shown_forward = np.where(beside, exposed(replica.forward_s, gather_s, layers, slow), gather_s)
    gathers = forward_gathers + backward_gathers
    many, more = (1.0 * (np.asarray(ranks.size) > 1) for ranks in (group, expert_group))
    moved = many * (reductions * gradient_bytes.common + gathers * weight_bytes.common)
    moved = moved + more * (reductions * gradient_bytes.experts + gathers * weight_bytes.experts)
    return DataParallelTime(
        exposed_s=many * (reductions * shown_backward + forward_gathers * shown_forward),
        network_bytes=moved,
    )
