"""The plans that change less of what was asked than any faster one, kept while a space is searched."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sightline.planning.training.best import Candidate, Front
from sightline.planning.training.candidates import Array, Axes, Choice
from sightline.planning.training.mesh import Block
from sightline.planning.training.objectives import Measure
from sightline.scenario import Scenario
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.space import Space


class FewestChanges:
    """Keeps the plans that no faster one changes less than."""

    limit = np.inf
    """No bound of a step's time says that a plan changes more."""

    def __init__(self, *, asked: Space[Scenario], measure: Measure) -> None:
        self._asked, self._measure = asked, measure
        self._front = Front(figure=self._figures)
        self._choice: Choice | None = None

    def take(self, block: Block, axes: Axes, choice: Choice) -> None:
        """Look at the plans of a block."""
        self._choice = choice
        self._front.take(block, axes, choice)

    def kept(self) -> list[Candidate]:
        """Return the plans, the fewest changes first."""
        return self._front.kept()

    def _figures(self, block: Block, axes: Axes) -> tuple[Array, Array]:
        time_s = self._measure("time", self._measure.of_block(block, axes))
        return self._changes(block, axes), np.asarray(time_s)

    def _changes(self, block: Block, axes: Axes) -> Array:
        """How many fields of each plan have a value that was not asked for."""
        options = block.fits.ndim - 1
        fields = [name for name in axes.rows if name != "devices"]
        by_row = sum(self._other(name, block.column(name, axes)) for name in fields)
        changes = np.reshape(by_row, (-1, *(1,) * options)) + self._alike()
        schedules = [axes.schedules[i] for i in block.group.schedules]
        for place, values in enumerate(self._by_option(axes, schedules)):
            if block.fits.shape[place + 1] > 1:
                changes = changes + np.reshape(values, [-1 if i == place + 1 else 1 for i in range(options + 1)])
            elif len(values) == 1:
                changes = changes + values[0]
        return np.broadcast_to(changes, block.fits.shape)

    def _alike(self) -> float:
        """Changes that all plans of a block share."""
        choice, shared = self._choice, 0.0
        for name in ("recompute", "attention"):
            allowed = self._asked.values.get(name, (getattr(self._asked.scenario.plan, name),))
            shared += allowed is not None and getattr(choice, name) not in allowed
        return shared

    def _by_option(self, axes: Axes, schedules: list[tuple[str, int]]) -> Iterator[Array]:
        """Changes by ZeRO stage, by each part that may be offloaded, and by schedule with its virtual stages."""
        yield self._other("zero_stage", axes.zero_stage)
        own = self._asked.values.get("offload", (self._asked.scenario.plan.offload,))
        for part in OFFLOADABLE:
            usual = {part in chosen for chosen in own} if own is not None else {True, False}
            yield np.array([(there > 0) not in usual for there in axes.offload[part]], dtype=float)
        yield self._other("schedule", [name for name, _ in schedules])

    def _other(self, name: str, values: Any) -> Array:
        """Whether values of a field are none that were asked for."""
        plan = self._asked.scenario.plan
        allowed = self._asked.values.get(name, (getattr(plan, name, None),))
        return np.zeros(len(values)) if allowed is None else (~np.isin(values, list(allowed))).astype(float)
