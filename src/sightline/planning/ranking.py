"""The order of plans: fronts of two figures, ties within the uncertainty, the simplest of equals first."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.explanation.compared import SAME, interval_of, likely_smaller, ratio_spread, spread_of
from sightline.planning.generation_objectives import ascending, missed_by
from sightline.planning.plan_answer import RankedPlan
from sightline.prediction.anchoring.anchored_steps import AnchoredSteps, correlations
from sightline.quantities import FOUR_IN_FIVE
from sightline.scenario import Plan
from sightline.scenario.plan import SHORT_DEGREES

if TYPE_CHECKING:
    from sightline.planning.generation.candidates import Kept
    from sightline.prediction.generation.uncertainty import Case

Floats = NDArray[np.float64]


def front_of(figures: Floats) -> NDArray[np.intp]:
    """Return the places of the Pareto-optimal points, in order of the first figure; of equal ones the first.

    ``figures`` has a column for each point. Points without a finite figure are on no front.
    """
    first, second = figures
    order = np.lexsort((second, first))
    before = np.minimum.accumulate(np.concatenate([[np.inf], second[order]]))[:-1]
    best: NDArray[np.intp] = order[(second[order] < before) & np.isfinite(first[order])]
    return best


def dominated(figures: Floats, by: Floats) -> NDArray[np.bool_]:
    """Return which points another set of points dominates: as good in both figures or better."""
    first, second = by[:, front_of(by)]
    if not len(first):
        return np.zeros(figures.shape[1], dtype=bool)
    place = np.searchsorted(first, figures[0], side="right") - 1
    found: NDArray[np.bool_] = (place >= 0) & (second[np.maximum(place, 0)] <= figures[1])
    return found


def spread_over(figures: Sequence[tuple[float, float]], count: int) -> list[int]:
    """Return the places of so many points of a front in order: both ends, and others as evenly as they lie.

    Of points whose two figures are the same to three digits the first stands for all.
    """
    seen = dict[tuple[str, str], int]()
    for place, (x, y) in enumerate(figures):
        seen.setdefault((f"{x:.3g}", f"{y:.3g}"), place)
    kept = list(seen.values())
    if len(kept) <= count:
        return kept
    points = np.array([figures[place] for place in kept])
    extent = np.ptp(points, axis=0)
    steps = np.hypot(*(np.diff(points, axis=0) / np.where(extent > 0, extent, 1.0)).T)
    along = np.concatenate([[0.0], np.cumsum(steps)])
    chosen: list[int] = []
    for i, target in enumerate(np.linspace(0.0, along[-1], count)):
        # Points are left for the places that follow.
        first, last = (chosen[-1] + 1 if chosen else 0), len(kept) - (count - i)
        chosen.append(first + int(np.argmin(np.abs(along[first : last + 1] - target))))
    return [kept[place] for place in chosen]


PLAIN_SCHEDULES = ("1f1b", "interleaved")
"""Those that every framework with a pipeline has."""


def complexity(plan: Plan) -> tuple[float, ...]:
    """Return how much a plan asks for: techniques first, then how far they go."""
    used = (
        plan.tensor_parallel > 1,
        plan.pipeline_parallel > 1,
        plan.context_parallel > 1,
        plan.expert_parallel > 1,
        bool(plan.sequence_parallel),
        plan.virtual_stages > 1,
        plan.schedule not in PLAIN_SCHEDULES,
        plan.zero_stage > 0,
        *(True for _ in plan.offload),
        plan.recompute != "none",
        plan.attention != "flash",
        plan.compile,
    )
    return float(sum(used)), float(plan.zero_stage), float(plan.virtual_stages)


def in_order(plans: Sequence[tuple[float, Plan, Any]], same: float = SAME) -> list[Any]:
    """Return what belongs to plans in order: by what is to be small, of equals the simplest first.

    Equals differ from the best by less than the share ``same``. Of plans that are exactly as good the simplest alone is
    kept.
    """
    best = min((key for key, _, _ in plans), default=0.0)
    scale = abs(best) or 1.0

    def place(one: tuple[float, Plan, Any]) -> tuple[Any, ...]:
        steps = (one[0] - best) / scale
        return (0 if steps < same else 1, *((*complexity(one[1]), steps) if steps < same else (steps,)))

    kept: list[tuple[float, Plan, Any]] = []
    for one in sorted(plans, key=lambda one: (round((one[0] - best) / scale, 12), complexity(one[1]))):
        if not kept or abs(one[0] - kept[-1][0]) > 1e-12 * scale:
            kept.append(one)
    return [one[2] for one in sorted(kept, key=place)]


def numbered(plans: Sequence[RankedPlan]) -> list[RankedPlan]:
    """Return plans with their ranks."""
    return [replace(one, rank=rank) for rank, one in enumerate(plans, start=1)]


def with_ties(plans: Sequence[RankedPlan], key: str, known: AnchoredSteps | None = None) -> list[RankedPlan]:
    """Return plans of training with how likely each is better than the first, by the interval of their ratio.

    Errors that both predictions share cancel (`sightline.prediction.anchoring.anchored_steps`). ``key`` is the result
    that they are ranked by; only times are uncertain. ``known`` is what runs of one's own taught.
    """
    if not plans:
        return []
    first, *others = plans
    alike = correlations(first.profile.scenario, [other.profile.scenario for other in others], known)
    return [first, *(_compared(first, other, key, alike[place]) for place, other in enumerate(others))]


def _per_token(plan: RankedPlan) -> float:
    """The value of a run, or of a step over its tokens, as steps may be of different batches."""
    workload: Any = plan.profile.scenario.workload
    return plan.value if workload.total_tokens is not None else plan.value / float(workload.tokens_per_step)


def _compared(first: RankedPlan, other: RankedPlan, key: str, alike: float) -> RankedPlan:
    """The other plan with how likely it is better; ``alike`` is the correlation of both errors."""
    a, b = (float(getattr(one.profile, key)) for one in (first, other))
    ends: list[Any] = [one.profile.interval.get(key) for one in (first, other)]
    own, of_other = spread_of(a, ends[0]), spread_of(b, ends[1])
    if own is None or of_other is None or not a or not b:
        return other
    spread = ratio_spread(own, of_other, alike)
    ratio = _per_token(other) / _per_token(first) if first.value > 0 else b / a
    low, high = interval_of(ratio, spread)
    return replace(other, tied=low <= 1.0 <= high, better=likely_smaller(log(ratio), spread))


KEPT = 1000
"""Plans that are kept of each list: enough for the best of all, and for simpler ones that are as good."""
AS_GOOD = 0.52
"""A plan is as good as the best where the best is the better one with at most this probability, about a percent.

