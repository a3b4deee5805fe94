"""A training step on heterogeneous devices: groups of equal ones, priced as one group is, and joined."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.content import record
from sightline.cost.clock import at_its_clock
from sightline.errors import InputError
from sightline.prediction.schedules.closed_forms import held_before
from sightline.prediction.shares import balanced_shares
from sightline.prediction.training.constants import TrainingConstants
from sightline.prediction.training.data_parallel import Replication, replication
from sightline.prediction.training.memory import StageLedger, stage_ledgers
from sightline.prediction.training.micro_batch import PipelineSlots, slots_of
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import Priced, price
from sightline.prediction.training.stages import DenseAndExperts, StageContents
from sightline.prediction.training.step import StepTimes, step_times
from sightline.profile.profile import IN_HOST_MEMORY
from sightline.quantities import Number, larger
from sightline.scenario import Cluster, LayerKind, Scenario

ConstantsOf = Callable[[Scenario], TrainingConstants]
"""The framework's constants on the devices of a scenario of equal ones."""


def seen_as_whole(cluster: Cluster, group: Cluster) -> Cluster:
    """Return the cluster as if all its devices were those of a group, and its nodes the group's."""
    return replace(group, devices=cluster.devices, name=cluster.name)


@record
class GroupStep:
    """A step on one group's devices: its own stages, or its own replicas with their share of the batch."""

    group: Cluster
    priced: Priced
    times: StepTimes
    ledgers: Sequence[StageLedger]

    @property
    def scenario(self) -> Scenario:
        """The scenario seen from the group."""
        return self.priced.scenario

    @property
    def step_time_s(self) -> Number:
        """Seconds of the step, as far as this group goes."""
        return self.times.step_time_s


def priced_groups(scenario: Scenario, constants_of: ConstantsOf) -> list[Priced]:
    """Return the micro-batch priced on the devices of each group."""
    cluster = scenario.cluster
    seen = [replace(scenario, cluster=seen_as_whole(cluster, group)) for group in cluster.parts]
    return [price(at_its_clock(as_kept(group_scenario)), constants_of(group_scenario)) for group_scenario in seen]


def group_step(
    group: Cluster, priced: Priced, times: StepTimes, in_flight: Sequence[Number] | None = None
) -> GroupStep:
    """Return a group's step with its memory; ``in_flight`` are the micro-batches that stated stages hold."""
    return GroupStep(group=group, priced=priced, times=times, ledgers=stage_ledgers(priced, times, in_flight))


Seconds = NDArray[np.float64]
"""``t[a, b]``: seconds of a micro-batch on a stage with layers ``a`` to ``b - 1``; infinite where that cannot be."""


def fastest_layers(stages: Sequence[Seconds], micro_batches: float) -> tuple[int, ...] | None:
    """Return the layers of each stage of the fastest pipeline; None where no split is possible."""
    bottleneck = _cuts(stages, np.maximum)
    if bottleneck is None:
        return None
    further = max(micro_batches - 1.0, 0.0)

    def pipeline_s(cuts: Sequence[int]) -> float:
        times = _times(stages, cuts)
        return further * max(times) + sum(times)

    best, least_sum_s = bottleneck, sum(_times(stages, _cuts(stages, np.add) or bottleneck))
    start_s = max(_times(stages, bottleneck))
    for limit_s in _limits(stages, start_s):
        # No pipeline with a bottleneck beyond the limit before this one can be faster than that.
        if further * limit_s + least_sum_s >= pipeline_s(best):
            break
        cuts = _cuts([np.where(times <= limit_s, times, np.inf) for times in stages], np.add)
        if cuts is not None and pipeline_s(cuts) < pipeline_s(best):
            best = cuts
    return tuple(int(b - a) for a, b in pairwise(best))


def _limits(stages: Sequence[Seconds], start_s: float) -> Seconds:
    """The bottlenecks that there may be, from the least on."""
    times = np.unique(np.concatenate([seconds[np.isfinite(seconds)] for seconds in stages]))
    limits: Seconds = times[times >= start_s]
    return limits


def _cuts(stages: Sequence[Seconds], join: Callable[[Any, Any], Any]) -> list[int] | None:
    """The layers at which stages begin and end, for the least maximum or sum of their seconds; None for none."""
    whole = stages[0].shape[0] - 1
    reached: Seconds = stages[0][0]
    choices: list[NDArray[np.int64]] = []
    for times in stages[1:]:
        joined = join(reached[:, None], times)
        choices.append(joined.argmin(axis=0))
        reached = joined.min(axis=0)
    if not np.isfinite(reached[whole]):
        return None
    cuts = [whole]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return [0, *reversed(cuts)]


