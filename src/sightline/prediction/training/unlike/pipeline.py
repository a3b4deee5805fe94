"""A pipeline whose stages run on unlike devices: uneven layers, one pace, each group's once-per-step work its own."""

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.prediction.schedules.closed_forms import held_before
from sightline.prediction.training.micro_batch import PipelineSlots, slots_of
from sightline.prediction.training.offload import IN_HOST_MEMORY
from sightline.prediction.training.priced import Priced
from sightline.prediction.training.stages import StageContents
from sightline.prediction.training.step import step_times
from sightline.prediction.training.unlike.groups import ConstantsOf, GroupStep, group_step, priced_groups, seen_as_whole
from sightline.prediction.training.unlike.layers import Seconds, fastest_layers
from sightline.prediction.training.unlike.stages import (
    Place,
    contents_of_stage,
    places_of_stages,
    ranges_of_layers,
    stated_stages,
)
from sightline.quantities import Number, larger
from sightline.scenario import Cluster, Scenario


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
        raise ValueError("the layers of the stages are still open")
    contents, places = stated_stages(scenario, layers), places_of_stages(cluster, stages)
    priced = priced_groups(scenario, constants_of)
    own = []
    for g, one in enumerate(priced):
        own.append(slots_of_group(one, [contents[place.position] for place in places if place.group == g]))
    steps: list[GroupStep] = []
    for g, (group, one) in enumerate(zip(cluster.parts, priced, strict=True)):
        elsewhere = [slot for other, slots in enumerate(own) if other != g for slot in slots.slots]
        boundary = boundary_of(cluster, group, cluster.devices // stages)
        times = step_times(one, replace(own[g], elsewhere=elsewhere), boundary=boundary)
        held = [_held(scenario, place, times.micro_batches) for place in places if place.group == g]
        steps.append(group_step(group, one, times, held))
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
    for g, (group, one) in enumerate(zip(scenario.cluster.parts, priced_groups(scenario, constants_of), strict=True)):
        tables += _tables(scenario, one, group, [place for place in places if place.group == g])
    micro_batches = float(scenario.micro_batches)
    fitting = fastest_layers([np.where(fits, seconds, np.inf) for seconds, fits in tables], micro_batches)
    found = fitting or fastest_layers([seconds for seconds, _ in tables], micro_batches)
    if found is None:
        raise ValueError("more stages than layers reach the layout of a pipeline")
    return found


def _tables(
    scenario: Scenario, priced: Priced, group: Cluster, places: Sequence[Place]
) -> list[tuple[Seconds, NDArray[np.bool_]]]:
    """Seconds of each of a group's stages by range of layers, and whether the range fits in memory."""
    ranges = ranges_of_layers(scenario)
    contents = [contents_of_stage(scenario, place.position, ranges.kinds) for place in places]
    slots = slots_of_group(priced, contents)
    times = step_times(priced, slots)
    step = group_step(group, priced, times, [_held(scenario, place, times.micro_batches) for place in places])
    found = []
    for place, slot, ledger in zip(places, slots.slots, step.ledgers, strict=True):
        fits = np.asarray(ledger.memory.total <= group.device.memory_bytes)
        fits = fits & (ledger.memory.items[IN_HOST_MEMORY] * group.per_node <= group.host.memory_bytes)
        inner = 0 < place.position < int(scenario.plan.pipeline_parallel) - 1
        allowed = ranges.valid & ~(inner & np.eye(len(ranges.valid), dtype=bool))
        seconds = np.where(allowed, _by_range(slot.total_s, ranges.place), np.inf)
        found.append((seconds, _by_range(fits, ranges.place)))
    return found


def _by_range(figure: Any, place: NDArray[np.int64]) -> NDArray[Any]:
    """A figure of the distinct ranges, laid out by first and last layer."""
    whole = np.broadcast_to(figure, (int(place.max()) + 1,))
    return whole[place]
