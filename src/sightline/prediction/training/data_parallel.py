"""Data parallelism and ZeRO: how long what moves between replicas takes, and how much of it is exposed.

One replica moves exactly nothing. With hybrid sharding (arXiv 2304.11277) parameters are gathered and gradients
scattered within a group of replicas, whose shards of the gradients are then all-reduced across groups.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.constants import CollectiveConstants
from sightline.cost.collectives.groups import Group, data_group
from sightline.cost.device_model import DeviceModel
from sightline.prediction.framework_constants import TrainingConstants
from sightline.prediction.training.movement import Movement, Replica, movement, sharding_code_s
from sightline.prediction.training.sizes import DenseAndExperts
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import Cluster, Plan


class DataParallelTime(NamedTuple):
    """Seconds that data-parallel collectives add to a step, exposed, and their bytes."""

    exposed_s: Number
    network_bytes: Number


class Ranks(NamedTuple):
    """The ranks that hold the same parameters."""

    all: Group
    sharding: Group
    """Those that ZeRO shards the states of one replica group over."""
    across: Group
    """One of each replica group, with the same shard (hybrid sharding)."""


def ranks_of(plan: Plan, cluster: Cluster) -> tuple[Ranks, Ranks]:
    """Return the ranks with the same common parameters, and those with the same experts.

    Ranks of a replica group are neighbours, one in every tensor-parallel group; the other groups lie beyond them.
    """
    t, groups, replicas = plan.tensor_parallel, plan.replica_groups, 1.0 * plan.replicas

    def ranks(inside: Number, replicas: Number, shards: Number) -> Ranks:
        return Ranks(
            all=data_group(inside, replicas, cluster),
            sharding=data_group(inside, shards, cluster),
            across=data_group(inside * shards, groups, cluster),
        )

    expert_replicas = plan.expert_replicas
    return (
        ranks(1.0 * t, replicas, plan.shards),
        ranks(t * replicas / expert_replicas, expert_replicas, expert_replicas / groups),
    )


def exposed(compute_s: Number, transfer_s: Number, layers: Number, slowdown: Number) -> Number:
    """Seconds that layer-wise transfers add to the compute they overlap with.

    The first (or last) layer's transfer has nothing to hide behind; the others are exposed where they outlast a layer's
    compute, which the hidden part slows by contention: g/L + (L - 1)/L max(g - c, 0) + slowdown min(g, c).
    """
    hidden = smaller(transfer_s, compute_s)
    return transfer_s / layers + (1.0 - 1.0 / layers) * (transfer_s - hidden) + slowdown * hidden


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replication:
    """Where a plan's replicas run and what prices their collectives."""

    plan: Plan
    cluster: Cluster
    ranks: Ranks
    expert_ranks: Ranks
    library: CollectiveConstants
    constants: TrainingConstants
    device_model: DeviceModel
    """Where its calls return when their work is done, replicas copy what they send themselves, and nothing overlaps."""

    def seconds(self, kind: str, size: DenseAndExperts, messages: Number, among: Callable[[Ranks], Group]) -> Number:
        """Seconds of a collective in so many messages; experts' follow the others' over their own ranks."""
        parts = [(size.dense, self.ranks), *([(size.experts, self.expert_ranks)] if anywhere(size.experts) else [])]
        once = sum(
            collective_time(kind, part / messages, group=among(ranks), cluster=self.cluster, constants=self.library)
            for part, ranks in parts
        )
        return self.constants.collective_slowdown * messages * once


class _Transfers(NamedTuple):
    """Seconds of one round of each transfer, nothing hidden."""

    before_forward_s: Number
    in_backward_s: Number
    """Gradients, and the second gather of ZeRO-3."""


