"""Candidates of a search of serving plans: layouts of replicas or workers x batches x ways to cut prompts.

Columns of equal length hold the fields of a list of plans. Each plan says something new once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.planning.generation.space import GenerationSpace, Variant, restricted, values_in
from sightline.prediction.generation.phases import Chunks, cut
from sightline.quantities import rounded_up
from sightline.scenario import Disaggregation, GenerationPlan, GenerationScenario
from sightline.scenario.generation import DEGREES
from sightline.scenario.rules import PREFILLS

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Loads: TypeAlias = Mapping["Shape", Sequence[tuple[int, ...]]]
LOAD = ("prefill.batch", "max_batched_tokens", "chunked_prefill")
"""What a prefill worker is given at once, and how it cuts that."""
MOST_PLANS = 1_500_000
"""Disaggregated plans that a search tries, shared by its variants; of more, some kinds of workers are left out."""
LEAST_SHARE = 30
"""A variant may always have as many as one of so many variants."""


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
    devices, apart = scenario.cluster.devices, int(scenario.plan.expert_devices)
    sizes = range(1, devices)
    prefill, decode = shapes(space, scenario, sizes, "prefill"), shapes(space, scenario, sizes, "decode")
    loads, complete = loads_of(prefill), True
    for narrower in (*NARROWER, None):
        loaded = [(*shape, *load) for shape in prefill for load in loads[shape]]
        by_size = [_by_size(loaded), _by_size([tuple(shape) for shape in decode])]
        pairs = [(w, v, _counts(space, scenario, w, v + apart)) for w, v in product(*by_size)]
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


BUDGETS = (32768, 16384, 8192, 4096, 2048, 1024, 512)
"""Tokens of an iteration that are tried, besides the engine's own."""
NO_BUDGET = 2**40
"""Stands for no limit in a column of budgets."""
PREFILL_BATCHES = (1, 2, 4, 8)
"""Prompts that a prefill worker takes at once."""
MANY_PLANS = 1 << 17
"""Plans that are evaluated at once: about a megabyte a figure."""
CHUNK_FIELDS = tuple(name for name in Chunks.__dataclass_fields__)


class Candidates(NamedTuple):
    """A list of candidates of one variant."""

    columns: Columns
    choices: int
    """Ways to cut prompts that follow each other, the engine's own first; 1 where each says something new already."""


class Pieces(NamedTuple):
    """All candidates of a variant, in lists of at most so many."""

    lists: Callable[[], Iterator[Candidates]]
    total: int
    complete: bool = True
    """Whether nothing was left out for there being too much of it."""


