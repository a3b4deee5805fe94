"""The search of one space of training plans as somebody asks for it: what is kept, and within which limits."""

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.planning.training.best import Candidate, First, Front
from sightline.planning.training.bounds import Bounds
from sightline.planning.training.candidates import Axes
from sightline.planning.training.mesh import Block
from sightline.planning.training.money import RunLimits
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.search import WHOLE, Counts, search
from sightline.planning.training.validity import LAUNCHABLE, POSSIBLE
from sightline.progress import SILENT, Progress
from sightline.scenario import Scenario
from sightline.scenario.space import Space

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored

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
    launchable: bool = False
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


def search_space(
    space: Space[Scenario],
    request: Request,
    *,
    part: slice = WHOLE,
    bounds: Bounds | None = None,
    progress: Progress = SILENT,
) -> tuple[Counts, list[Candidate]]:
    """Return how many plans a space, or a part of it, has, and the good ones, the best first."""
    measure = Measure(space=space, availability=request.availability)
    keeper = _keeper(measure, request)
    counts = search(
        space,
        keeper,
        within=_limited(measure, request.limits),
        least=_least(measure, request),
        max_memory=request.max_memory,
        rules=LAUNCHABLE if request.launchable else POSSIBLE,
        energy="energy" in request.axes,
        part=part,
        bounds=bounds,
        progress=progress,
    )
    return counts, keeper.kept()


def _keeper(measure: Measure, request: Request) -> First | Front:
    def figures(block: Block, axes: Axes) -> tuple[Any, ...]:
        evaluated = measure.of_block(block, axes)
        return tuple(measure(objective, evaluated) for objective in request.axes)

    return Front(figure=figures) if request.pareto else First(figure=figures, count=request.count)


def _least(measure: Measure, request: Request) -> Any:
    """What makes the least figure of each row of the least seconds of its steps; None where nothing bounds them.

    Only times and what follows from them have a bound.
    """
    if request.pareto or request.objective not in ("time", "cost"):
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
