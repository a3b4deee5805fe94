"""The search of one space of training plans: time and memory of every valid plan, chunk by chunk."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from sightline.cost.clock import at_its_clock
from sightline.planning.training.best import Keeper
from sightline.planning.training.candidates import STAGES, Axes, Choice, axes_of, choices, open_plan
from sightline.planning.training.mesh import Block, blocks_of, groups_of
from sightline.planning.training.validity import valid_plans
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import price
from sightline.prediction.training.sums import sums_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import Scenario
from sightline.scenario.space import Space

Exceeding = Callable[[Block, Axes], Mapping[str, Any]]
"""Says by limit where the plans of a block exceed it."""
CELLS_PER_CHUNK = 1 << 14
"""Layouts x micro-batches x sequence parallelism x stages that are priced together: what keeps memory flat."""
WHOLE = slice(None)
"""All pieces of a space."""


@dataclass(slots=True, kw_only=True, eq=False)
class Counts:
    """How many plans there were."""

    evaluated: int = 0
    feasible: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Candidates by the rule that they break, and valid plans that exceed a limit."""
    stopped: bool = False

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
        within: Says by limit where the plans of a block exceed it.
        max_memory: Bytes of a device that a plan may take, if less than all.
        launchable: Leave out what the framework does not offer.
        energy: Add up energy too.
        part: Pieces of ``pieces_of`` the space that are searched.
        progress: Told of every chunk; when somebody stops it, what was found until then stays.
    """
    counts = Counts()
    cluster = space.scenario.cluster
    device_bytes = min(float(cluster.device.memory_bytes), max_memory or np.inf)
    host_bytes = float(cluster.host.memory_bytes)
    work = pieces_of(space)[part]
    progress.begin(len(work), "searching")
    try:
        for choice, axes in work:
            progress.check()
            for block_axes, block in _blocks(space, axes, choice, counts, device_bytes, host_bytes, launchable, energy):
                counts.evaluated += block.evaluated
                counts.rejected["memory"] += block.evaluated - int(np.count_nonzero(block.fits))
                for limit, exceeded in ({} if within is None else within(block, block_axes)).items():
                    counts.rejected[limit] += int(np.count_nonzero(block.fits & exceeded))
                    block.fits[exceeded & block.fits] = False
                fitting = int(np.count_nonzero(block.fits))
                counts.feasible += fitting
                if fitting:
                    keeper.take(block, block_axes, choice)
            progress.advance()
    except Cancelled:
        counts.stopped = True
    return counts


def pieces_of(space: Space[Scenario]) -> list[tuple[Choice, Axes]]:
    """Return the pieces of a space that are searched one after the other, always in the same order."""
    return [(choice, axes) for choice in choices(space) for axes in _chunks(axes_of(space))]


def _chunks(axes: Axes) -> Iterator[Axes]:
    """The axes in parts of so many layouts that what is priced together stays small."""
    layouts = axes.shape[0]
    step = max(1, CELLS_PER_CHUNK // max(1, prod(axes.shape[1 : STAGES + 1])))
    for start in range(0, layouts, step):
        yield axes.of_layouts(slice(start, start + step))


def _blocks(
    space: Space[Scenario],
    axes: Axes,
    choice: Choice,
    counts: Counts,
    device_bytes: float,
    host_bytes: float,
    launchable: bool,
    energy: bool,
) -> Iterator[tuple[Axes, Block]]:
    """Blocks of the plans of some axes, with the axes that they were laid out on."""
    with np.errstate(all="ignore"):  # places where no plan is are worked out too
        valid = valid_plans(space, open_plan(space, axes, choice), axes, choice, launchable=launchable)
        counts.rejected.update(valid.rejected)
        axes, valid = valid.trimmed(axes)
        if not prod(axes.shape):
            return
        priced = price(at_its_clock(as_kept(open_plan(space, axes, choice))))
        sums = sums_of(priced, energy=energy)
        for group in groups_of(axes, valid, sums):
            for block in blocks_of(group, device_bytes, host_bytes):
                yield axes, block