Engines and formats have constants of their own, so two plans may be less sure than their figures are apart. Training
plans share theirs: those within a thousandth of the best are as good as it.
"""
KNOWN = ("memory_bytes.total", "batch")
"""Figures of which any difference counts."""


class Ranked(NamedTuple):
    """A plan in its place."""

    plan: "Kept"
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


def ranked(key: str, kept: "Sequence[Kept]", top: int, *, simplest: bool = True) -> list[Ranked]:
    """Return the best plans in order; of those that are as good as the best the ``simplest`` comes first.

    ``kept`` are in order of the figure. A tie is told by the interval of the ratio to the first plan.
    """
    if not kept:
        return []
    odds = _Odds(key)
    good = [plan for plan in kept if odds.better(plan, kept[0]) <= AS_GOOD]
    first = min(good, key=lambda plan: plan.simplicity) if good and simplest else kept[0]
    others = [plan for plan in kept if plan is not first][: top - 1]
    found = [Ranked(plan, odds.tied(first, plan), odds.known(first, plan)) for plan in others]
    return [Ranked(first, any(one.tied for one in found), None), *found]


class _Odds:
    """How likely one plan is better than another in a figure. Errors that plans share cancel."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._spreads: dict[tuple[int, int], tuple[float, float]] = {}
        self._cases: dict[int, Case] = {}

    def better(self, first: "Kept", other: "Kept") -> float:
        """How likely another plan is better than the first; certain where no uncertainty is known."""
        reach, width = self._reach(first, other), self._half_width(first, other)
        if width <= 0.0:
            return 0.5 if reach == 0.0 else float(reach > 0.0)
        return NormalDist().cdf(reach * FOUR_IN_FIVE / width)

    def known(self, first: "Kept", other: "Kept") -> float | None:
        """The same; None where no uncertainty is known."""
        return self.better(first, other) if self._half_width(first, other) > 0.0 else None

    def tied(self, first: "Kept", other: "Kept") -> bool:
        """Whether the interval of the ratio of both holds 1."""
        return abs(self._reach(first, other)) <= self._half_width(first, other)

    def _reach(self, first: "Kept", other: "Kept") -> float:
        """By how much another plan is better, as a logarithm."""
        a, b = first.figures[self._key], other.figures[self._key]
        if a <= 0.0 or b <= 0.0:
            return 0.0 if a == b else float("inf") * (b - a)
        return log(missed_by(self._key, a, b))

    def _half_width(self, first: "Kept", other: "Kept") -> float:
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

    def _spread(self, first: "Kept", other: "Kept") -> tuple[float, float]:
        """The half-widths of both times' ratios, which are the same for all plans of two variants."""
        from sightline.prediction.generation.uncertainty import spreads_of_ratio

        pair = id(first.variant), id(other.variant)
        if pair not in self._spreads:
            self._spreads[pair] = spreads_of_ratio(self._case(first), self._case(other))
        return self._spreads[pair]

    def _case(self, plan: "Kept") -> "Case":
        from sightline.prediction.generation.batch_profile import engine_constants

        of = id(plan.variant)
        if of not in self._cases:
            scenario = plan.scenario
            self._cases[of] = scenario, engine_constants(scenario)[0]
        return self._cases[of]


_DEGREES: Final = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
"""That are told of the best plan until now."""


def best_in_words(figure: str, plan: Any) -> str:
    """Return the best of a search that goes on as its figure and degrees, such as ``5.7 requests/s, tp 8``."""
    stated = plan if isinstance(plan, Mapping) else {name: getattr(plan, name, 1) for name in _DEGREES}
    degrees = {name: int(stated.get(name) or 1) for name in _DEGREES}
    return ", ".join([figure, *(f"{SHORT_DEGREES[name]} {degree}" for name, degree in degrees.items() if degree > 1)])
