"""Candidates of a search: the values of every free field, laid out as the axes of a mesh.

A layout is how a stage's ranks split a micro-batch: tensor, context and expert parallelism together, as most products
of their degrees fit no cluster. All else has an axis of its own, so that what does not depend on it is worked out once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.cost.device_model import device_model
from sightline.prediction.training.predict import divisors
from sightline.scenario import Scenario
from sightline.scenario.plan import OFFLOADABLE, AttentionKernel, Schedule
from sightline.scenario.space import Space
from sightline.scenario.techniques import Recomputation

Array = NDArray[Any]
SCHEDULES: Final[tuple[Schedule, ...]] = ("1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe")
RECOMPUTE: Final = ("none", "selective", "full")
ATTENTION: Final = ("flash", "eager")
LAYOUT, MICRO_BATCH, SEQUENCE, STAGES, ZERO, OFFLOAD = range(6)
"""Dimensions of a mesh; each part of what may be offloaded has one, from ``OFFLOAD`` on."""
SCHEDULE = OFFLOAD + len(OFFLOADABLE)
DIMENSIONS = SCHEDULE + 1


class Choice(NamedTuple):
    """What changes which operators exist: each choice is priced for itself."""

    recompute: str | Recomputation
    attention: AttentionKernel
    both_ways: bool
    """Whether the schedule is DualPipe."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Axes:
    """The axes of a mesh, each with its values."""

    layouts: Mapping[str, Array]
    """Degrees by field of the plan, in shape (layouts,)."""
    micro_batch: Array
    sequence_parallel: Array
    pipeline_parallel: Array
    zero_stage: Sequence[int]
    offload: Mapping[str, Sequence[float]]
    """By part of ``OFFLOADABLE``: 0.0, 1.0 or both."""
    schedules: Sequence[tuple[str, int]]
    """A schedule with its virtual stages."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of all dimensions."""
        layouts, parts = next(iter(self.layouts.values())), self.offload.values()
        sizes = (layouts, self.micro_batch, self.sequence_parallel, self.pipeline_parallel, self.zero_stage, *parts)
        return (*map(len, sizes), len(self.schedules))

    def of_layouts(self, chosen: Any) -> "Axes":
        """Return the axes with some of the layouts."""
        return replace(self, layouts={name: values[chosen] for name, values in self.layouts.items()})


def along(values: Any, dimension: int) -> Array:
    """Return values as an array along one dimension of a mesh."""
    return np.asarray(values).reshape([-1 if i == dimension else 1 for i in range(DIMENSIONS)])


def choices(space: Space[Scenario]) -> list[Choice]:
    """Return the choices of operators in a space, the plainest first."""
    schedules = _values(space, "schedule", SCHEDULES)
    both_ways = sorted({schedule == "dualpipe" for schedule in schedules})
    return [
        Choice(*one)
        for one in product(_values(space, "recompute", RECOMPUTE), _values(space, "attention", ATTENTION), both_ways)
    ]


def axes_of(space: Space[Scenario]) -> Axes:
    """Return the axes of a space: all values that could be, or those that it is restricted to.

    Degrees divide the cluster, and micro-batches the batch. Rules are asked later.
    """
    scenario = space.scenario
    model, counts = scenario.model, [cluster.devices for cluster in space.sizes]
    degrees = np.unique(np.concatenate([divisors(count) for count in counts]))
    splits: dict[str, Any] = {
        "devices": counts,
        "tensor_parallel": degrees,
        "context_parallel": degrees,
        "expert_parallel": [1] if model.experts is None else divisors(model.experts.count),
    }
    stays = device_model(scenario.cluster.device).in_host_memory
    offload = _values(space, "offload", (frozenset(), frozenset(() if stays else OFFLOADABLE)))
    return Axes(
        layouts=_layouts({name: _values(space, name, usual) for name, usual in splits.items()}),
        micro_batch=np.asarray(_values(space, "micro_batch", _micro_batches(space))),
        sequence_parallel=np.asarray(_values(space, "sequence_parallel", (False, True)), dtype=int),
        pipeline_parallel=np.asarray(_values(space, "pipeline_parallel", degrees[degrees <= model.layers + 2])),
        zero_stage=_values(space, "zero_stage", range(4)),
        offload={part: sorted({1.0 * (part in chosen) for chosen in offload}) for part in OFFLOADABLE},
        schedules=_schedules(space),
    )


