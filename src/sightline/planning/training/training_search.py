"""The search of one space of training plans: time and memory of every valid plan, chunk by chunk, within bounds."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.cost.clock import at_its_clock
from sightline.planning import plan_answer
from sightline.planning.ranking import best_in_words
from sightline.planning.training.best import Candidate, Figures, First, Front, Keeper
from sightline.planning.training.candidates import (
    ROW,
    Axes,
    Choice,
    Layout,
    along,
    choice_of,
    choices,
    layout_of,
    least_of_rows,
    open_plan,
)
from sightline.planning.training.mesh import Block, blocks_of, groups_of
from sightline.planning.training.objectives import Measure, RunLimits, exceeded
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE, Valid, valid_plans
from sightline.prediction.training.memory import least_bytes, sure_bytes
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import least_step_s, micro_batch_alone_s, price
from sightline.prediction.training.step_profile import sums_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import Scenario
from sightline.scenario.rules.rulebook import Masks, Rule
from sightline.scenario.space import Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

Floats = NDArray[np.float64]
OfRows = Callable[[Axes], Floats]
"""A figure of every row of some axes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Bounds:
    """The least memory and time of a space's rows; those of the same micro-batch share what is worked out."""

    space: Space[Scenario]
    limit: float | None = None
    """What a row's least figure has to be below to be evaluated; None until bounds leave out rows."""
    evaluated: int = 0
    """Plans that were evaluated until then."""
    _seen: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """In which order micro-batches were first asked about; -1 for those that were not."""
    _count: int = 0
    _figures: dict[tuple[str, Choice], Floats] = field(default_factory=dict)
    """Figures in that order, NaN where they are not known yet."""
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self.layout = layout_of(self.space)

    def least_bytes(self, axes: Axes, choice: Choice) -> Floats:
        """Return bytes of a device that every plan of a row takes at least."""

        def bytes_of(axes: Axes) -> Floats:
            return least_of_rows(least_bytes(open_plan(self.space, axes, choice)), axes.count)

        return self._of_micro_batches(("bytes", choice), axes, bytes_of)

    def least_s(self, axes: Axes, choice: Choice) -> Floats:
        """Return seconds that the steps of each row take at least.

        Recomputation adds to a micro-batch's time, so that one without is a bound for all kinds, which share it.
        """
        plain = choice._replace(recompute="none")

        def seconds_of(axes: Axes) -> Floats:
            alone = at_its_clock(as_kept(open_plan(self.space, axes, plain)))
            return least_of_rows(micro_batch_alone_s(price(alone)), axes.count)

        seconds = along(self._of_micro_batches(("seconds", plain), axes, seconds_of), ROW)
        return least_of_rows(least_step_s(open_plan(self.space, axes, plain), seconds), axes.count)

    def _of_micro_batches(self, key: tuple[str, Choice], axes: Axes, figure: OfRows) -> Floats:
        """A figure of every row, worked out of those whose micro-batch was never asked about."""
        place = self._places(axes.micro_batches)
        figures = self._figures.get(key, np.zeros(0))
        figures = np.concatenate([figures, np.full(self._count - len(figures), np.nan)])
        unknown = np.flatnonzero(np.isnan(figures[place]))
        if len(unknown):
            new, first = np.unique(place[unknown], return_index=True)
            figures[new] = figure(axes.of_rows(unknown[first]))
        self._figures[key] = figures
        return figures[place]

    def _places(self, micro_batches: NDArray[np.int64]) -> NDArray[np.int32]:
        """Where figures of micro-batches lie."""
        more = max(0, int(micro_batches.max(initial=-1)) + 1 - len(self._seen))
        self._seen = np.concatenate([self._seen, np.full(more, -1, dtype=np.int32)])
        new = np.unique(micro_batches[self._seen[micro_batches] < 0])
        self._seen[new] = self._count + np.arange(len(new))
        self._count += len(new)
        return self._seen[micro_batches]


