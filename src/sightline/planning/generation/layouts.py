"""Layouts of a served model: how replicas, or workers that prefill and workers that decode, fill a cluster.

Columns of equal length stand for a list of layouts, a column of whole numbers for each degree.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.planning.generation.space import GenerationSpace, restricted, values_in
from sightline.scenario import GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Loads: TypeAlias = Mapping["Shape", Sequence[tuple[int, ...]]]
LOAD = ("prefill.batch", "max_batched_tokens", "chunked_prefill")
"""What a prefill worker is given at once, and how it cuts that."""
MOST_PLANS = 1_500_000
"""Disaggregated plans that a search tries, shared by its variants; of more, some kinds of workers are left out."""


class Shape(NamedTuple):
    """The degrees of a replica, in the order of `DEGREES`."""

    tensor: int
    pipeline: int
    data: int
    expert: int

    @property
    def devices(self) -> int:
        """Devices that it takes."""
        return self.tensor * self.pipeline * self.data


def divisors(number: int) -> tuple[int, ...]:
    """Return the divisors of a number in order."""
    return tuple(i for i in range(1, number + 1) if number % i == 0)


def values_of(space: GenerationSpace, scenario: GenerationScenario, name: str, free: Iterable[int]) -> tuple[int, ...]:
    """Return the values of a field; ``prefill.FIELD`` and ``decode.FIELD`` are those of workers of one kind.

    A degree that the engine lacks stays 1, unless the plan says otherwise.
    """
    pool, _, own = name.rpartition(".")
    allowed = restricted(space, name)
    if allowed is not None:
        return allowed
    if pool and "disaggregate" not in space.values:
        return (int(_stated(space.scenario.plan, pool, own)),)
    if pool and own not in DEGREES:
        return tuple(free)
    has = scenario.plan.engine.support
    lacks = own in DEGREES and has.architectures and own not in has.degrees
    return values_in(space, own, (1,) if lacks else free)


def _stated(plan: GenerationPlan, pool: str, name: str) -> Any:
    """What a plan with workers of their own states of one kind of them."""
    split = plan.disaggregate
    if split is None or pool == "decode":
        return getattr(plan, name)
    return split.prefill_batch if name == "batch" else getattr(split.prefill, name)


def shapes(space: GenerationSpace, scenario: GenerationScenario, sizes: Sequence[int], pool: str = "") -> list[Shape]:
    """Return the replicas that take one of ``sizes`` devices; ``pool`` names workers of one kind.

    Data-parallel ranks of a dense model are replicas, so there are none. Experts are spread over ranks that exist.
    """
    model, tried, fitting = scenario.model, divisors(scenario.cluster.devices), set(sizes)
    prefix = f"{pool}." if pool else ""

    def values(name: str, free: Iterable[int]) -> tuple[int, ...]:
        return values_of(space, scenario, prefix + name, free)

    degrees = product(
        values("tensor_parallel", (t for t in tried if model.heads % t == 0)),
        values("pipeline_parallel", (p for p in tried if p <= model.layers)),
        values("data_parallel", (1,) if model.experts is None else tried),
    )
    most = 1 if model.experts is None else model.experts.count
    return [
        Shape(t, p, d, e)
        for t, p, d in degrees
        if t * p * d in fitting
        for e in values("expert_parallel", (e for e in divisors(t * d) if e <= most))
        if (t * d) % e == 0
    ]


def replicated(space: GenerationSpace, scenario: GenerationScenario) -> Columns:
    """Return the layouts of equal replicas that fill the cluster."""
    devices = scenario.cluster.devices
    rows = [(*shape, devices // shape.devices) for shape in shapes(space, scenario, divisors(devices))]
    allowed = values_of(space, scenario, "replicas", (row[-1] for row in rows))
    return _columns([row for row in rows if row[-1] in allowed], (*DEGREES, "replicas"))


def disaggregated(
    space: GenerationSpace, scenario: GenerationScenario, loads_of: Callable[[list[Shape]], Loads], most: int
) -> tuple[Columns, bool]:
    """Return the layouts of prefill workers next to decode workers that fill the cluster, and whether all are there.

    ``loads_of`` says what prefill workers may be given at once. They are all there unless they are more than ``most``.
    """
    devices = scenario.cluster.devices
    sizes = range(1, devices)
    prefill, decode = shapes(space, scenario, sizes, "prefill"), shapes(space, scenario, sizes, "decode")
    loads, complete = loads_of(prefill), True
    for narrower in (*NARROWER, None):
        loaded = [(*shape, *load) for shape in prefill for load in loads[shape]]
        by_size = [_by_size(loaded), _by_size([tuple(shape) for shape in decode])]
        pairs = [(w, v, _counts(space, scenario, w, v)) for w, v in product(*by_size)]
        many = sum(len(by_size[0][w]) * len(by_size[1][v]) * len(counts) for w, v, counts in pairs)
        if many <= most or narrower is None:
            break
        if complete:  # at first the ways to cut prompts, which matter least
            loads = {shape: [load for load in of if load[1:] == of[0][1:]] for shape, of in loads.items()}
        else:
            prefill, decode = ([shape for shape in of if narrower(shape)] or of for of in (prefill, decode))
        complete = False
    names = (*(f"prefill.{name}" for name in DEGREES), *LOAD, *DEGREES, "prefill.replicas", "replicas")
    rows = [_crossed(by_size[0][w], by_size[1][v], counts) for w, v, counts in pairs if counts]
    whole = np.concatenate([np.zeros((0, len(names)), dtype=np.int64), *rows])
    return dict(zip(names, whole.T, strict=True)), complete


NARROWER: tuple[Callable[[Shape], bool], ...] = (
    lambda _: True,
    lambda shape: shape.expert in (1, shape.tensor * shape.data),
    lambda shape: shape.pipeline == 1,
    lambda shape: shape.tensor == 1 or shape.data == 1,
)
"""What is left of workers, one condition after the other, where there are too many pairs of them."""


def _by_size(rows: list[tuple[int, ...]]) -> dict[int, list[tuple[int, ...]]]:
    """Rows by the devices that their first three degrees take."""

    def size(row: tuple[int, ...]) -> int:
        return row[0] * row[1] * row[2]

    return {devices: list(of) for devices, of in groupby(sorted(rows, key=size), key=size)}


def _counts(
    space: GenerationSpace, scenario: GenerationScenario, prefill_size: int, decode_size: int
) -> list[tuple[int, int]]:
    """How many prefill and decode workers of these sizes fill the cluster together."""
    devices = scenario.cluster.devices
    found = [
        (x, (devices - x * prefill_size) // decode_size)
        for x in range(1, (devices - decode_size) // prefill_size + 1)
        if (devices - x * prefill_size) % decode_size == 0
    ]
    most = range(1, devices + 1)
    prefill, decode = (set(values_of(space, scenario, f"{pool}.replicas", most)) for pool in ("prefill", "decode"))
    return [(x, y) for x, y in found if x in prefill and y in decode]


def _crossed(*of: Sequence[tuple[int, ...]]) -> NDArray[np.int64]:
    """Every row of one list next to every row of the others."""
    tables = [np.array(rows, dtype=np.int64) for rows in of]
    places = np.indices([len(table) for table in tables]).reshape(len(tables), -1)
    return np.hstack([table[place] for table, place in zip(tables, places, strict=True)])


def _columns(rows: Sequence[tuple[int, ...]], names: Sequence[str]) -> Columns:
    table = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
    return dict(zip(names, table.T, strict=True))
