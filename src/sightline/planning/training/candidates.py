"""Candidates of a search: the values of every free field, laid out as the axes of a mesh.

A row is one choice of all degrees, the micro-batch and sequence parallelism together, as most products of their values
fit no cluster. ZeRO, offloading and schedules have an axis each: what does not depend on them is worked out once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.cost.device_model import device_model
from sightline.prediction.training.predict import divisors
from sightline.quantities import Number, distinct
from sightline.scenario import Scenario
from sightline.scenario.plan import OFFLOADABLE, AttentionKernel, Schedule
from sightline.scenario.space import Space
from sightline.scenario.techniques import Recomputation

Array = NDArray[Any]
SCHEDULES: Final[tuple[Schedule, ...]] = ("1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe")
RECOMPUTE: Final = ("none", "selective", "full")
ATTENTION: Final = ("flash", "eager")
SHAPES: Final = ("sequence_parallel", "expert_parallel", "context_parallel", "tensor_parallel", "micro_batch")
"""Fields on which the shapes of a micro-batch's operators depend."""
ROW, ZERO, OFFLOAD = range(3)
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

    rows: Mapping[str, Array]
    """Degrees, micro-batch and number of devices by field, in shape (rows,)."""
    zero_stage: Sequence[int]
    offload: Mapping[str, Sequence[float]]
    """By part of ``OFFLOADABLE``: 0.0, 1.0 or both."""
    schedules: Sequence[tuple[str, int]]
    """A schedule with its virtual stages."""
    micro_batches: Array
    """Which of the space's distinct micro-batches each row has, in shape (rows,)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of all dimensions."""
        return (self.count, len(self.zero_stage), *map(len, self.offload.values()), len(self.schedules))

    @property
    def count(self) -> int:
        """Number of rows."""
        return len(self.rows["micro_batch"])

    @property
    def both_ways(self) -> "Axes":
        """The axes with the only schedule in which stages work in both directions."""
        return replace(self, schedules=[("dualpipe", 1)])

    def chunks(self, rows: int) -> "Iterator[Axes]":
        """Yield the axes in parts of so many rows."""
        for start in range(0, self.count, rows):
            yield self.of_rows(slice(start, start + rows))

    def of_rows(self, chosen: Any) -> "Axes":
        """Return the axes with some of the rows."""
        rows = {name: values[chosen] for name, values in self.rows.items()}
        return replace(self, rows=rows, micro_batches=self.micro_batches[chosen])


def along(values: Any, dimension: int) -> Array:
    """Return values as an array along one dimension of a mesh."""
    return np.asarray(values).reshape([-1 if i == dimension else 1 for i in range(DIMENSIONS)])


