"""Data parallelism and ZeRO: what moves between replicas, how long that takes, how much of it is exposed.

Volumes as in ZeRO (arXiv 1910.02054): without it gradients are all-reduced once per step; stages 1 and 2 reduce-scatter
gradients and gather parameters; stage 3 gathers parameters in every forward and backward pass. DeepSpeed's
``BF16_Optimizer`` all-reduces gradients after the last backward pass and gathers parameters after the update, neither
overlapped nor layer by layer: its buckets of 5e8 elements are so long that their number does not matter
(``buffered_allreduce_fallback``, ``all_gather_dp_groups``). Frameworks differ in whether that happens per micro-batch.
One replica moves exactly nothing. With hybrid sharding (arXiv 2304.11277) parameters are gathered and gradients
scattered within a group of replicas, whose shards of the gradients are then all-reduced across groups.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sightline.content import record
from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.libraries import CollectiveConstants, Group, data_group
from sightline.cost.device_model import DeviceModel
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.stages import DenseAndExperts
from sightline.prediction.training.states import bf16_optimizer, shards_optimizer
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import Cluster, Plan

CONTENDED = 0.05
"""Share of a device's memory bandwidth from which on transfers slow compute as much as those measured did, for which
``overlap_slowdown`` is fitted: their least, 400 GB/s per node beside B200. Beside A100 and H100 networks of 200 and 400
GB/s reach 0.1, as NVLink does.
"""
TINY = 1e-12


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
    """One forward pass of a micro-batch."""
    backward_s: Number
    """Its recomputation and backward pass."""
    micro_batches: Number
    passes: Number = 1.0
    """Micro-batches whose passes one round of transfers overlaps with, if there are so many for each round."""
    forward_passes: float = 1.0
    """Of a micro-batch: those without a backward pass included."""

    def overlapping(self, rounds: Number) -> Number:
        """Return the passes that each of so many rounds of a step overlaps with."""
        return smaller(self.passes, self.micro_batches / larger(rounds, 1.0))


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
    # Stage 3 frees what it gathered after each pass; FSDP's stage 2 keeps a reference's weights whole.
    each = m if replica.forward_passes == 1.0 else m * either(zero == 3, replica.forward_passes, 1.0)
    once = (plan.pipeline_parallel > 1) & framework.native.synchronizes_after_pipeline
    gathers_each = (zero == 3) | ((zero == 2) & framework.sharding.regathers_every_micro_batch & (once == 0))
    weights = replica.stored_bytes
    if plan.adapter is not None or plan.quantization != "none":
        # Sharded parameters are gathered whole, frozen ones too; stages 1 and 2 gather what was updated.
        updated = replica.parameters.times(ELEMENT_BYTES[plan.high_precision_dtype])
        weights = DenseAndExperts(*(either(gathers_each, a, b) for a, b in zip(weights, updated, strict=True)))
    again = weights
    if framework.sharding.keeps_root_gathered:
        again = weights._replace(dense=larger(weights.dense - replica.embedding_and_head_bytes, 0.0))
    moved: Number = framework.sharding.gradient_reduce_bytes[plan.high_precision_dtype]
    if framework.sharding.replicas_keep_dtype and plan.gradient_reduce_dtype is None:
        moved = either(zero == 0, framework.states_in(plan.dtype).gradients, moved)
    reduces_each = (zero == 3) | ((zero == 2) & framework.sharding.reduces_every_micro_batch)
    return Movement(
        gradients=replica.parameters.times(moved),
        weights=weights,
        weights_again=again,
        reductions=either(reduces_each, m, 1.0),
        # Parameters: stage 3 gathers before the forward and again before the backward pass.
        forward_gathers=shards_optimizer(plan) * either(gathers_each, each, 1.0),
        backward_gathers=(zero == 3) * m,
        every_pass=gathers_each,
        pipelines_once=once,
    )


def sharding_code_s(moves: Movement, layers: Number, plan: Plan, model: DeviceModel) -> Number:
    """Return a step's seconds of a processor's code around gathers and reductions of fully sharded parameters.

    ``calls per unit + copied bytes / memory bandwidth``: hooks gather a unit's parameters into views of one buffer,
    free it, copy its gradients together; an accelerator works on meanwhile, a processor does nothing else. Every layer
    is a unit, and what is no layer's is one more.
    """
    code = model.sharding
    if code is None or not plan.framework.sharding.keeps_root_gathered:
        return 0.0
    units = layers + 1.0
    gathers = moves.forward_gathers * units + moves.backward_gathers * layers
    reduced_bytes = moves.reductions * moves.gradients.total
    calls_s = code.gather_call_s * gathers + code.reduce_call_s * moves.reductions * units
    copies = code.gather_passes * moves.gathered.total + code.reduce_passes * reduced_bytes
    return (plan.zero_stage > 0) * (calls_s + copies / model.device.memory_bandwidth)


class Rounds(NamedTuple):
    """Rounds of transfers in a step, each of which may overlap with passes layer by layer."""

    rounds: Number = 0.0
    transfer_s: Number = 0.0
    """One round, nothing hidden."""
    overlaps: Any = False
    """Whether it runs while the device works on."""
    passing_s: Number = 0.0
    """The passes that one round overlaps with."""
    layers: Number = 1.0
    moved_bytes: Number = 0.0
    """What the tensor-parallel ranks that share a node's network receive, and send on, in one round."""
    exposed_s: Number = 0.0
    """What all rounds add to the step."""

    def round_exposed_s(self, slowdown: Number, memory_bandwidth: Number) -> Number:
        """Return what one round adds to the step.

        Hidden transfers slow compute by the units and the memory traffic that they take: ``slowdown`` of their time
        where a node's move `CONTENDED` of a device's memory bandwidth or more, less in proportion over slower links.
        """
        if not anywhere(self.overlaps):
            return self.transfer_s
        full_s = self.moved_bytes / (CONTENDED * memory_bandwidth)
        rate = smaller(full_s / larger(self.transfer_s, TINY), 1.0)
        exposed_s = exposed(self.passing_s, self.transfer_s, self.layers, slowdown * rate)
        return either(self.overlaps, exposed_s, self.transfer_s)

    @property
    def outlasted_s(self) -> Number:
        """Seconds of a step's passes behind transfers that take longer: of all layers but one."""
        longer = self.overlaps & (self.transfer_s > self.passing_s)
        hidden_s: Number = longer * self.passing_s
        return self.rounds * (1.0 - 1.0 / self.layers) * hidden_s


