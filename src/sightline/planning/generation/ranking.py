"""The best of many serving plans: those kept of each list, the front of two figures, ties, the simpler one first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.planning.fronts import front_of
from sightline.planning.generation.candidates import NO_BUDGET, scenario_of
from sightline.planning.generation.objectives import ascending, missed_by
from sightline.planning.generation.space import Variant
from sightline.prediction.generation.predict import engine_constants
from sightline.prediction.generation.uncertainty import Case, spreads_of_ratio
from sightline.quantities import FOUR_IN_FIVE
from sightline.scenario import GenerationScenario
from sightline.scenario.generation import DEGREES

KEPT = 1000
"""Plans that are kept of each list: enough for the best of all, and for simpler ones that are as good."""
AS_GOOD = 0.52
"""A plan is as good as the best where the best is the better one with at most this probability, about a percent.

Engines and formats have constants of their own, so two plans may be less sure than their figures are apart. Training
plans share theirs: those within a thousandth of the best are as good as it.
"""
KNOWN = ("memory_bytes.total", "batch")
"""Figures of which any difference counts."""


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


class Ranked(NamedTuple):
    """A plan in its place."""

    plan: Kept
    tied: bool
    """Whether it cannot be told apart from the first; of the first, whether there is such another."""
    better: float | None
    """How likely it is better than the first."""


def best_places(key: str, values: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the places of the best values of a figure, the best first; of equal ones the first."""
    signed = ascending(key, values)
    if len(signed) <= count:
        return np.argsort(signed, kind="stable")
    least = np.partition(signed, count - 1)[count - 1]
    places = np.flatnonzero(signed <= least)
    return places[np.argsort(signed[places], kind="stable")][:count]


def front(axes: Sequence[str], figures: Mapping[str, NDArray[Any]]) -> NDArray[np.intp]:
    """Return the places of the plans that no other beats in both figures, the best of the first one first."""
    return front_of(np.array([ascending(key, figures[key]) for key in axes]))


def ranked(key: str, kept: Sequence[Kept], top: int) -> list[Ranked]:
    """Return the best plans in order; of those that are as good as the best the simplest comes first.

    ``kept`` are in order of the figure. A tie is told by the interval of the ratio to the first plan.
    """
    if not kept:
        return []
    odds = _Odds(key)
    good = [plan for plan in kept if odds.better(plan, kept[0]) <= AS_GOOD]
    first = min(good or kept[:1], key=lambda plan: plan.simplicity)
    others = [plan for plan in kept if plan is not first][: top - 1]
    found = [Ranked(plan, odds.tied(first, plan), odds.known(first, plan)) for plan in others]
    return [Ranked(first, any(one.tied for one in found), None), *found]


class _Odds:
    """How likely one plan is better than another in a figure. Errors that plans share cancel."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._spreads: dict[tuple[int, int], tuple[float, float]] = {}
        self._cases: dict[int, Case] = {}

    def better(self, first: Kept, other: Kept) -> float:
        """How likely another plan is better than the first; certain where no uncertainty is known."""
        reach, width = self._reach(first, other), self._half_width(first, other)
        if width <= 0.0:
            return 0.5 if reach == 0.0 else float(reach > 0.0)
        return NormalDist().cdf(reach * FOUR_IN_FIVE / width)

    def known(self, first: Kept, other: Kept) -> float | None:
        """The same; None where no uncertainty is known."""
        return self.better(first, other) if self._half_width(first, other) > 0.0 else None

    def tied(self, first: Kept, other: Kept) -> bool:
        """Whether the interval of the ratio of both holds 1."""
        return abs(self._reach(first, other)) <= self._half_width(first, other)

    def _reach(self, first: Kept, other: Kept) -> float:
        """By how much another plan is better, as a logarithm."""
        a, b = first.figures[self._key], other.figures[self._key]
        if a <= 0.0 or b <= 0.0:
            return 0.0 if a == b else float("inf") * (b - a)
        return log(missed_by(self._key, a, b))

    def _half_width(self, first: Kept, other: Kept) -> float:
        if self._key in KNOWN:
            return 0.0
        first_token, further = self._spread(first, other)
        if self._key == "ttft_s":
            return first_token
        rates = self._key != "latency_s" and first.variant.scenario.workload.continuous
        if rates or self._key in ("tpot_s", "output_tokens_per_s_per_user"):
            return further
        share = first.figures["ttft_s"] / first.figures["latency_s"]
        return share * first_token + (1.0 - share) * further

    def _spread(self, first: Kept, other: Kept) -> tuple[float, float]:
        """The half-widths of both times' ratios, which are the same for all plans of two variants."""
        pair = id(first.variant), id(other.variant)
        if pair not in self._spreads:
            self._spreads[pair] = spreads_of_ratio(self._case(first), self._case(other))
        return self._spreads[pair]

    def _case(self, plan: Kept) -> Case:
        of = id(plan.variant)
        if of not in self._cases:
            scenario = plan.scenario
            self._cases[of] = scenario, engine_constants(scenario)[0]
        return self._cases[of]
