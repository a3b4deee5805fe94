"""Candidates of a search: the values of every free field, laid out as the axes of a mesh.

A row is one choice of all degrees, the micro-batch and sequence parallelism together, as most products of their values
fit no cluster. ZeRO, offloading and schedules have an axis each: what does not depend on them is worked out once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.cost.device_model import device_model
from sightline.prediction.training.step_profile import divisors
from sightline.quantities import Number
from sightline.scenario import Scenario
from sightline.scenario.plan import OFFLOADABLE, AttentionKernel, Schedule
from sightline.scenario.space import Space
from sightline.scenario.techniques import Recomputation

Array = NDArray[Any]
SCHEDULES: Final[tuple[Schedule, ...]] = ("1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe")
RECOMPUTE: Final = ("none", "selective", "full")
ATTENTION: Final = ("flash", "eager")
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
    compile: bool


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

    def of_rows(self, chosen: Any) -> "Axes":
        """Return the axes with some of the rows."""
        rows = {name: values[chosen] for name, values in self.rows.items()}
        return replace(self, rows=rows, micro_batches=self.micro_batches[chosen])

    def of_values(self, dimension: int, chosen: Iterable[int]) -> "Axes":
        """Return the axes with some of the values of one beside the rows."""
        if dimension == ZERO:
            return replace(self, zero_stage=[self.zero_stage[i] for i in chosen])
        if dimension == SCHEDULE:
            return replace(self, schedules=[self.schedules[i] for i in chosen])
        part = list(self.offload)[dimension - OFFLOAD]
        return replace(self, offload={**self.offload, part: [self.offload[part][i] for i in chosen]})


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
    options = (_values(space, name, usual) for name, usual in (("recompute", RECOMPUTE), ("attention", ATTENTION)))
    return [Choice(*one) for one in product(*options, both_ways, _values(space, "compile", (False, True)))]


def choice_of(fields: Mapping[str, Any]) -> Choice:
    """Return the choice of operators of a plan's fields."""
    return Choice(fields["recompute"], fields["attention"], fields["schedule"] == "dualpipe", fields["compile"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Layout:
    """What a space lays out, piece by piece: all ways to split its clusters, each with the rows that it has.

    Degrees divide the cluster, and replicas and micro-batches the batch. Other rules are asked later.
    """

    space: Space[Scenario]
    splits: Mapping[str, Array]
    """Devices and degrees that fill them, in shape (splits,)."""
    values: Mapping[str, Array]
    """All values of the fields that shape a micro-batch, in order."""
    borders: Array
    """Rows before each split, and all of them."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.borders[-1])

    def pieces(self, rows: int) -> list[Array]:
        """Return parts of the splits with hardly more rows than so many, or with a single split.

        Splits with the same micro-batches are next to each other, so that few parts share what is worked out of one.
        """
        order = np.lexsort((self.splits["context_parallel"], self.splits["tensor_parallel"]))
        borders = np.concatenate([[0], np.cumsum(np.diff(self.borders)[order])])
        places = [0]
        while places[-1] < len(order):
            start = places[-1]
            end = int(np.searchsorted(borders, borders[start] + rows, side="right")) - 1
            places.append(max(start + 1, end))
        return [order[start:end] for start, end in pairwise(places) if borders[start] < borders[end]]

    def axes(self, piece: slice | Array, *, both_ways: bool = False) -> Axes:
        """Return the axes of some splits; those of both ways have the only schedule that works in both directions."""
        space, rows = self.space, {name: column[piece] for name, column in self.splits.items()}
        rows, replicas = _times(rows, "micro_batch", _values(space, "micro_batch", _micro_batches(space)), _left(rows))
        rows, _ = _kept(rows, replicas, _share(space, replicas, rows["micro_batch"]))
        for name in ("expert_parallel", "sequence_parallel"):
            rows, _ = _times(rows, name, list(self.values[name]), rows["devices"])
        places = [np.searchsorted(values, rows[name]) for name, values in self.values.items()]
        stays = device_model(space.scenario.cluster.device).in_host_memory
        offload = _values(space, "offload", (frozenset(), frozenset(() if stays else OFFLOADABLE)))
        return Axes(
            rows=rows,
            micro_batches=np.ravel_multi_index(places, [len(values) for values in self.values.values()]),
            zero_stage=_offered_first(space, "zero_stage", range(4)),
            offload={part: sorted({1.0 * (part in chosen) for chosen in offload}) for part in OFFLOADABLE},
            schedules=[("dualpipe", 1)] if both_ways else _schedules(space),
        )


def layout_of(space: Space[Scenario]) -> Layout:
    """Return what a space lays out: all values that could be, or those that it is restricted to."""
    splits = _splits(space)
    replicas, place = np.unique(_left(splits), return_inverse=True)
    micro_batches = np.asarray(_values(space, "micro_batch", _micro_batches(space)))
    experts = space.scenario.model.experts
    values = {
        "sequence_parallel": _whole(space, "sequence_parallel", (0, 1)),
        "expert_parallel": _whole(space, "expert_parallel", [1] if experts is None else divisors(experts.count)),
        "context_parallel": np.unique(splits["context_parallel"]),
        "tensor_parallel": np.unique(splits["tensor_parallel"]),
        "micro_batch": np.unique(micro_batches),
    }
    if _by_stage(space):
        values["pipeline_parallel"] = np.unique(splits["pipeline_parallel"])
    shares = _share(space, replicas[:, np.newaxis], micro_batches).sum(axis=1)[place]
    rows = shares * len(values["sequence_parallel"]) * len(values["expert_parallel"])
    return Layout(space=space, splits=splits, values=values, borders=np.concatenate([[0], np.cumsum(rows)]))


def _splits(space: Space[Scenario]) -> dict[str, Array]:
    """Degrees that fill a cluster."""
    counts = [cluster.devices for cluster in space.sizes]
    degrees = np.unique(np.concatenate([divisors(count) for count in counts]))
    usual = dict.fromkeys(("pipeline_parallel", "tensor_parallel", "context_parallel"), degrees)
    usual["pipeline_parallel"] = degrees[degrees <= space.scenario.model.layers + 2]
    rows: dict[str, Array] = {"devices": np.asarray(counts)}
    ranks = np.ones(len(counts), dtype=np.int64)
    for name, values in usual.items():
        rows, ranks = _times(rows, name, _values(space, name, values), ranks)
        ranks = ranks * rows[name]
        rows, ranks = _kept(rows, ranks, rows["devices"] % ranks == 0)
    return rows


def _left(splits: Mapping[str, Array]) -> Array:
    """Replicas that the degrees leave."""
    ranks = splits["tensor_parallel"] * splits["pipeline_parallel"] * splits["context_parallel"]
    left: Array = splits["devices"] // ranks
    return left


def _share(space: Space[Scenario], replicas: Array, micro_batches: Array) -> Array:
    """Whether replicas with a micro-batch each share the batch, or stay below the largest one."""
    sequences, batch = replicas * micro_batches, space.scenario.workload.global_batch
    shared: Array = sequences <= batch if space.at_most else batch % sequences == 0
    return shared


def _whole(space: Space[Scenario], name: str, usual: Iterable[Any]) -> Array:
    """The values of a field as whole numbers in order."""
    return np.unique([int(value) for value in _values(space, name, usual)])


def _by_stage(space: Space[Scenario]) -> bool:
    """Whether the operators of a micro-batch depend on the number of stages, as with some kinds of recomputation."""
    by_stage = bool(space.scenario.plan.framework.native.pipeline_accumulation_traffic)
    return by_stage or any(isinstance(one, Recomputation) for one in _values(space, "recompute", RECOMPUTE))


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


def _offered_first(space: Space[Scenario], name: str, usual: Sequence[Any]) -> list[Any]:
    """The values of a field, those that the framework offers first: where all are the same plan the first is kept."""
    offered = space.scenario.plan.framework.allows
    return sorted(_values(space, name, usual), key=lambda value: (not offered(name, value), usual.index(value)))


def _schedules(space: Space[Scenario]) -> list[tuple[str, int]]:
    """Schedules with their virtual stages: chunks of as many layers each, unless numbers of them are stated."""
    layers = space.scenario.model.layers
    schedules = _offered_first(space, "schedule", SCHEDULES)
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
        compile=choice.compile,
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