Piece = tuple[Choice, slice | NDArray[np.int64]]
"""A choice of operators, and splits of a layout."""
Scout = Callable[[], float]
"""Finds a figure that enough plans of a space are below."""
Exceeding = Callable[[Block, Axes], Mapping[str, Any]]
"""Says by limit where the plans of a block exceed it."""
EVALUATED_WHOLE = 500_000
"""Plans of a space that are evaluated before bounds leave out those that cannot be among the best."""
Least = Callable[[Axes, Any], Any]
"""Makes the least figure of each row's plans of the least seconds of their steps."""
MANY_ROWS = 1_000_000
"""Rows of a space of which bounds leave out those that cannot be among the best from the start."""
PROMISE = 1.25
"""Ratio of least figures from which on rows are evaluated one after the other."""
MICRO_BATCH, SLOWER = "micro_batch", "slower"
"""Why valid plans are not evaluated: a micro-batch alone needs more memory; they take longer than the best found."""
ROWS_PER_CHECK, ROWS_PER_CHUNK = 1 << 16, 1 << 13
"""Rows that rules are asked of together, and rows that are priced together: what keeps memory flat."""
SAMPLED_ROWS, SAMPLED = 1 << 14, 8
"""Rows that are searched first for a bound of all, and of how many there is at most one of them."""


class Counts(plan_answer.Counts):
    """How many plans of training there were."""

    def add(self, block: Block, exceeded: Mapping[str, Any]) -> None:
        """Count the plans of a block, of which those beyond a limit no longer fit."""
        self.evaluated += block.evaluated
        self.rejected["memory"] += block.evaluated - int(np.count_nonzero(block.fits))
        for limit, beyond in exceeded.items():
            over = block.fits & beyond
            self.rejected[limit] += int(np.count_nonzero(over))
            block.fits[over] = False
        self.feasible += int(np.count_nonzero(block.fits))


def search(
    space: Space[Scenario],
    keeper: Keeper,
    *,
    within: Exceeding | None = None,
    least: Least | None = None,
    scout: Scout | None = None,
    max_memory: float | None = None,
    rules: tuple[Rule, ...] = POSSIBLE,
    energy: bool = False,
    pieces: Sequence[Piece] | None = None,
    bounds: Bounds | None = None,
    best: Callable[[Candidate], str] | None = None,
    progress: Progress = SILENT,
    until: float | None = None,
) -> Counts:
    """Evaluate every valid plan of a space; ``keeper`` keeps the good ones that fit.

    Args:
        space: What is free.
        keeper: What takes the plans, block by block.
        least: Makes the least figure of each row's plans, by which the keeper compares them, of the seconds that its
            steps take at least; infinite where a limit is exceeded. Rows that cannot be kept are left out once so many
            plans were evaluated that counting all is of no more use.
        within: Says by limit where the plans of a block exceed it.
        scout: Finds the figure from which on rows are left out, so that what is evaluated does not depend on the order
            in which plans are found; None leaves out what this search cannot keep, from the start.
        max_memory: Bytes of a device that a plan may take, if less than all.
        rules: What plans have to keep to.
        energy: Add up energy too.
        pieces: Those of the space that are searched; None for all.
        bounds: Those of the same space, where other pieces were searched with them.
        best: Says in words what the first plan is until now.
        progress: Told of every chunk; when somebody stops it, what was found until then stays.
        until: Share of the whole work that is done then.
    """
    counts, known = Counts(), bounds or Bounds(space=space)
    layout = known.layout
    asked = _Asked(
        space=space,
        bounds=known,
        memory=_Memory.of(space, max_memory),
        rules=rules,
        energy=energy,
        least=least,
        scout=scout,
        whole=EVALUATED_WHOLE if scout is not None and layout.rows < MANY_ROWS else 0,
    )
    pieces = pieces_of(layout) if pieces is None else pieces
    progress.begin(len(pieces), "searching", until)
    try:
        for choice, mesh in _meshes(layout, pieces):
            for chunk in _chunks(asked, mesh, choice, counts, keeper):
                progress.check()
                for block in _blocks(asked, chunk, choice):
                    if block.evaluated and not counts.feasible:
                        needed = float(block.memory_bytes[np.isfinite(block.step_s)].min())
                        counts.least_share = min(counts.least_share, needed / asked.memory.device_bytes)
                    counts.add(block, {} if within is None else within(block, chunk.axes))
                    asked.bounds.evaluated += block.evaluated
                    if block.fits.any():
                        keeper.take(block, chunk.axes, choice)
            progress.advance()
            if best is not None and (first := keeper.kept()):
                progress.found(best(first[0]), first[0].keys[0])
    except Cancelled:
        counts.stopped = True
    return counts


def pieces_of(layout: Layout) -> list[Piece]:
    """Return the pieces of a layout that are searched one after the other, always in the same order."""
    return [(choice, piece) for piece, choice in product(layout.pieces(ROWS_PER_CHECK), choices(layout.space))]


