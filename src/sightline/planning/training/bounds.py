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
    _known: dict[tuple[str, Choice], "_OfMicroBatches"] = field(default_factory=dict)

    def least_bytes(self, axes: Axes, choice: Choice) -> Floats:
        """Return bytes of a device that every plan of a row takes at least."""

        def bytes_of(axes: Axes) -> Floats:
            return least_of_rows(least_bytes(open_plan(self.space, axes, choice)), axes.count)

        return self._once("bytes", choice).of(axes, bytes_of)

    def least_s(self, axes: Axes, choice: Choice) -> Floats:
        """Return seconds that the steps of each row take at least.

        Recomputation adds to a micro-batch's time, so that one without is a bound for all kinds, which share it.
        """
        plain = choice._replace(recompute="none")

        def seconds_of(axes: Axes) -> Floats:
            alone = at_its_clock(as_kept(open_plan(self.space, axes, plain)))
            return least_of_rows(micro_batch_alone_s(price(alone)), axes.count)

        seconds = along(self._once("seconds", plain).of(axes, seconds_of), ROW)
        return least_of_rows(least_step_s(open_plan(self.space, axes, plain), seconds), axes.count)

    def _once(self, name: str, choice: Choice) -> "_OfMicroBatches":
        return self._known.setdefault((name, choice), _OfMicroBatches())


@dataclass(slots=True, kw_only=True, eq=False)
class _OfMicroBatches:
    """A figure by micro-batch, worked out when rows that have it are first asked about."""

    _there: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    _figures: Floats = field(default_factory=lambda: np.zeros(0))

    def of(self, axes: Axes, figure: OfRows) -> Floats:
        """Return the figure of every row."""
        count = int(axes.micro_batches.max(initial=-1)) + 1
        more = max(0, count - len(self._there))
        self._there = np.concatenate([self._there, np.zeros(more, dtype=bool)])
        self._figures = np.concatenate([self._figures, np.zeros(more)])
        one_row = np.full(count, -1)
        one_row[axes.micro_batches] = np.arange(axes.count)
        missing = np.flatnonzero((one_row >= 0) & ~self._there[:count])
        if len(missing):
            self._figures[missing] = figure(axes.of_rows(one_row[missing]))
            self._there[missing] = True
        return self._figures[axes.micro_batches]
