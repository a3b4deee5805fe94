"""The order of the best plans: which of them the uncertainty cannot tell apart, and which is the simplest of equals."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Any

from sightline.explanation.faster import likely_smaller
from sightline.explanation.side import SAME, interval_of, ratio_spread, spread_of
from sightline.planning.answer import RankedPlan
from sightline.prediction.anchoring.pair import correlations
from sightline.scenario import Plan

_PLAIN_SCHEDULES = ("1f1b", "interleaved")


def complexity(plan: Plan) -> tuple[float, ...]:
    """Return how much a plan asks for: techniques first, then how far they go."""
    used = (
        plan.tensor_parallel > 1,
        plan.pipeline_parallel > 1,
        plan.context_parallel > 1,
        plan.expert_parallel > 1,
        bool(plan.sequence_parallel),
        plan.virtual_stages > 1,
        plan.schedule not in _PLAIN_SCHEDULES,
        plan.zero_stage > 0,
        *(True for _ in plan.offload),
        plan.recompute != "none",
        plan.attention != "flash",
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


def with_ties(plans: Sequence[RankedPlan], key: str) -> list[RankedPlan]:
    """Return plans of training with how likely each is better than the first, by the interval of their ratio.

    Errors that both predictions share cancel (`sightline.prediction.anchoring.pair`). ``key`` is the result that they
    are ranked by; only times are uncertain.
    """
    if not plans:
        return []
    first, *others = plans
    alike = correlations(first.profile.scenario, [other.profile.scenario for other in others])
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