class DataParallelTime(NamedTuple):
    """Seconds that data-parallel collectives add to a step, exposed, and their bytes."""

    exposed_s: Number
    network_bytes: Number
    forward: Rounds = Rounds()
    """Before and in forward passes."""
    backward: Rounds = Rounds()
    """In backward passes."""


class ReplicaRanks(NamedTuple):
    """The ranks that hold the same parameters."""

    all: Group
    sharding: Group
    """Those that ZeRO shards the states of one replica group over."""
    across: Group
    """One of each replica group, with the same shard (hybrid sharding)."""


def exposed(compute_s: Number, transfer_s: Number, layers: Number, slowdown: Number) -> Number:
    """Seconds that layer-wise transfers add to the compute they overlap with.

    The first (or last) layer's transfer has nothing to hide behind; the others are exposed where they outlast a layer's
    compute, which the hidden part slows by contention: g/L + (L - 1)/L max(g - c, 0) + slowdown min(g, c).
    """
    hidden = smaller(transfer_s, compute_s)
    return transfer_s / layers + (1.0 - 1.0 / layers) * (transfer_s - hidden) + slowdown * hidden


@record
class Replication:
    """Where a plan's replicas run and what prices their collectives."""

    plan: Plan
    cluster: Cluster
    ranks: tuple[ReplicaRanks, ReplicaRanks]
    """Those with the same common parameters, and those with the same experts."""
    library: CollectiveConstants
    constants: TrainingConstants
    device_model: DeviceModel
    """Where its calls return when their work is done, replicas copy what they send themselves, and nothing overlaps."""

    def seconds(
        self, kind: str, size: DenseAndExperts, messages: Number, among: Callable[[ReplicaRanks], Group]
    ) -> Number:
        """Seconds of a collective in so many messages; experts' follow the others' over their own ranks."""
        once = sum(
            collective_time(kind, part / messages, group=among(ranks), cluster=self.cluster, constants=self.library)
            for part, ranks in zip(size, self.ranks, strict=True)
            if part is size.dense or anywhere(part)
        )
        return self.constants.collective_slowdown * messages * once

    @property
    def sharded(self) -> DenseAndExperts:
        """1.0 where collectives move something: with shards on one rank there is nothing to gather or scatter."""
        zero = self.plan.zero_stage > 0
        return DenseAndExperts(*(either(zero, 1.0 * (ranks.sharding.size > 1), 1.0) for ranks in self.ranks))

    @property
    def hybrid(self) -> Any:
        """Whether there are several replica groups whose shards of the gradients are summed."""
        return (self.ranks[0].across.size > 1) & (self.plan.zero_stage > 0)

    def shards(self, gradients: DenseAndExperts) -> DenseAndExperts:
        """Return a rank's shard of the gradients."""
        parts = zip(gradients, self.ranks, strict=True)
        return DenseAndExperts(*(part / ranks.sharding.size for part, ranks in parts))


