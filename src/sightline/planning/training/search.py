"""The search of one space of training plans: time and memory of every valid plan, chunk by chunk."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sightline.cost.clock import at_its_clock
from sightline.planning.training.best import Keeper
from sightline.planning.training.candidates import (
    ROW,
    SHAPES,
    Axes,
    Choice,
    along,
    axes_of,
    choices,
    least_of_rows,
    open_plan,
)
from sightline.planning.training.mesh import Block, blocks_of, groups_of
from sightline.planning.training.validity import Valid, valid_plans
from sightline.prediction.training.least_memory import least_bytes
from sightline.prediction.training.least_time import least_step_s, micro_batch_alone_s
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import price
from sightline.prediction.training.sums import sums_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.quantities import distinct
from sightline.scenario import Scenario
from sightline.scenario.space import Space
from sightline.scenario.techniques import Recomputation

Exceeding = Callable[[Block, Axes], Mapping[str, Any]]
"""Says by limit where the plans of a block exceed it."""
EVALUATED_WHOLE = 1_000_000
"""Plans of a space that are evaluated before bounds leave out those that cannot be among the best."""
MayMatter = Callable[[Axes, Any], Any]
"""Says which rows of a mesh may have a plan that is kept, by the least seconds of their steps."""
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
    may_matter: MayMatter | None = None,
    max_memory: float | None = None,
    launchable: bool = False,
    energy: bool = False,
    part: slice = WHOLE,
    progress: Progress = SILENT,
) -> Counts:
    """Evaluate every valid plan of a space; ``keeper`` keeps the good ones that fit.

    Args:
        space: What is free.
        keeper: What takes the plans, block by block.
        may_matter: Says which rows may have a plan that is kept, given seconds that their steps take at least. Rows
            that have none are left out once so many plans were evaluated that counting all is of no more use.
        within: Says by limit where the plans of a block exceed it.
        max_memory: Bytes of a device that a plan may take, if less than all.
        launchable: Leave out what the framework does not offer.
        energy: Add up energy too.
        part: Pieces of ``pieces_of`` the space that are searched.
        progress: Told of every chunk; when somebody stops it, what was found until then stays.
    """
    counts = Counts()
    limits = _Limits.of(space, max_memory)
    asked = _Asked(space=space, limits=limits, launchable=launchable, energy=energy, may_matter=may_matter)
    pieces = pieces_of(space)[part]
    progress.begin(len(pieces), "searching")
    try:
        for choice, piece in pieces:
            for axes in _rows_that_may(asked, piece, choice, counts).chunks(ROWS_PER_CHUNK):
                progress.check()
                for block in _blocks(asked, axes, choice):
                    counts.add(block, {} if within is None else within(block, axes))
                    if block.fits.any():
                        keeper.take(block, axes, choice)
            progress.advance()
    except Cancelled:
        counts.stopped = True
    return counts


def pieces_of(space: Space[Scenario]) -> list[tuple[Choice, Axes]]:
    """Return the pieces of a space that are searched one after the other, always in the same order."""
    found = choices(space)
    # Which operators there are changes no axis but the schedules.
    axes = {way: list(axes_of(space, both_ways=way).chunks(ROWS_PER_CHECK)) for way in {one.both_ways for one in found}}
    return [(choice, part) for choice in found for part in axes[choice.both_ways]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Limits:
    """Bytes that a plan may take of a device and of a host."""

    device_bytes: float
    host_bytes: float

    @classmethod
    def of(cls, space: Space[Scenario], max_memory: float | None) -> "_Limits":
        cluster = space.scenario.cluster
        device_bytes = min(float(cluster.device.memory_bytes), max_memory or np.inf)
        return cls(device_bytes=device_bytes, host_bytes=float(cluster.host.memory_bytes))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Asked:
    """What is searched."""

    space: Space[Scenario]
    limits: _Limits
    launchable: bool
    energy: bool
    may_matter: MayMatter | None

    @property
    def by_stage(self) -> bool:
        """Whether operators depend on the number of stages."""
        allowed = self.space.values.get("recompute", (self.space.scenario.plan.recompute,)) or ()
        traffic = self.space.scenario.plan.framework.native.pipeline_accumulation_traffic
        return bool(traffic) or any(isinstance(one, Recomputation) for one in allowed)


def _rows_that_may(asked: _Asked, piece: Axes, choice: Choice, counts: Counts) -> Axes:
    """The rows of a piece that may have a plan that fits and is kept; the others are counted."""
    with np.errstate(all="ignore"):
        valid = valid_plans(asked.space, open_plan(asked.space, piece, choice), piece, choice, asked.launchable)
        counts.rejected.update(valid.rejected)
        axes, valid = valid.trimmed(piece)
        if not axes.count:
            return axes
        least = least_of_rows(least_bytes(open_plan(asked.space, axes, choice)), axes.count)
        axes, valid = _counted(axes, valid, least <= asked.limits.device_bytes, counts, MICRO_BATCH)
        if asked.may_matter is not None and counts.evaluated > EVALUATED_WHOLE and axes.count:
            good = asked.may_matter(axes, _least_s(asked, axes, choice))
            axes, valid = _counted(axes, valid, good, counts, SLOWER)
        return axes.by_shapes()


def _counted(axes: Axes, valid: Valid, good: Any, counts: Counts, reason: str) -> tuple[Axes, Valid]:
    """The rows that are good; plans of the others are counted under a reason."""
    there = np.broadcast_to(good, axes.count)
    counts.rejected[reason] += valid.of_rows(~there).count(axes.of_rows(~there))
    return axes.of_rows(there), valid.of_rows(there)


def _least_s(asked: _Asked, axes: Axes, choice: Choice) -> Any:
    """Seconds that the steps of each row take at least; rows of the same shapes are priced once."""
    columns = [axes.rows[name] for name in (*SHAPES, *(["pipeline_parallel"] if asked.by_stage else []))]
    first, place = distinct(columns)
    alone = open_plan(asked.space, axes.of_rows(first), choice)
    seconds = least_of_rows(micro_batch_alone_s(price(at_its_clock(as_kept(alone)))), len(first))
    step_s = least_step_s(open_plan(asked.space, axes, choice), along(seconds[place], ROW))
    return least_of_rows(step_s, axes.count)


def _blocks(asked: _Asked, axes: Axes, choice: Choice) -> Iterator[Block]:
    """Blocks of the plans of some axes."""
    with np.errstate(all="ignore"):  # places where no plan is are worked out too
        scenario = open_plan(asked.space, axes, choice)
        valid = valid_plans(asked.space, scenario, axes, choice, asked.launchable)
        sums = sums_of(price(at_its_clock(as_kept(scenario))), energy=asked.energy)
        for group in groups_of(axes, valid, sums):
            yield from blocks_of(group, asked.limits.device_bytes, asked.limits.host_bytes)