def _times(stages: Sequence[Seconds], cuts: Sequence[int]) -> list[float]:
    """Seconds of each stage."""
    return [float(seconds[a, b]) for seconds, a, b in zip(stages, cuts[:-1], cuts[1:], strict=True)]


class Place(NamedTuple):
    """A stage's place in the pipeline and in the cluster."""

    position: int
    """From 0."""
    group: int
    """Position of its group of devices."""


def places_of_stages(cluster: Cluster, stages: int) -> list[Place]:
    """Return the groups that the stages of a pipeline run on, in the order of both."""
    devices_of_stage = cluster.devices // stages
    counts = [part.devices // devices_of_stage for part in cluster.parts]
    groups = [group for group, count in enumerate(counts) for _ in range(count)]
    return [Place(position, group) for position, group in enumerate(groups)]


def contents_of_stage(scenario: Scenario, position: int, kinds: Sequence[Number]) -> StageContents:
    """Return what a stage holds that has so many layers of each of the model's kinds.

    Layers of multi-token prediction are on the last stage.
    """
    plan, model = scenario.plan, scenario.model
    further, last = plan.prediction_layers, position == int(plan.pipeline_parallel) - 1
    tied = last and position > 0 and (model.tied_embeddings or further > 0)
    return StageContents(
        name=f"stage {position + 1}",
        kinds=(*kinds, further * 1.0 * last) if further else tuple(kinds),
        embedding=1.0 * (position == 0),
        head=1.0 * last,
        tied_copy=1.0 * tied,
    )


def stated_stages(scenario: Scenario, layers: Sequence[int]) -> list[StageContents]:
    """Return what the stages hold that have so many layers, in order."""
    kinds = _Kinds.of(scenario.model.kinds)
    ends = list(accumulate(layers))
    starts = [0, *ends[:-1]]
    between = [kinds.between(np.asarray(float(a)), np.asarray(float(b))) for a, b in zip(starts, ends, strict=True)]
    return [contents_of_stage(scenario, i, [float(k) for k in counts]) for i, counts in enumerate(between)]


class Ranges(NamedTuple):
    """Every range of layers that a stage may hold."""

    kinds: tuple[NDArray[np.float64], ...]
    """Layers of each kind, for ranges that differ in them."""
    place: NDArray[np.int64]
    """``place[a, b]``: where among those the layers ``a`` to ``b - 1`` are."""
    valid: NDArray[np.bool_]
    """``valid[a, b]``: whether ``b`` is not before ``a``."""


def ranges_of_layers(scenario: Scenario) -> Ranges:
    """Return every range of layers, those that hold the same as one."""
    return _ranges(tuple((kind.count, kind.leading) for kind in scenario.model.kinds))


@lru_cache(maxsize=16)
def _ranges(kinds: tuple[tuple[int, bool], ...]) -> Ranges:
    of = _Kinds(kinds)
    layers = sum(count for count, _ in kinds)
    a, b = (of_axis.astype(float) for of_axis in np.meshgrid(*[np.arange(layers + 1)] * 2, indexing="ij"))
    counts = np.stack([np.broadcast_to(one, a.shape) for one in of.between(a, np.maximum(a, b))])
    distinct, place = np.unique(counts.reshape(len(kinds), -1), axis=1, return_inverse=True)
    return Ranges(kinds=tuple(distinct), place=place.reshape(a.shape), valid=b >= a)


class _Kinds(NamedTuple):
    """Layers of each kind in order, and whether they lead; those that do not alternate, a fraction of each a layer."""

    counts: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, kinds: Sequence[LayerKind]) -> "_Kinds":
        return cls(tuple((kind.count, kind.leading) for kind in kinds))

    def between(self, a: NDArray[np.float64], b: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Layers of each kind from layer ``a`` to before layer ``b``."""
        leading = sum(count for count, leads in self.counts if leads)
        others = sum(count for count, leads in self.counts if not leads)
        rest = np.maximum(b, leading) - np.maximum(a, leading)
        return list(self._counted(a, b, rest, max(others, 1)))

    def _counted(
        self, a: NDArray[np.float64], b: NDArray[np.float64], rest: NDArray[np.float64], others: int
    ) -> Iterator[NDArray[np.float64]]:
        start = 0.0
        for count, leads in self.counts:
            if leads:
                yield np.clip(b, start, start + count) - np.clip(a, start, start + count)
                start += count
            else:
                yield rest * count / others


def boundary_of(cluster: Cluster, group: Cluster, devices_of_stage: int) -> Cluster:
    """Return the cluster seen from a group, with the links over which its stages hand on what they made.

    Groups do not share nodes, so that a stage of unlike neighbours sends through its own node's ports, over the network
    between the groups.
    """
    whole = seen_as_whole(cluster, group)
    if not cluster.groups:
        return whole
    return replace(whole, network=cluster.network, per_node=min(group.per_node, devices_of_stage))


def pipeline_steps(scenario: Scenario, constants_of: ConstantsOf) -> list[GroupStep]:
    """Return the step of each group that has stages of every replica; ``scenario`` states the layers of each stage."""
    cluster, stages = scenario.cluster, int(scenario.plan.pipeline_parallel)
    layers = scenario.plan.stage_layers
    if layers is None:
        raise ValueError("the layers per stage are not set")
    contents, places = stated_stages(scenario, layers), places_of_stages(cluster, stages)
    priced = priced_groups(scenario, constants_of)
    own = []
    for g, group_priced in enumerate(priced):
        own.append(slots_of_group(group_priced, [contents[place.position] for place in places if place.group == g]))
    steps: list[GroupStep] = []
    for g, (group, group_priced) in enumerate(zip(cluster.parts, priced, strict=True)):
        elsewhere = [slot for other, slots in enumerate(own) if other != g for slot in slots.slots]
        boundary = boundary_of(cluster, group, cluster.devices // stages)
        times = step_times(group_priced, replace(own[g], elsewhere=elsewhere), boundary=boundary)
        in_flight = [_held(scenario, place, times.micro_batches) for place in places if place.group == g]
        steps.append(group_step(group, group_priced, times, in_flight))
    return _at_one_pace(steps)


def slots_of_group(priced: Priced, contents: Sequence[StageContents]) -> PipelineSlots:
    """Return what one micro-batch takes on the stages of a group."""
    return slots_of(contents, [1] * len(contents), priced.times, priced.launches)


def _held(scenario: Scenario, place: Place, micro_batches: Number) -> Number:
    """Micro-batches whose activations a stage holds."""
    plan = scenario.plan
    behind = int(plan.pipeline_parallel) - 1 - place.position
    schedule: Any = plan.schedule
    return held_before(behind, plan.pipeline_parallel, micro_batches, plan.virtual_stages, schedule)


def _at_one_pace(steps: Sequence[GroupStep]) -> list[GroupStep]:
    """The steps of groups that wait for the group with the slowest stage, as more of their bubble."""
    whole_s = reduce(larger, [step.times.pipeline.total_s for step in steps])
    waiting = []
    for step in steps:
        pipeline = step.times.pipeline
        longer = pipeline._replace(bubble_s=pipeline.bubble_s + (whole_s - pipeline.total_s))
        waiting.append(replace(step, times=replace(step.times, pipeline=longer)))
    return waiting


def best_layers(scenario: Scenario, constants_of: ConstantsOf) -> tuple[int, ...]:
    """Return the layers of each stage of the fastest pipeline that every device's memory holds.

    Where no split fits, that of the fastest pipeline regardless of memory.
    """
    places = places_of_stages(scenario.cluster, int(scenario.plan.pipeline_parallel))
    tables: list[tuple[Seconds, NDArray[np.bool_]]] = []
    for g, (group, group_priced) in enumerate(
        zip(scenario.cluster.parts, priced_groups(scenario, constants_of), strict=True)
    ):
        tables += _tables(scenario, group_priced, group, [place for place in places if place.group == g])
    micro_batches = float(scenario.micro_batches)
    fitting = fastest_layers([np.where(fits, seconds, np.inf) for seconds, fits in tables], micro_batches)
    layers = fitting or fastest_layers([seconds for seconds, _ in tables], micro_batches)
    if layers is None:
        raise ValueError("the pipeline has more stages than layers")
    return layers


def _tables(
    scenario: Scenario, priced: Priced, group: Cluster, places: Sequence[Place]
) -> list[tuple[Seconds, NDArray[np.bool_]]]:
    """Seconds of each of a group's stages by range of layers, and whether the range fits in memory."""
    ranges = ranges_of_layers(scenario)
    contents = [contents_of_stage(scenario, place.position, ranges.kinds) for place in places]
    slots = slots_of_group(priced, contents)
    times = step_times(priced, slots)
    step = group_step(group, priced, times, [_held(scenario, place, times.micro_batches) for place in places])
    tables = []
    for place, slot, ledger in zip(places, slots.slots, step.ledgers, strict=True):
        fits = np.asarray(ledger.memory.total <= group.device.memory_bytes)
        fits = fits & (ledger.memory.items[IN_HOST_MEMORY] * group.devices_per_host <= group.host.memory_bytes)
        inner = 0 < place.position < int(scenario.plan.pipeline_parallel) - 1
        allowed = ranges.valid & ~(inner & np.eye(len(ranges.valid), dtype=bool))
        seconds = np.where(allowed, _by_range(slot.total_s, ranges.place), np.inf)
        tables.append((seconds, _by_range(fits, ranges.place)))
    return tables


def _by_range(figure: Any, place: NDArray[np.int64]) -> NDArray[Any]:
    """A figure of the distinct ranges, laid out by first and last layer."""
    whole = np.broadcast_to(figure, (int(place.max()) + 1,))
    return whole[place]


def replicas_of_groups(scenario: Scenario) -> list[int]:
    """Return the data-parallel replicas of each group."""
    plan = scenario.plan
    ranks = int(plan.tensor_parallel * plan.pipeline_parallel * plan.context_parallel)
    return [part.devices // ranks for part in scenario.cluster.parts]


def replica_steps(scenario: Scenario, constants_of: ConstantsOf) -> list[GroupStep]:
    """Return the step of each group of replicas; ``scenario`` states the sequences that each group takes."""
    batches = scenario.plan.group_batches
    if batches is None:
        raise ValueError("the batch shares are not set")
    priced = priced_groups(scenario, constants_of)
    on = slowest_replication(priced, scenario)
    per_replica = [batch / count for batch, count in zip(batches, replicas_of_groups(scenario), strict=True)]
    steps = []
    for group, group_priced, share in zip(scenario.cluster.parts, priced, per_replica, strict=True):
        own = with_share(group_priced, share)
        steps.append(group_step(group, own, step_times(own, on=on)))
    return steps


def with_share(priced: Priced, sequences: Number) -> Priced:
    """Return the micro-batch of a step in which every replica takes so many sequences."""
    scenario = priced.scenario
    batch: Any = sequences * scenario.plan.data_parallel
    work = replace(scenario.workload, global_batch=batch)
    return replace(priced, scenario=replace(scenario, workload=work))


def slowest_replication(priced: Sequence[Priced], scenario: Scenario) -> Replication:
    """Return where replicas meet, as seen from the group whose links take longest for all of them.

    A ring or tree over all replicas is as fast as its slowest links; groups meet over the network between them.
    """
    seen = [replace(group_priced.scenario.cluster, network=scenario.cluster.network) for group_priced in priced]
    replications = [
        replication(scenario.plan, cluster, group_priced.library, group_priced.constants, group_priced.device_model)
        for cluster, group_priced in zip(seen, priced, strict=True)
    ]
    gradients = DenseAndExperts(dense=2.0 * scenario.model.parameters, experts=0.0)
    seconds = [float(on.seconds("all_reduce", gradients, 1.0, lambda ranks: ranks.all)) for on in replications]
    return replications[int(np.argmax(seconds))]


def best_batches(scenario: Scenario, constants_of: ConstantsOf) -> tuple[int, ...]:
    """Return the sequences of a step that each group takes so that the last group ends first.

    Raises:
        InputError: the batch has no whole micro-batches for every replica.
    """
    plan, batch = scenario.plan, scenario.workload.global_batch
    size, replicas = int(plan.sequences), replicas_of_groups(scenario)
    whole, rest = divmod(batch, size)
    priced = priced_groups(scenario, constants_of)
    on = slowest_replication(priced, scenario)
    seconds = []
    for group_priced, count in zip(priced, replicas, strict=True):
        most = (whole - sum(replicas) + count) // count
        shares = np.arange(1, max(most, 1) + 1)
        times = step_times(with_share(group_priced, shares * float(size)), on=on).step_time_s
        seconds.append(np.broadcast_to(times, shares.shape))
    balanced = None if rest else balanced_shares(replicas, seconds, whole)
    if balanced is None:
        raise InputError(
            f"workload.global_batch is {batch}, which {' and '.join(map(str, replicas))} replicas on "
            f"heterogeneous devices cannot share in whole micro-batches of {size}"
        )
    return tuple(share * count * size for share, count in zip(balanced, replicas, strict=True))
