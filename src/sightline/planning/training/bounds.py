"""Bounds of a search: what no plan of a row can be better than, worked out once for each distinct micro-batch."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sightline.cost.clock import at_its_clock
from sightline.planning.training.candidates import ROW, Axes, Choice, along, least_of_rows, open_plan
from sightline.prediction.training.least_time import least_step_s, micro_batch_alone_s
from sightline.prediction.training.memory.least import least_bytes
from sightline.prediction.training.offload import as_kept
from sightline.prediction.training.priced import price
from sightline.scenario import Scenario
from sightline.scenario.space import Space

Floats = NDArray[np.float64]
OfRows = Callable[[Axes], Floats]
"""A figure of every row of some axes."""


@dataclass(slots=True, kw_only=True, eq=False)
class Bounds:
    """The least memory and time of a space's rows; those of the same micro-batch share what is worked out."""

    space: Space[Scenario]
    limit: float = np.inf
    """What a plan's only figure has to be below to be kept, by what searches of parts of the space found before."""
    _seen: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    """In which order micro-batches were first asked about; -1 for those that were not."""
    _count: int = 0
    _figures: dict[tuple[str, Choice], Floats] = field(default_factory=dict)
    """Figures in that order, NaN where they are not known yet."""

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
