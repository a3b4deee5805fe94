"""Data parallelism and ZeRO: what moves between replicas in a step, and how much of it shows.

Volumes as in ZeRO (arXiv 1910.02054): without it gradients are all-reduced once per step; stages 1 and 2 reduce-scatter
gradients and gather parameters; stage 3 gathers parameters in every forward and backward pass. Frameworks differ in
whether that happens per micro-batch and beside compute. One replica moves exactly nothing. With hybrid sharding
(arXiv 2304.11277) parameters are gathered and gradients scattered within a group of replicas, whose shards of the gradients
are then all-reduced across groups.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sightline.cost.collective_constants import CollectiveConstants
from sightline.cost.collectives import collective_time
from sightline.cost.processor_constants import processor_family
from sightline.cost.topology import Group, data_group
from sightline.cost.training_constants import TrainingConstants
from sightline.prediction.shared import Shared
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number
from sightline.scenario import Cluster, Plan


class DataParallelTime(NamedTuple):
    """Seconds that data-parallel collectives add to a step, exposed, and their bytes."""

    exposed_s: Number
    network_bytes: Number


class Ranks(NamedTuple):
    """The ranks that hold the same parameters."""

    all: Group
    sharing: Group
    """Those that share out the states of one copy."""
    copies: Group
    """One of each group that shares, with the same shard."""


def ranks_of(plan: Plan, cluster: Cluster) -> tuple[Ranks, Ranks]:
    """Return the ranks with the same common parameters, and those with the same experts.

    Ranks that share states out are neighbours, one in every tensor-parallel group; copies lie beyond them.
    """
    t, copies = plan.tensor_parallel, plan.copies

    def ranks(inside: Number, replicas: Number, shards: Number) -> Ranks:
        return Ranks(
            all=data_group(inside, replicas, cluster),
            sharing=data_group(inside, shards, cluster),
            copies=data_group(inside * shards, copies, cluster),
        )

    return (
        ranks(1.0 * t, 1.0 * plan.replicas, plan.shards),
        ranks(t * plan.replicas / plan.expert_replicas, plan.expert_replicas, plan.expert_shards),
    )


class Replica(NamedTuple):
    """What is reduced between replicas, and the passes of the pace-setting stage that it runs beside."""

    parameters: Shared
    """Those with gradients, of the stage that holds most."""
    stored_bytes: Shared
    """All weights of that stage as the passes read them."""
    layers: Number
    forward_s: Number
    """Forward passes that gathers run beside: of one micro-batch, or of a group where stages are interleaved."""
    backward_s: Number
    """Recomputation and backward passes of as many."""
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
    ranks: Ranks,
    expert_ranks: Ranks,
    cluster: Cluster,
    library: CollectiveConstants,
    constants: TrainingConstants,
) -> DataParallelTime:
    """Return the exposed seconds of a step's data-parallel collectives; experts' follow the others' over their ranks."""
    framework = plan.framework
    layered = framework.overlaps_gradients or framework.overlaps_parameters
    messages = np.maximum(replica.layers, 1.0) if layered else 1.0

    def seconds(kind: str, size: Shared, among: Callable[[Ranks], Group]) -> Number:
        parts = [(size.common, ranks), *([(size.experts, expert_ranks)] if np.any(size.experts) else [])]
        once = sum(
            collective_time(kind, part / messages, group=among(held), cluster=cluster, constants=library)
            for part, held in parts
        )
        return constants.collective_slowdown * messages * once

    gradient_bytes = replica.parameters * framework.gradient_reduce_bytes[plan.wide_dtype]
    zero = np.asarray(plan.zero_stage)
    once = framework.syncs_pipelines_once & (np.asarray(plan.pipeline_parallel) > 1)
    gathers_each = (zero == 3) | ((zero == 2) & framework.regathers_every_micro_batch & ~once)
    weight_bytes = replica.stored_bytes
    if plan.adapter is not None or plan.quantization != "none":
        # Sharded parameters are gathered whole, frozen ones too; stages 1 and 2 gather what was updated.
        updated = replica.parameters * ELEMENT_BYTES[plan.wide_dtype]
        weight_bytes = Shared(
            np.where(gathers_each, weight_bytes.common, updated.common),
            np.where(gathers_each, weight_bytes.experts, updated.experts),
        )
    reduce_s = seconds("all_reduce", gradient_bytes, lambda held: held.all) if np.any(zero == 0) else 0.0
    scatter_s = seconds("reduce_scatter", gradient_bytes, lambda held: held.sharing) if np.any(zero > 0) else 0.0
    gather_s = seconds("all_gather", weight_bytes, lambda held: held.sharing) if np.any(zero > 0) else 0.0
    shard_bytes = Shared(gradient_bytes.common / ranks.sharing.size, gradient_bytes.experts / expert_ranks.sharing.size)
    copied = (np.asarray(ranks.copies.size) > 1) & (zero > 0)
    if np.any(copied):
        scatter_s = scatter_s + copied * seconds("all_reduce", shard_bytes, lambda held: held.copies)

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
    shown_backward: Number = back_s
    if overlaps:
        alone = once & (zero < 3)
        shown_backward = np.where(alone, back_s, exposed(replica.backward_s, back_s, layers, slow))
    beside = np.where(gathers_each, framework.overlaps_parameters, framework.overlaps_update) & aside
    shown_forward = np.where(beside, exposed(replica.forward_s, gather_s, layers, slow), gather_s)
    gathers = forward_gathers + backward_gathers
    many, more = (1.0 * (np.asarray(held.all.size) > 1) for held in (ranks, expert_ranks))
    # With shards on one rank there is nothing to gather or scatter.
    split, cut = (np.where(zero > 0, np.asarray(held.sharing.size) > 1, 1.0) for held in (ranks, expert_ranks))
    across = copied * reductions
    moved = many * (
        split * (reductions * gradient_bytes.common + gathers * weight_bytes.common) + across * shard_bytes.common
    )
    moved = moved + more * (
        cut * (reductions * gradient_bytes.experts + gathers * weight_bytes.experts) + across * shard_bytes.experts
    )
    copied_s: Number = 0.0
    if framework.copies_gathered:
        in_place = 2.0 * gathers * (split * weight_bytes.common + cut * weight_bytes.experts)
        copied_s = in_place / (cluster.device.memory_bandwidth * constants.memory_fraction)
    return DataParallelTime(
        exposed_s=many * (reductions * shown_backward + forward_gathers * shown_forward + copied_s),
        network_bytes=moved,
    )