def replication(
    plan: Plan, cluster: Cluster, library: CollectiveConstants, constants: TrainingConstants, model: DeviceModel
) -> Replication:
    """Return where a plan's replicas run and what prices their collectives.

    Ranks of a replica group are neighbours, one in every tensor-parallel group; the other groups lie beyond them.
    """
    t, groups, replicas = plan.tensor_parallel, plan.replica_groups, 1.0 * plan.replicas

    def ranks(inside: Number, replicas: Number, shards: Number) -> ReplicaRanks:
        return ReplicaRanks(
            all=data_group(inside, replicas, cluster),
            sharding=data_group(inside, shards, cluster),
            across=data_group(inside * shards, groups, cluster),
        )

    expert_replicas = plan.expert_replicas
    return Replication(
        plan=plan,
        cluster=cluster,
        ranks=(
            ranks(1.0 * t, replicas, plan.shards),
            ranks(t * replicas / expert_replicas, expert_replicas, expert_replicas / groups),
        ),
        library=library,
        constants=constants,
        device_model=model,
    )


def data_parallel_time(replica: Replica, on: Replication) -> DataParallelTime:
    """Return the exposed seconds of a step's data-parallel collectives."""
    plan = on.plan
    several = DenseAndExperts(*(1.0 * (ranks.all.size > 1) for ranks in on.ranks))
    if not any(map(anywhere, several)):
        return DataParallelTime(0.0, 0.0)
    moves = movement(replica, plan)
    overlap = plan.overlap
    layered: Any = overlap.gradients | (overlap.parameters & (plan.zero_stage > 0))
    messages = either(layered & (bf16_optimizer(plan) == 0), larger(replica.layers, 1.0), 1.0)
    forward, backward = _rounds(replica, moves, _transfers_s(moves, messages, on), messages, on)
    slowdown, bandwidth = on.constants.overlap_slowdown, on.cluster.device.memory_bandwidth
    forward, backward = (
        rounds._replace(exposed_s=several.dense * rounds.rounds * rounds.round_exposed_s(slowdown, bandwidth))
        for rounds in (forward, backward)
    )
    own_s = _code_around_collectives_s(replica, moves, on)
    columns = zip(several, on.sharded, moves.gradients, moves.gathered, on.shards(moves.gradients), strict=True)
    across = on.hybrid * moves.reductions
    sent = (there * (cut * (moves.reductions * g + w) + across * shard) for there, cut, g, w, shard in columns)
    return DataParallelTime(
        exposed_s=backward.exposed_s + forward.exposed_s + several.dense * own_s,
        network_bytes=sum(sent),
        forward=forward._replace(rounds=several.dense * forward.rounds),
        backward=backward._replace(rounds=several.dense * backward.rounds),
    )


