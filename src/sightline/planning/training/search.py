"""The search of one space of training plans: time and memory of every valid plan, chunk by chunk."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from sightline.cost.clock import at_its_clock
from sightline.planning.training.best import Keeper
from sightline.planning.training.bounds import Bounds
from sightline.planning.training.candidates import Axes, Choice, Layout, choices, layout_of, open_plan
from sightline.planning.training.mesh import Block, blocks_of, groups_of
from sightline.planning.training.validity import POSSIBLE, Valid, valid_plans
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import price
from sightline.prediction.training.sums import sums_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import Scenario
from sightline.scenario.rules.rulebook import Rule
from sightline.scenario.space import Space

Exceeding = Callable[[Block, Axes], Mapping[str, Any]]
"""Says by limit where the plans of a block exceed it."""
EVALUATED_WHOLE = 1_000_000
"""Plans of a space that are evaluated before bounds leave out those that cannot be among the best."""
Least = Callable[[Axes, Any], Any]
"""Makes the least figure of each row's plans of the least seconds of their steps."""
MANY_ROWS = 1_000_000
"""Rows of a space of which bounds leave out those that cannot be among the best from the start."""
PROMISE = 1.25
"""Ratio of least figures from which on rows are evaluated one after the other."""
MICRO_BATCH, SLOWER = "micro_batch", "slower"
"""Why valid plans are not evaluated: a micro-batch alone needs more memory; they take longer than the best found."""
WHOLE = slice(None)
"""All pieces of a space."""
ROWS_PER_CHECK, ROWS_PER_CHUNK = 1 << 16, 1 << 13
"""Rows that rules are asked of together, and rows that are priced together: what keeps memory flat."""


@dataclass(slots=True, kw_only=True, eq=False)
class Counts:
    """How many plans there were."""

    evaluated: int = 0
    feasible: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Candidates by the rule that they break, and valid plans that exceed a limit."""
    stopped: bool = False

    @property
    def not_evaluated(self) -> int:
        """Valid plans that a bound left out."""
        return self.rejected[MICRO_BATCH] + self.rejected[SLOWER]

    def add(self, block: Block, exceeded: Mapping[str, Any]) -> None:
        """Count the plans of a block, of which those beyond a limit no longer fit."""
        self.evaluated += block.evaluated
        self.rejected["memory"] += block.evaluated - int(np.count_nonzero(block.fits))
        for limit, beyond in exceeded.items():
            over = block.fits & beyond
            self.rejected[limit] += int(np.count_nonzero(over))
            block.fits[over] = False
        self.feasible += int(np.count_nonzero(block.fits))

    def joined(self, other: "Counts") -> "Counts":
        """Return both together."""
        return Counts(
            evaluated=self.evaluated + other.evaluated,
            feasible=self.feasible + other.feasible,
            rejected=self.rejected + other.rejected,
            stopped=self.stopped or other.stopped,
        )


def search(
    space: Space[Scenario],
    keeper: Keeper,
    *,
    within: Exceeding | None = None,
    least: Least | None = None,
    max_memory: float | None = None,
    rules: tuple[Rule, ...] = POSSIBLE,
    energy: bool = False,
    part: slice = WHOLE,
    bounds: Bounds | None = None,
    progress: Progress = SILENT,
) -> Counts:
    """Evaluate every valid plan of a space; ``keeper`` keeps the good ones that fit.

    Args:
        space: What is free.
        keeper: What takes the plans, block by block.
        least: Makes the least figure of each row's plans, by which the keeper compares them, of the seconds that its
            steps take at least; infinite where a limit is exceeded. Rows that cannot be kept are left out once so many
            plans were evaluated that counting all is of no more use.
        within: Says by limit where the plans of a block exceed it.
        max_memory: Bytes of a device that a plan may take, if less than all.
        rules: What plans have to keep to.
        energy: Add up energy too.
        part: Pieces of ``pieces_of`` the space that are searched.
        bounds: Those of the same space, where another part was searched with them.
        progress: Told of every chunk; when somebody stops it, what was found until then stays.
    """
    counts, layout = Counts(), layout_of(space)
    asked = _Asked(
        space=space,
        bounds=bounds or Bounds(space=space),
        memory=_Memory.of(space, max_memory),
        rules=rules,
        energy=energy,
        least=least,
        whole=EVALUATED_WHOLE if layout.rows < MANY_ROWS else 0,
    )
    pieces = pieces_of(layout)[part]
    progress.begin(len(pieces), "searching")
    try:
        for choice, piece in pieces:
            axes = layout.axes(piece, both_ways=choice.both_ways)
            for chunk in _chunks(asked, axes, choice, counts, keeper):
                progress.check()
                for block in _blocks(asked, chunk, choice):
                    counts.add(block, {} if within is None else within(block, chunk.axes))
                    if block.fits.any():
                        keeper.take(block, chunk.axes, choice)
            progress.advance()
    except Cancelled:
        counts.stopped = True
    asked.bounds.limit = min(asked.bounds.limit, keeper.limit)
    return counts


def pieces_of(layout: Layout) -> list[tuple[Choice, slice]]:
    """Return the pieces of a layout that are searched one after the other, always in the same order."""
    return list(product(choices(layout.space), layout.pieces(ROWS_PER_CHECK)))


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
    whole: int
    """Plans that are evaluated before bounds leave out some."""


def _chunks(asked: _Asked, piece: Axes, choice: Choice, counts: Counts, keeper: Keeper) -> Iterator[Valid]:
    """Yield the rows of a piece that may have a plan that fits and is kept; the others are counted."""
    with np.errstate(all="ignore"):  # places where no plan is are worked out too
        plans = _possible(asked, piece, choice, counts)
        figures = None
        left = asked.whole - counts.evaluated
        if asked.least is not None and plans.at_most() > left and plans.count() > left:
            figures = asked.least(plans.axes, asked.bounds.least_s(plans.axes, choice))
        order = _order(plans.axes, figures)
    for start in range(0, len(order), ROWS_PER_CHUNK):
        rows = order[start : start + ROWS_PER_CHUNK]
        if figures is not None and counts.evaluated > asked.whole:
            good = figures[rows] < min(keeper.limit, asked.bounds.limit)
            counts.rejected[SLOWER] += plans.of_rows(rows[~good]).count()
            rows = rows[good]
        if len(rows):
            stages = plans.axes.rows["pipeline_parallel"][rows]
            yield plans.of_rows(rows[np.argsort(stages, kind="stable")])


def _possible(asked: _Asked, piece: Axes, choice: Choice, counts: Counts) -> Valid:
    """The rows of a piece with valid plans whose micro-batch alone fits; the others are counted."""
    plans = valid_plans(asked.space, open_plan(asked.space, piece, choice), piece, asked.rules)
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