def least_of_rows(number: Number, rows: int) -> Array:
    """Return the least value of each row of a mesh."""
    array = np.asarray(number)
    if array.ndim:
        array = array.min(axis=tuple(range(1, array.ndim)))
    return np.broadcast_to(array, rows)


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

    Degrees divide the cluster, and replicas and micro-batches the batch. Other rules are asked later.
    """
    stays = device_model(space.scenario.cluster.device).in_host_memory
    offload = _values(space, "offload", (frozenset(), frozenset(() if stays else OFFLOADABLE)))
    rows = _rows(space)
    return Axes(
        rows=rows,
        micro_batches=distinct([rows[name] for name in _shaping(space)])[1],
        zero_stage=_values(space, "zero_stage", range(4)),
        offload={part: sorted({1.0 * (part in chosen) for chosen in offload}) for part in OFFLOADABLE},
        schedules=_schedules(space),
    )


def _shaping(space: Space[Scenario]) -> tuple[str, ...]:
    """Fields on which the operators of a micro-batch depend: some kinds of recomputation differ by stage."""
    by_stage = space.scenario.plan.framework.native.pipeline_accumulation_traffic
    by_stage = by_stage or any(isinstance(one, Recomputation) for one in _values(space, "recompute", RECOMPUTE))
    return (*SHAPES, *(["pipeline_parallel"] if by_stage else []))


def _rows(space: Space[Scenario]) -> dict[str, Array]:
    """Degrees and micro-batches that fill a cluster and share its batch."""
    scenario, counts = space.scenario, [cluster.devices for cluster in space.sizes]
    model, batch = scenario.model, scenario.workload.global_batch
    degrees = np.unique(np.concatenate([divisors(count) for count in counts]))
    splits: dict[str, Any] = {
        "pipeline_parallel": degrees[degrees <= model.layers + 2],
        "tensor_parallel": degrees,
        "context_parallel": degrees,
    }
    rows: dict[str, Array] = {"devices": np.asarray(counts)}
    ranks = np.ones(len(counts), dtype=np.int64)
    for name, usual in splits.items():
        rows, ranks = _times(rows, name, _values(space, name, usual), ranks)
        ranks = ranks * rows[name]
        rows, ranks = _kept(rows, ranks, rows["devices"] % ranks == 0)
    replicas = rows["devices"] // ranks
    rows, replicas = _times(rows, "micro_batch", _values(space, "micro_batch", _micro_batches(space)), replicas)
    sequences = replicas * rows["micro_batch"]
    rows, _ = _kept(rows, replicas, sequences <= batch if space.at_most else batch % sequences == 0)
    experts = [1] if model.experts is None else divisors(model.experts.count)
    for name, usual in (("expert_parallel", experts), ("sequence_parallel", (0, 1))):
        rows, _ = _times(rows, name, [int(value) for value in _values(space, name, usual)], rows["devices"])
    return rows


def _times(
    rows: Mapping[str, Array], name: str, values: Sequence[Any], along_rows: Array
) -> tuple[dict[str, Array], Array]:
    """Every row with every value of a further field; what lies along the rows is repeated too."""
    count, length = len(values), len(along_rows)
    repeated = {key: np.repeat(column, count) for key, column in rows.items()}
    return {**repeated, name: np.tile(np.asarray(values), length)}, np.repeat(along_rows, count)


def _kept(rows: Mapping[str, Array], along_rows: Array, where: Array) -> tuple[dict[str, Array], Array]:
    return {name: column[where] for name, column in rows.items()}, along_rows[where]


def _values(space: Space[Scenario], name: str, usual: Iterable[Any]) -> list[Any]:
    restricted = space.values.get(name, (getattr(space.scenario.plan, name),))
    return list(usual if restricted is None else restricted)


def _micro_batches(space: Space[Scenario]) -> Array:
    batch = space.scenario.workload.global_batch
    if not space.at_most:
        return divisors(batch)
    # Below a limit no micro-batch need divide it.
    return np.union1d(divisors(batch), 2 ** np.arange(batch.bit_length()))


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
    base = space.scenario
    rows: dict[str, Any] = {name: along(column, ROW) * 1.0 for name, column in axes.rows.items()}
    counts = rows.pop("devices")
    devices: Any = counts if space.clusters else base.cluster.devices
    left = counts / (rows["tensor_parallel"] * rows["pipeline_parallel"] * rows["context_parallel"])
    schedule: dict[str, Any] = {"schedule": "dualpipe", "virtual_stages": 1}
    if not choice.both_ways:
        schedule["schedule"] = along([name for name, _ in axes.schedules], SCHEDULE)
        schedule["virtual_stages"] = along([v for _, v in axes.schedules], SCHEDULE) * 1.0
    plan = replace(
        base.plan,
        **rows,
        **schedule,
        data_parallel=left,
        zero_stage=along(axes.zero_stage, ZERO),
        offload={part: along(there, OFFLOAD + i) for i, (part, there) in enumerate(axes.offload.items())},
        recompute=choice.recompute,
        attention=choice.attention,
    )
    workload = base.workload
    if space.at_most:
        sequences = left * rows["micro_batch"]
        largest: Any = np.floor(workload.global_batch / sequences) * sequences
        workload = replace(workload, global_batch=largest)
    return replace(base, plan=plan, workload=workload, cluster=replace(base.cluster, devices=devices))


def resolved(space: Space[Scenario], fields: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a plan that was found in a space."""
    scenario, chosen = space.scenario, dict(fields)
    cluster = {one.devices: one for one in space.sizes}[chosen.pop("devices")]
    replicas = cluster.devices // (chosen["tensor_parallel"] * chosen["pipeline_parallel"] * chosen["context_parallel"])
    workload = scenario.workload
    if space.at_most:
        sequences = replicas * chosen["micro_batch"]
        workload = replace(workload, global_batch=workload.global_batch // sequences * sequences)
    plan = replace(scenario.plan, data_parallel=replicas, **chosen)
    return replace(scenario, workload=workload, plan=plan, cluster=cluster)