def _values(space: Space[Scenario], name: str, usual: Iterable[Any]) -> list[Any]:
    if name == "devices":
        return list(usual)
    restricted = space.values.get(name, (getattr(space.scenario.plan, name),))
    return list(usual if restricted is None else restricted)


def _micro_batches(space: Space[Scenario]) -> Array:
    batch = space.scenario.workload.global_batch
    if not space.at_most:
        return divisors(batch)
    # Below a limit no micro-batch need divide it.
    return np.union1d(divisors(batch), 2 ** np.arange(batch.bit_length()))


def _layouts(axes: Mapping[str, Sequence[Any]]) -> dict[str, Array]:
    """The product of the degrees, without those whose ranks do not divide the devices; alike ones are neighbours."""
    grid = np.meshgrid(*(np.asarray(values, dtype=np.int64) for values in axes.values()), indexing="ij")
    layouts = {name: column.ravel() for name, column in zip(axes, grid, strict=True)}
    ranks = layouts["tensor_parallel"] * layouts["context_parallel"]
    (there,) = np.nonzero(layouts["devices"] % ranks == 0)
    there = there[np.lexsort((ranks[there], layouts["devices"][there]))]
    return {name: column[there] for name, column in layouts.items()}


def _schedules(space: Space[Scenario]) -> list[tuple[str, int]]:
    """Schedules with their virtual stages: chunks of as many layers each, unless numbers of them are stated."""
    layers = space.scenario.model.layers
    schedules = _values(space, "schedule", SCHEDULES)
    virtual = _values(space, "virtual_stages", divisors(layers))
    plain = [(name, 1) for name in schedules if name not in ("interleaved", "dualpipe") and 1 in virtual]
    interleaved = [("interleaved", int(v)) for v in virtual if v > 1 and "interleaved" in schedules]
    return plain + interleaved or [("1f1b", 1)]


def open_plan(space: Space[Scenario], axes: Axes, choice: Choice) -> Scenario:
    """Return the scenario with the axes as arrays, each along its own dimension."""
    base, stages = space.scenario, along(axes.pipeline_parallel, STAGES) * 1.0
    layouts: dict[str, Any] = {name: along(column, LAYOUT) * 1.0 for name, column in axes.layouts.items()}
    micro_batch = along(axes.micro_batch, MICRO_BATCH) * 1.0
    devices: Any = layouts.pop("devices") if space.clusters else base.cluster.devices
    layouts.pop("devices", None)
    left = devices / (layouts["tensor_parallel"] * layouts["context_parallel"] * stages)
    schedule: dict[str, Any] = {"schedule": "dualpipe", "virtual_stages": 1}
    if not choice.both_ways:
        schedule["schedule"] = along([name for name, _ in axes.schedules], SCHEDULE)
        schedule["virtual_stages"] = along([v for _, v in axes.schedules], SCHEDULE) * 1.0
    plan = replace(
        base.plan,
        **layouts,
        **schedule,
        micro_batch=micro_batch,
        sequence_parallel=along(axes.sequence_parallel, SEQUENCE),
        pipeline_parallel=stages,
        data_parallel=left,
        zero_stage=along(axes.zero_stage, ZERO),
        offload={part: along(there, OFFLOAD + i) for i, (part, there) in enumerate(axes.offload.items())},
        recompute=choice.recompute,
        attention=choice.attention,
    )
    workload = base.workload
    if space.at_most:
        sequences = np.floor(left) * micro_batch
        whole = np.floor(workload.global_batch / np.maximum(sequences, 1.0)) * sequences
        largest: Any = np.maximum(whole, sequences)
        workload = replace(workload, global_batch=largest)
    return replace(base, plan=plan, workload=workload, cluster=replace(base.cluster, devices=devices))
