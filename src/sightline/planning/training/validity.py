"""Which candidates are plans: what the rules allow, what a space restricts, and each plan once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from operator import and_
from typing import Any, Final

import numpy as np

from sightline.launching.training.rules import LAUNCH_RULES
from sightline.loading.plans import OFFERED
from sightline.planning.training.candidates import DIMENSIONS, OFFLOAD, ROW, SCHEDULE, ZERO, Array, Axes, along
from sightline.scenario import Scenario
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.rules import TRAINING_RULES, facts_of
from sightline.scenario.rules.rulebook import Masks, Rule, masks_of
from sightline.scenario.space import Space

POSSIBLE: Final[tuple[Rule, ...]] = tuple(rule for rule in TRAINING_RULES if rule not in OFFERED)
"""Rules about what can be at all."""
LAUNCHABLE: Final[tuple[Rule, ...]] = (*TRAINING_RULES, *LAUNCH_RULES)
"""Rules about what the framework offers today too, and, where a launch is written for it, about what that can run."""

EVERY: Final[Array] = np.ones((1,) * DIMENSIONS, dtype=bool)
"""The mask of a rule that nothing breaks."""
_COUNTED = 1 << 12
"""Rows that are counted together: what keeps memory flat."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Valid:
    """Which plans of a mesh are valid, as masks on few of its dimensions each."""

    axes: Axes
    states: Array
    """On all dimensions but the schedule."""
    schedules: Array
    """On rows and schedules."""
    rest: tuple[Array, ...]
    """What lies on both."""
    rejected: Mapping[str, int]
    """Candidates that break each rule; one that breaks several counts for each."""

    def trimmed(self) -> "Valid":
        """Return the rows that have a valid plan."""
        there = np.ones(self.axes.count, dtype=bool)
        for mask in (self.states, self.schedules):
            there &= mask.any(axis=tuple(range(1, mask.ndim)))
        return self if there.all() else self.of_rows(there)

    def of_rows(self, chosen: Any) -> "Valid":
        """Return some of the rows."""
        return self._of(self.axes.of_rows(chosen), lambda mask: _of_rows(mask, chosen))

    def _of(self, axes: Axes, part: Callable[[Array], Array]) -> "Valid":
        states, schedules, *rest = map(part, (self.states, self.schedules, *self.rest))
        return replace(self, axes=axes, states=states, schedules=schedules, rest=tuple(rest))

    def used(self) -> "Valid":
        """Return the values of ZeRO, offloading and schedules that some valid plan has."""
        valid = self
        masks = [np.any(mask, axis=ROW, keepdims=True) for mask in (self.states, self.schedules, *self.rest)]
        for dimension in range(ZERO, DIMENSIONS):
            others = tuple(one for one in range(DIMENSIONS) if one != dimension)
            there = reduce(and_, [np.any(mask, axis=others) for mask in masks])
            if there.any() and not there.all():
                valid = valid._of_values(dimension, np.flatnonzero(there))
        return valid

    def _of_values(self, dimension: int, chosen: Array) -> "Valid":
        return self._of(
            self.axes.of_values(dimension, chosen),
            lambda mask: mask.take(chosen, axis=dimension) if mask.shape[dimension] > 1 else mask,
        )

    def count(self) -> int:
        """Return how many plans are valid."""
        if not self.rest:
            return self.at_most()
        chunks = (self.of_rows(slice(start, start + _COUNTED)).used() for start in range(0, self.axes.count, _COUNTED))
        return sum(
            int(np.count_nonzero(reduce(and_, one.rest, np.broadcast_to(one.states & one.schedules, one.axes.shape))))
            for one in chunks
        )

    def at_most(self) -> int:
        """Return how many plans are valid at most: what lies on both masks is left out."""
        counts, lengths = [], self.axes.shape
        for mask, fixed in ((self.states, (SCHEDULE,)), (self.schedules, tuple(range(1, SCHEDULE)))):
            shape = tuple(1 if i in fixed else length for i, length in enumerate(lengths))
            counts.append(np.broadcast_to(mask, shape).sum(axis=tuple(range(1, len(shape)))))
        return int(counts[0] @ counts[1])


def valid_plans(
    space: Space[Scenario], scenario: Scenario, axes: Axes, rules: tuple[Rule, ...], made: Masks | None = None
) -> Valid:
    """Return which plans of a mesh (``scenario`` with its ``axes`` as arrays) break no rule and are distinct.

    Masks of rules that were ``made`` of the same arrays are taken again.
    """
    rejected: dict[str, int] = {}
    masks: list[Array] = []
    for name, mask in masks_of(rules, facts_of(scenario), made):
        rejected[name] = rejected.get(name, 0) + (mask.size - int(np.count_nonzero(mask))) * _share(axes, mask)
        masks.append(mask)
    masks += _restricted(space, scenario, axes)
    masks.append(_split_with_effect(scenario, axes))
    masks = [mask.reshape((1,) * DIMENSIONS) if mask.ndim == 0 else mask for mask in masks]
    there = reduce(and_, (mask.ravel() for mask in masks if mask.size == len(mask)), np.ones(axes.count, dtype=bool))
    masks = sorted((_of_rows(mask, there) for mask in masks if mask.size > len(mask)), key=np.size)
    of_states = [mask for mask in masks if mask.shape[SCHEDULE] == 1]
    others = [mask for mask in masks if mask.shape[SCHEDULE] > 1]
    of_schedules = [mask for mask in others if prod(mask.shape[ZERO:SCHEDULE]) == 1]
    valid = Valid(
        axes=axes.of_rows(there),
        states=reduce(and_, of_states, EVERY),
        schedules=reduce(and_, of_schedules, EVERY),
        rest=tuple(mask for mask in others if prod(mask.shape[ZERO:SCHEDULE]) > 1),
        rejected=rejected,
    )
    return _distinct(valid, scenario, axes)