def _transfers_s(moves: Movement, messages: Number, on: Replication) -> tuple[Number, Number]:
    """Seconds of one round before the forward pass and in the backward pass, nothing hidden."""
    zero = on.plan.zero_stage
    reduce_s: Number = 0.0
    scatter_s: Number = 0.0
    gather_s: Number = 0.0
    if anywhere(zero == 0):
        reduce_s = on.seconds("all_reduce", moves.gradients, messages, lambda ranks: ranks.all)
    if anywhere(zero > 0):
        scatter_s = on.seconds("reduce_scatter", moves.gradients, messages, lambda ranks: ranks.sharding)
    if anywhere(shards_optimizer(on.plan)):
        gather_s = on.seconds("all_gather", moves.weights, messages, lambda ranks: ranks.sharding)
    again_s = gather_s
    if moves.weights_again is not moves.weights and anywhere(zero == 3):
        again_s = on.seconds("all_gather", moves.weights_again, messages, lambda ranks: ranks.sharding)
    if anywhere(on.hybrid):
        across_s = on.seconds("all_reduce", on.shards(moves.gradients), messages, lambda ranks: ranks.across)
        scatter_s = scatter_s + on.hybrid * across_s
    return gather_s, either(zero == 0, reduce_s, scatter_s) + (zero == 3) * again_s


def _rounds(
    replica: Replica, moves: Movement, transfers_s: tuple[Number, Number], layers: Number, on: Replication
) -> tuple[Rounds, Rounds]:
    """Rounds of transfers before the forward and in the backward pass, and the passes that they overlap with."""
    overlap, zero, reduced = on.plan.overlap, on.plan.zero_stage, moves.gradients.total
    back = reduced * either(zero == 0, 2.0, 1.0) + (zero == 3) * moves.weights_again.total
    ranks = 1.0 * on.plan.tensor_parallel
    forward = Rounds(moves.forward_gathers, transfers_s[0], layers=layers, moved_bytes=ranks * moves.weights.total)
    backward = Rounds(moves.reductions, transfers_s[1], layers=layers, moved_bytes=ranks * back)
    if not on.device_model.asynchronous:
        return forward, backward
    if overlap.gradients:
        alone: Any = (moves.pipelines_once & (on.plan.zero_stage < 3)) | bf16_optimizer(on.plan)
        passing_s = replica.backward_s * replica.overlapping(moves.reductions)
        backward = backward._replace(overlaps=alone == 0, passing_s=passing_s)
    overlapped: Any = either(moves.every_pass, overlap.parameters, overlap.update)
    if anywhere(overlapped):
        passing_s = replica.forward_s * replica.overlapping(moves.forward_gathers / replica.forward_passes)
        forward = forward._replace(overlaps=overlapped, passing_s=passing_s)
    return forward, backward


def _code_around_collectives_s(replica: Replica, moves: Movement, on: Replication) -> Number:
    """Seconds of copying what was gathered into place, and of a processor's code around collectives."""
    framework, device, sharded = on.plan.framework, on.cluster.device, on.sharded
    own_s: Number = 0.0
    if framework.native.copies_gathered_parameters:
        in_place = 2.0 * (sharded.dense * moves.gathered.dense + sharded.experts * moves.gathered.experts)
        own_s = in_place / (device.memory_bandwidth * on.constants.memory_fraction)
    return own_s + sharded.dense * sharding_code_s(moves, replica.layers, on.plan, on.device_model)