def candidates(
    space: GenerationSpace, variant: Variant, variants: int = 1, tries: int = 1, most: int = MOST_PLANS
) -> Pieces:
    """Return the candidates of a variant, one of so many that are searched together.

    Lists are shorter where each candidate is evaluated with several batches, at most ``tries``. ``most``: disaggregated
    plans that the search tries.
    """
    batches = restricted(space, "batch") or (space.scenario.workload.batch,)
    cuts, complete = chunk_choices(space, variant.scenario), True
    if variant.pooled:
        most = most // min(variants, LEAST_SHARE) // (len(batches) * tries)
        layouts, complete = disaggregated(space, variant.scenario, _Loads(space, variant.scenario, cuts), most)
        further, choices = np.array([(batch,) for batch in batches], dtype=np.int64), 1
    else:
        layouts = replicated(space, variant.scenario)
        further = np.array([(batch, *way) for batch, way in product(batches, cuts)], dtype=np.int64)
        choices = len(cuts)
    shared = dict(zip(("batch", "max_batched_tokens", "chunked_prefill"), further.T, strict=False))
    layouts_count = len(layouts["replicas"])

    def lists() -> Iterator[Candidates]:
        step = max(1, MANY_PLANS // (len(further) * tries))
        for start in range(0, layouts_count, step):
            own = {name: column[start : start + step] for name, column in layouts.items()}
            count = len(own["replicas"])
            crossed = {name: np.repeat(column, len(further)) for name, column in own.items()}
            yield Candidates(crossed | {name: np.tile(column, count) for name, column in shared.items()}, choices)

    return Pieces(lists, layouts_count * len(further), complete)


def chunk_choices(space: GenerationSpace, scenario: GenerationScenario) -> list[tuple[int, int]]:
    """Return token budgets, each with whether prompts are cut to them (0 or 1): the engine's own choice first.

    Larger budgets come first: where two say the same, the larger one stands for both.
    """
    plan = scenario.plan
    usual = NO_BUDGET if plan.max_batched_tokens is None else int(plan.max_batched_tokens)
    offered = plan.engine.offers.get("chunked_prefill", (plan.chunked_prefill, not plan.chunked_prefill))
    free = (usual,) if plan.max_batched_tokens is None else (usual, *(b for b in BUDGETS if b != usual))
    budgets = [NO_BUDGET if b is None else int(b) for b in values_in(space, "max_batched_tokens", free)]
    chunked = [int(bool(c)) for c in values_in(space, "chunked_prefill", offered)]
    own = (usual, int(plan.chunked_prefill))
    return sorted(product(budgets, chunked), key=lambda way: (way != own, way[1] != own[1], -way[0]))


def scenario_of(variant: Variant, columns: Mapping[str, Any]) -> GenerationScenario:
    """Return the scenario of a list of plans, or of one."""
    scenario = variant.scenario
    budget = columns["max_batched_tokens"]
    whole = isinstance(budget, int) and budget >= NO_BUDGET
    shared = {"max_batched_tokens": None if whole else budget, "chunked_prefill": columns["chunked_prefill"] != 0}
    if np.ndim(budget) and np.all(budget >= NO_BUDGET):
        shared["max_batched_tokens"] = None
    plan = _with_degrees(variant, scenario.plan, columns, shared)
    if variant.pooled:
        own = {name: columns[f"prefill.{name}"] for name in (*DEGREES, "replicas")}
        prefill = _with_degrees(variant, replace(scenario.plan, disaggregate=None, **PREFILLS), own, shared)
        plan = replace(plan, disaggregate=Disaggregation(prefill=prefill, prefill_batch=columns["prefill.batch"]))
    else:
        plan = replace(plan, disaggregate=None)
    return replace(scenario, plan=plan, workload=replace(scenario.workload, batch=columns["batch"]))


def _with_degrees(
    variant: Variant, plan: GenerationPlan, columns: Mapping[str, Any], shared: Mapping[str, Any]
) -> GenerationPlan:
    found = replace(plan, **{name: columns[name] for name in (*DEGREES, "replicas")}, **shared)
    model, device = variant.scenario.model, variant.scenario.cluster.device
    return found.with_usual_memory(model, device) if variant.usual_memory else found


def says_something_new(scenario: GenerationScenario, choices: int) -> NDArray[np.bool_]:
    """Return which plans of a list cut prompts unlike all before them of the ``choices`` they belong to."""
    count = len(scenario.workload.batch)  # type: ignore[arg-type]
    if choices == 1:
        return np.ones(count, dtype=bool)
    plan = scenario.plan
    chunks = cut(scenario, rounded_up(scenario.workload.batch / (plan.data_parallel * plan.replicas)))
    said = (*(getattr(chunks, name) for name in CHUNK_FIELDS), scenario.workload.batch)
    grids = [np.broadcast_to(column, count).reshape(-1, choices) for column in said]
    fresh = np.ones((count // choices, choices), dtype=bool)
    for later in range(1, choices):
        for earlier in range(later):
            same = np.logical_and.reduce([grid[:, later] == grid[:, earlier] for grid in grids])
            fresh[:, later] &= ~same
    return fresh.reshape(-1)


class _Loads:
    """What prefill workers are given at once: prompts, and how they are cut, each that says something new once."""

    def __init__(self, space: GenerationSpace, scenario: GenerationScenario, cuts: Sequence[tuple[int, int]]) -> None:
        prompts = values_of(space, scenario, "prefill.batch", PREFILL_BATCHES)
        self._scenario, self._cuts = scenario, len(cuts)
        self._loads = [(batch, *way) for batch, way in product(prompts, cuts)]

    def __call__(self, shapes: list[Shape]) -> Loads:
        """Return the loads of each shape."""
        if not shapes:
            return {}
        every = [(*shape, 1, *load) for shape, load in product(shapes, self._loads)]
        names = (*DEGREES, "replicas", "batch", "max_batched_tokens", "chunked_prefill")
        columns = dict(zip(names, np.array(every, dtype=np.int64).T, strict=True))
        variant = Variant(self._scenario, pooled=False, usual=True)
        # Prefill workers run each batch to its end, whatever the loop around them does.
        whole = scenario_of(variant, columns)
        fresh = says_something_new(
            replace(whole, workload=replace(whole.workload, continuous=False)), self._cuts
        ).reshape(len(shapes), -1)
        return {
            shape: [load for load, new in zip(self._loads, own, strict=True) if new]
            for shape, own in zip(shapes, fresh.tolist(), strict=True)
        }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kept:
    """One plan that may be among the best."""

    variant: Variant
    columns: Mapping[str, int]
    """Its fields."""
    figures: Mapping[str, float]

    @property
    def scenario(self) -> GenerationScenario:
        """Its question, fully resolved."""
        return scenario_of(self.variant, self.columns)

    @property
    def simplicity(self) -> tuple[Any, ...]:
        """Smaller is simpler: one kind of workers, formats of the checkpoint, few and small degrees, usual chunks."""
        own = self.variant.scenario.plan
        budget = NO_BUDGET if own.max_batched_tokens is None else own.max_batched_tokens
        degrees = [value for name, value in self.columns.items() if name.rpartition(".")[2] in DEGREES]
        usual = {"max_batched_tokens": budget, "chunked_prefill": own.chunked_prefill}
        chunks = sum(self.columns[name] != value for name, value in usual.items())
        split = sum(degree > 1 for degree in degrees)
        return (self.variant.pooled, not self.variant.usual, split, chunks, sum(degrees))