def _of_rows(array: Array, chosen: Any) -> Array:
    """Some of the rows of an array; all where all rows have the same."""
    return array[chosen] if len(array) > 1 else array


def _share(axes: Axes, mask: Array) -> int:
    """Candidates for each element of a mask."""
    return prod(axes.shape) // prod(np.broadcast_shapes(mask.shape, (1,) * len(axes.shape)))


def _restricted(space: Space[Scenario], scenario: Scenario, axes: Axes) -> Iterator[Array]:
    """Masks of what a space restricts beyond the values of its axes: chunks of stages hold as many layers each."""
    replicas = space.values.get("data_parallel")
    if replicas is not None:
        yield np.isin(scenario.plan.data_parallel, replicas)
    if space.values.get("virtual_stages", ()) is None:
        layers: Any = scenario.model.layers / (scenario.plan.pipeline_parallel * scenario.plan.virtual_stages)
        yield np.asarray((scenario.plan.virtual_stages == 1) | (layers == np.floor(layers)))
    subsets = space.values.get("offload")
    if subsets is not None:
        grid = np.meshgrid(*axes.offload.values(), indexing="ij")
        words = [frozenset(p for p, there in zip(OFFLOADABLE, place, strict=True) if there) for place in _places(grid)]
        allowed = np.array([word in subsets for word in words]).reshape(grid[0].shape)
        yield allowed.reshape((1,) * OFFLOAD + allowed.shape + (1,))


def _places(grid: Any) -> Iterator[tuple[Any, ...]]:
    yield from zip(*(column.ravel() for column in grid), strict=True)


def _split_with_effect(scenario: Scenario, axes: Axes) -> Array:
    """Where sequence parallelism is not another value of what is nothing: without tensor parallelism."""
    plan, first = scenario.plan, axes.rows["sequence_parallel"].min(initial=1)
    return np.asarray((plan.tensor_parallel > 1) | (plan.sequence_parallel == first))


def _distinct(valid: Valid, scenario: Scenario, axes: Axes) -> Valid:
    """Keep one of the valid plans among which a field has no effect.

    Without stages all schedules are the same. Without replicas all ZeRO stages are the same, of which one that the
    framework's offloading takes is kept, unless the framework runs other code for some.
    """
    plan, engine, rows = scenario.plan, scenario.plan.framework.zero_engine, valid.axes.rows
    ranks = prod(rows[name] for name in ("tensor_parallel", "pipeline_parallel"))
    states, schedules, rest = valid.states, valid.schedules, valid.rest
    alone = np.flatnonzero(rows["devices"] <= ranks)
    if len(alone) and not (engine.hooks or engine.bf16_optimizer):
        taken = _taken_by_offloading(plan, axes)
        states = _writable(states, valid.axes.count, taken)
        taken = taken & states[alone]
        states[alone] = _first(np.where(taken.any(axis=ZERO, keepdims=True), taken, states[alone]), ZERO)
    alike = np.flatnonzero(rows["pipeline_parallel"] <= 1)
    if any(not _of_rows(mask, alike).all() for mask in rest):
        # Which schedule is the first that is valid depends on what lies on both masks.
        both = reduce(and_, (_of_rows(mask, alike) for mask in (*rest, schedules)))
        chosen = _writable(EVERY, valid.axes.count, both)
        chosen[alike] = _first(both, SCHEDULE)
        rest = (*rest, chosen)
    elif len(alike):
        schedules = _writable(schedules, valid.axes.count)
        schedules[alike] = _first(schedules[alike], SCHEDULE)
    return replace(valid, states=states, schedules=schedules, rest=rest)


def _writable(mask: Array, rows: int, *others: Array) -> Array:
    """A copy of a mask with every row, on the other dimensions of others too."""
    return np.broadcast_to(
        mask, np.broadcast_shapes(mask.shape, (rows, *(1,) * SCHEDULE), *(one.shape[1:] for one in others))
    ).copy()


def _first(mask: Array, dimension: int) -> Array:
    """The first place along a dimension that a mask has."""
    first: Array = mask & (along(np.arange(mask.shape[dimension]), dimension) == mask.argmax(dimension, keepdims=True))
    return first


def _taken_by_offloading(plan: Any, axes: Axes) -> Array:
    """Where a ZeRO stage is the first that the framework's offloading takes, or the first of all without any."""
    needed: Any = min(axes.zero_stage)
    for part, needs in plan.framework.offload_needs.items():
        stages = [stage for stage in needs.get("zero_stage", ()) if stage in axes.zero_stage]
        if part in plan.offload and stages:
            needed = np.maximum(needed, np.where(plan.offload[part] > 0, min(stages), needed))
    return np.asarray(plan.zero_stage == needed)
