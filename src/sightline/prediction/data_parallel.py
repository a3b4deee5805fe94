"""Data parallelism and ZeRO: how long what moves between replicas takes, and how much of it shows.

Much of it runs beside compute. One replica moves exactly nothing. With hybrid sharding (arXiv 2304.11277) parameters are
gathered and gradients scattered within a group of replicas, whose shards of the gradients are then all-reduced across
groups.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Group, data_group
from sightline.cost.processor.constants import ProcessorConstants
from sightline.cost.training_constants import TrainingConstants
from sightline.prediction.movement import Replica, movement
from sightline.prediction.sharding_code import sharding_code_s
from sightline.prediction.shared import Shared
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
    machine: ProcessorConstants | None = None,
) -> DataParallelTime:
    """Return the exposed seconds of a step's data-parallel collectives; experts' follow the others' over their ranks.

    ``machine`` has the constants of a processor where replicas are processes: they share its cores, so that they
    compute slower while they copy what they send, and nothing runs beside it.
    """
    framework = plan.framework
    layered = framework.overlap.gradients or framework.overlap.parameters
    messages = np.maximum(replica.layers, 1.0) if layered else 1.0

    def seconds(kind: str, size: Shared, among: Callable[[Ranks], Group]) -> Number:
        parts = [(size.common, ranks), *([(size.experts, expert_ranks)] if np.any(size.experts) else [])]
        once = sum(
            collective_time(kind, part / messages, group=among(held), cluster=cluster, constants=library)
            for part, held in parts
        )
        return constants.collective_slowdown * messages * once

    moves = movement(replica, plan)
    zero = np.asarray(plan.zero_stage)
    gradients, weights = moves.gradients, moves.weights
    reduce_s = seconds("all_reduce", gradients, lambda held: held.all) if np.any(zero == 0) else 0.0
    scatter_s = seconds("reduce_scatter", gradients, lambda held: held.sharing) if np.any(zero > 0) else 0.0
    gather_s = seconds("all_gather", weights, lambda held: held.sharing) if np.any(zero > 0) else 0.0
    again_s = gather_s
    if moves.weights_again is not weights and np.any(zero == 3):
        again_s = seconds("all_gather", moves.weights_again, lambda held: held.sharing)
    shards = Shared(gradients.common / ranks.sharing.size, gradients.experts / expert_ranks.sharing.size)
    copied = (np.asarray(ranks.copies.size) > 1) & (zero > 0)
    if np.any(copied):
        scatter_s = scatter_s + copied * seconds("all_reduce", shards, lambda held: held.copies)
    gradient_s = np.where(zero == 0, reduce_s, scatter_s)
    back_s = gradient_s + np.where(zero == 3, again_s, 0.0)

    slow, layers = constants.overlap_slowdown, messages
    aside = machine is None
    shown_backward: Number = back_s
    if framework.overlap.gradients and aside:
        alone = moves.pipelines_once & (zero < 3)
        shown_backward = np.where(alone, back_s, exposed(replica.backward_s, back_s, layers, slow))
    beside = np.where(moves.every_pass, framework.overlap.parameters, framework.overlap.update) & aside
    shown_forward = np.where(beside, exposed(replica.forward_s, gather_s, layers, slow), gather_s)
    many, more = (1.0 * (np.asarray(held.all.size) > 1) for held in (ranks, expert_ranks))
    # With shards on one rank there is nothing to gather or scatter.
    split, cut = (np.where(zero > 0, np.asarray(held.sharing.size) > 1, 1.0) for held in (ranks, expert_ranks))
    gathered, across = moves.gathered, copied * moves.reductions
    moved = many * (split * (moves.reductions * gradients.common + gathered.common) + across * shards.common)
    moved = moved + more * (cut * (moves.reductions * gradients.experts + gathered.experts) + across * shards.experts)
    own_s: Number = 0.0
    if framework.native.copies_gathered_parameters:
        in_place = 2.0 * (split * gathered.common + cut * gathered.experts)
        own_s = in_place / (cluster.device.memory_bandwidth * constants.memory_fraction)
    if machine is not None:
        own_s = own_s + split * sharding_code_s(moves, replica.layers, plan, cluster.device, machine)
    return DataParallelTime(
        exposed_s=many * (moves.reductions * shown_backward + moves.forward_gathers * shown_forward + own_s),
        network_bytes=moved,
    )