def data_parallel_time(replica: Replica, on: Replication) -> DataParallelTime:
    """Return the exposed seconds of a step's data-parallel collectives."""
    plan = on.plan
    several, several_of_experts = (1.0 * (ranks.all.size > 1) for ranks in (on.ranks, on.expert_ranks))
    if not anywhere(several) and not anywhere(several_of_experts):
        return DataParallelTime(0.0, 0.0)
    moves = movement(replica, plan)
    layered = plan.framework.overlap.gradients or plan.framework.overlap.parameters
    messages = larger(replica.layers, 1.0) if layered else 1.0
    forward_s, backward_s = _exposed(replica, moves, _transfers(moves, messages, on), messages, on)
    own_s = _code_around_collectives_s(replica, moves, on)
    across = _hybrid(on) * moves.reductions
    per_round = DenseAndExperts(
        _sharded(on.ranks, plan) * (moves.reductions * moves.gradients.dense + moves.gathered.dense),
        _sharded(on.expert_ranks, plan) * (moves.reductions * moves.gradients.experts + moves.gathered.experts),
    )
    shards = _shards(moves.gradients, on)
    return DataParallelTime(
        exposed_s=several * (moves.reductions * backward_s + moves.forward_gathers * forward_s + own_s),
        network_bytes=several * (per_round.dense + across * shards.dense)
        + several_of_experts * (per_round.experts + across * shards.experts),
    )


def _hybrid(on: Replication) -> Any:
    """Whether there are several replica groups whose shards of the gradients are summed."""
    return (on.ranks.across.size > 1) & (on.plan.zero_stage > 0)


def _sharded(ranks: Ranks, plan: Plan) -> Number:
    """1.0 where collectives move something: with shards on one rank there is nothing to gather or scatter."""
    return either(plan.zero_stage > 0, 1.0 * (ranks.sharding.size > 1), 1.0)


def _shards(gradients: DenseAndExperts, on: Replication) -> DenseAndExperts:
    """A rank's shard of the gradients."""
    return DenseAndExperts(gradients.dense / on.ranks.sharding.size, gradients.experts / on.expert_ranks.sharding.size)


def _transfers(moves: Movement, messages: Number, on: Replication) -> _Transfers:
    zero = on.plan.zero_stage
    reduce_s: Number = 0.0
    scatter_s: Number = 0.0
    gather_s: Number = 0.0
    if anywhere(zero == 0):
        reduce_s = on.seconds("all_reduce", moves.gradients, messages, lambda ranks: ranks.all)
    if anywhere(zero > 0):
        scatter_s = on.seconds("reduce_scatter", moves.gradients, messages, lambda ranks: ranks.sharding)
        gather_s = on.seconds("all_gather", moves.weights, messages, lambda ranks: ranks.sharding)
    again_s = gather_s
    if moves.weights_again is not moves.weights and anywhere(zero == 3):
        again_s = on.seconds("all_gather", moves.weights_again, messages, lambda ranks: ranks.sharding)
    hybrid = _hybrid(on)
    if anywhere(hybrid):
        shards = _shards(moves.gradients, on)
        scatter_s = scatter_s + hybrid * on.seconds("all_reduce", shards, messages, lambda ranks: ranks.across)
    return _Transfers(gather_s, either(zero == 0, reduce_s, scatter_s) + (zero == 3) * again_s)


def _exposed(
    replica: Replica, moves: Movement, transfers: _Transfers, layers: Number, on: Replication
) -> tuple[Number, Number]:
    """Exposed seconds of one round of transfers before the forward and in the backward pass."""
    framework, slowdown = on.plan.framework, on.constants.overlap_slowdown
    forward_s, backward_s = transfers
    if not on.device_model.asynchronous:
        return forward_s, backward_s
    if framework.overlap.gradients:
        alone = moves.pipelines_once & (on.plan.zero_stage < 3)
        backward_s = either(alone, backward_s, exposed(replica.backward_s, backward_s, layers, slowdown))
    overlapped = either(moves.every_pass, framework.overlap.parameters, framework.overlap.update)
    if anywhere(overlapped):
        forward_s = either(overlapped, exposed(replica.forward_s, forward_s, layers, slowdown), forward_s)
    return forward_s, backward_s


def _code_around_collectives_s(replica: Replica, moves: Movement, on: Replication) -> Number:
    """Seconds of copying what was gathered into place, and of a processor's code around collectives."""
    framework, device = on.plan.framework, on.cluster.device
    dense, experts = _sharded(on.ranks, on.plan), _sharded(on.expert_ranks, on.plan)
    own_s: Number = 0.0
    if framework.native.copies_gathered_parameters:
        in_place = 2.0 * (dense * moves.gathered.dense + experts * moves.gathered.experts)
        own_s = in_place / (device.memory_bandwidth * on.constants.memory_fraction)
    return own_s + dense * sharding_code_s(moves, replica.layers, on.plan, on.device_model)