class _Mesh(NamedTuple):
    """Splits of a layout with all other fields."""

    axes: Axes
    scenario: Scenario
    """With the axes as arrays."""
    made: Masks
    """Of rules."""


def _meshes(layout: Layout, pieces: Iterable[Piece]) -> Iterator[tuple[Choice, _Mesh]]:
    """Yield the mesh of each piece; choices of the same splits share its arrays."""
    splits, shared = None, dict[bool, _Mesh]()
    for choice, piece in pieces:
        if piece is not splits:
            splits, shared = piece, {}
        if choice.both_ways not in shared:
            axes = layout.axes(piece, both_ways=choice.both_ways)
            shared[choice.both_ways] = _Mesh(axes, open_plan(layout.space, axes, choice), {})
        mesh = shared[choice.both_ways]
        chosen: dict[str, Any] = {name: getattr(choice, name) for name in ("recompute", "attention", "compile")}
        yield choice, mesh._replace(scenario=replace(mesh.scenario, plan=replace(mesh.scenario.plan, **chosen)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Memory:
    """Bytes that a plan may take of a device and of a host."""

    device_bytes: float
    host_bytes: float

    @classmethod
    def of(cls, space: Space[Scenario], max_memory: float | None) -> "_Memory":
        cluster = space.scenario.cluster
        device_bytes = min(float(cluster.device.memory_bytes), max_memory or np.inf)
        return cls(device_bytes=device_bytes, host_bytes=float(cluster.host.memory_bytes))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """What is searched."""

    space: Space[Scenario]
    bounds: Bounds
    memory: _Memory
    rules: tuple[Rule, ...]
    energy: bool
    least: Least | None
    scout: Scout | None
    whole: int
    """Plans that are evaluated before bounds leave out some."""

    def bound(self, keeper: Keeper) -> float:
        """Return what a row's least figure has to be below to be evaluated."""
        if self.scout is not None and self.bounds.limit is None:
            self.bounds.limit = self.scout()
        return keeper.limit if self.bounds.limit is None else self.bounds.limit


def _chunks(asked: _Asked, piece: _Mesh, choice: Choice, counts: Counts, keeper: Keeper) -> Iterator[Valid]:
    """Yield the rows of a piece that may have a plan that fits and is kept; the others are counted."""
    with np.errstate(all="ignore"):  # places where no plan is are worked out too
        plans = _possible(asked, piece, choice, counts)
        figures = None
        left, is_bounded = asked.whole - asked.bounds.evaluated, asked.bounds.limit is not None
        if asked.least is not None and (is_bounded or (plans.at_most() > left and plans.count() > left)):
            figures = asked.least(plans.axes, asked.bounds.least_s(plans.axes, choice))
        order = _order(plans.axes, figures)
    for start in range(0, len(order), ROWS_PER_CHUNK):
        rows = order[start : start + ROWS_PER_CHUNK]
        if figures is not None and (is_bounded or asked.bounds.evaluated >= asked.whole):
            good = figures[rows] < asked.bound(keeper)
            counts.rejected[SLOWER] += plans.of_rows(rows[~good]).count()
            rows = rows[good]
        if len(rows):
            stages = plans.axes.rows["pipeline_parallel"][rows]
            yield plans.of_rows(rows[np.argsort(stages, kind="stable")]).used()


def _possible(asked: _Asked, piece: _Mesh, choice: Choice, counts: Counts) -> Valid:
    """The rows of a piece with valid plans whose micro-batch alone fits; the others are counted."""
    plans = valid_plans(asked.space, piece.scenario, piece.axes, asked.rules, piece.made)
    counts.rejected.update(plans.rejected)
    plans = plans.trimmed()
    fits = asked.bounds.least_bytes(plans.axes, choice) <= asked.memory.device_bytes
    counts.rejected[MICRO_BATCH] += plans.of_rows(~fits).count()
    return plans.of_rows(fits)


def _order(axes: Axes, figures: Any) -> Any:
    """Rows in the order in which they are evaluated: promising ones first, and equal micro-batches next to each other.

    Figures are the least ones of each row, compared in steps; None where they are of no use.
    """
    if figures is None:
        return np.argsort(axes.micro_batches, kind="stable")
    steps = np.floor(np.log2(figures) / np.log2(PROMISE))
    return np.lexsort((axes.micro_batches, steps))


def _blocks(asked: _Asked, plans: Valid, choice: Choice) -> Iterator[Block]:
    """Blocks of some plans."""
    with np.errstate(all="ignore"):
        scenario = open_plan(asked.space, plans.axes, choice)
        sums = sums_of(price(at_its_clock(as_kept(scenario))), energy=asked.energy)
        for group in groups_of(plans, sums):
            yield from blocks_of(group, asked.memory.device_bytes, asked.memory.host_bytes)


NO_LIMITS = RunLimits()
SPARE = 256
"""Plans that are kept while searching: of equally good ones the simplest is chosen afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request:
    """What is looked for."""

    objective: str = "time"
    pareto: tuple[str, str] | None = None
    top: int = 10
    max_memory: float | None = None
    limits: RunLimits = NO_LIMITS
    availability: float | None = None
    anchor: "Anchored | None" = None

    @property
    def count(self) -> int:
        """Plans that are kept while searching."""
        return max(SPARE, 4 * self.top)

    @property
    def axes(self) -> tuple[str, ...]:
        """Objectives by which plans are kept."""
        return self.pareto or (self.objective,)

    @property
    def is_bounded(self) -> bool:
        """Whether rows have a least figure: only times and what follows from them have one."""
        return self.axes in (("time",), ("cost",))


def search_space(
    space: Space[Scenario],
    request: Request,
    *,
    pieces: Sequence[Piece] | None = None,
    bounds: Bounds | None = None,
    progress: Progress = SILENT,
    until: float | None = None,
) -> tuple[Counts, list[Candidate]]:
    """Return how many plans a space, or some pieces of it, have, and the good ones, the best first."""
    measure = Measure(space=space, availability=request.availability)
    front = Front(figure=_figures(measure, request)) if request.pareto else None
    keeper, known = front or _first(measure, request), bounds or Bounds(space=space)
    searched = partial(
        search,
        space,
        within=_limited(measure, request.limits),
        least=_least(measure, request),
        max_memory=request.max_memory,
        rules=LAUNCHABLE if space.launchable else POSSIBLE,
        energy="energy" in request.axes,
        bounds=known,
    )

    def scout() -> float:
        limit, chosen, layout = np.inf, choices(space), known.layout
        step = max(SAMPLED, layout.rows // SAMPLED_ROWS)
        last = max(1, step // len(chosen))
        while step:
            parts: Sequence[Any] = layout.pieces(ROWS_PER_CHECK) if step == 1 else [slice(None, None, step)]
            sample = _first(measure, request, limit)
            searched(sample, pieces=list(product(chosen, parts)))
            first = sample.kept()
            if (below := sample.limit_of(first)) == np.inf:
                step //= SAMPLED
                continue
            limit = below
            found = Counter(choice_of(one.fields) for one in first)
            usual = [found.most_common(1)[0][0]]
            step, chosen = last if chosen != usual and step > last else 0, usual
        return limit

    def best(first: Candidate) -> str:
        return best_in_words(f"{1 / first.keys[0]:,.0f} tokens/s", first.fields)

    says = best if request.axes == ("time",) else None
    counts = searched(keeper, scout=scout, pieces=pieces, best=says, progress=progress, until=until)
    counts.sampled = [] if front is None else front.sampled
    return counts, keeper.kept()


def _first(measure: Measure, request: Request, limit: float = np.inf) -> First:
    sure = sure_bytes(measure.space.scenario)
    return First(figure=_figures(measure, request), count=request.count, sure_bytes=sure, limit=limit)


def _figures(measure: Measure, request: Request) -> Figures:
    def figures(block: Block, axes: Axes) -> tuple[Any, ...]:
        evaluated = measure.of_block(block, axes)
        return tuple(measure(objective, evaluated) for objective in request.axes)

    return figures


def _least(measure: Measure, request: Request) -> Any:
    """What makes the least figure of each row of the least seconds of its steps; None where nothing bounds them."""
    if not request.is_bounded:
        return None

    def least(axes: Axes, least_s: Any) -> Any:
        rows = measure.of_rows(axes, least_s)
        beyond = reduce(np.logical_or, exceeded(request.limits, measure, rows).values(), False)
        return np.where(beyond, np.inf, measure(request.objective, rows))

    return least


def _limited(measure: Measure, limits: RunLimits) -> Any:
    """What says by limit where plans of a block exceed it; None without limits."""
    if limits.deadline_s is None and limits.budget_usd is None:
        return None
    return lambda block, axes: exceeded(limits, measure, measure.of_block(block, axes))
