"""What a search of plans says in sentences: which plans are tied, what binds them, what was searched, what to try."""

import shlex
from collections.abc import Mapping, Sequence
from inspect import getdoc
from typing import Any

from sightline.planning.answer import HardwareChange, NearestPlan, Neighbour, PlanAnswer, RankedPlan
from sightline.profile.metrics import BOUNDS
from sightline.report import labels, units
from sightline.report.plans import columns
from sightline.scenario.rules import GENERATION_RULES, TRAINING_RULES

TIED = "≈"
"""Behind the rank of a plan that cannot be told apart from the first."""
_LIMITS = {
    "memory": "needs more memory than a device has",
    "max_memory": "needs more memory than --max-memory allows",
    "deadline": "takes longer than the deadline",
    "budget": "costs more than the budget",
    "launchable": "the framework does not offer it",
    "ttft": "takes longer to the first token than allowed",
    "tpot": "takes longer per token than allowed",
}
"""Limits that reject plans, in words; rules have theirs in their first sentence."""
_MOST_RULES, _MOST_LINES = 6, 8
_LEAST_SHARE = 0.05
"""Of the time: what bounds less is not named."""


def title(answer: PlanAnswer) -> str:
    """Return what was planned: the scenario's name, or the model and, where all plans agree, what it runs on."""
    if not answer.plans:
        return "No plan fits"
    scenario = answer.plans[0].profile.scenario
    named = scenario.name
    clusters = {(p.profile.scenario.cluster.devices, p.profile.scenario.cluster.device.name) for p in answer.plans}
    return named or (labels.title(scenario) if len(clusters) == 1 else scenario.model.name)


def subtitle(answer: PlanAnswer) -> list[str]:
    """Return what runs on what, and what all plans share of how."""
    if not answer.plans:
        return []
    scenario = answer.plans[0].profile.scenario
    about = labels.subtitle(scenario)[0].split(" · ")
    held = [part for part in about if all(part in labels.subtitle(p.profile.scenario)[0] for p in answer.plans)]
    common = columns.shared(answer)
    return [" · ".join(held), *([f"all plans: {', '.join(common)}"] if common and len(answer.plans) > 1 else [])]


def standing(answer: PlanAnswer) -> list[str]:
    """Return how likely another plan than the first is the better one, tied plans in one sentence."""
    others = answer.plans[1:]
    tied = [one for one in others if one.tied]
    if tied:
        named = _listed([str(one.rank) for one in (answer.plans[0], *tied)])
        odds = _listed(
            [f"{one.rank} is the better one with {one.better:.0%}" for one in tied if one.better is not None]
        )
        return [f"{TIED} {named} cannot be told apart{f': {odds}' if odds else ''}".replace("%", " %")]
    if others and others[0].better is not None:
        return [f"{others[0].rank} is better than 1 with a probability of {_chance(others[0].better)}"]
    return []


def _chance(probability: float) -> str:
    return "under 1 %" if probability < 0.01 else f"{100 * probability:.0f} %"


def binding(answer: PlanAnswer) -> list[str]:
    """Return what binds the first plan and the next one: shares of the time by what bounds it."""
    return [f"{one.rank} is bound by {bounds}" for one in answer.plans[:2] if (bounds := _bounds(one))]


def _bounds(plan: RankedPlan) -> str:
    limits = plan.profile.limits
    whole = sum(float(limits.get(bound, 0.0)) for bound in BOUNDS)
    shares = {bound: float(limits.get(bound, 0.0)) / whole for bound in BOUNDS} if whole else {}
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    said = [
        f"{bound} ({100 * share:.0f} %)"
        for position, (bound, share) in enumerate(ranked)
        if share >= _LEAST_SHARE or not position
    ]
    return ", ".join(said)


def searched(answer: PlanAnswer) -> str:
    """Return how many plans were evaluated, in which time, and how many of them are feasible."""
    plans = "plan" if answer.evaluated == 1 else "plans"
    counted = f"evaluated {answer.evaluated:,} {plans} in {units.seconds(answer.seconds)}"
    feasible = "none fits" if not answer.feasible else f"{answer.feasible:,} fit and meet every limit"
    stopped = " - stopped early, the best so far" if answer.stopped else ""
    return f"{counted}: {feasible}{stopped}"


def rejections(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return the counts of rejected candidates with the rule or limit and its words, the most first."""
    ranked = sorted(answer.rejected.items(), key=lambda item: -item[1])
    shown = [(f"{count:,}", name, words(name)) for name, count in ranked[:_MOST_RULES]]
    rest = ranked[_MOST_RULES:]
    return [*shown, *([(f"{sum(c for _, c in rest):,}", f"{len(rest)} more rules", "")] if rest else [])]


def words(rule: str) -> str:
    """Return what a rule or limit says, in a sentence without its stop."""
    if rule in _LIMITS:
        return _LIMITS[rule]
    known = {one.__name__: getdoc(one) or "" for one in (*TRAINING_RULES, *GENERATION_RULES)}
    return known.get(rule, "").partition(". ")[0].partition("\n")[0].rstrip(".")


def neighbours(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return the obvious other choices with what each loses and why."""
    return [(setting(one.set), _loss(one), one.sentence) for one in answer.neighbours[:_MOST_LINES]]


def _loss(neighbour: Neighbour) -> str:
    return "-" if neighbour.loss is None else f"{100 * neighbour.loss:+.1f} %"


def hardware(answer: PlanAnswer) -> list[tuple[str, str, str]]:
    """Return what better parts of the hardware would give, most first."""
    ranked = sorted(answer.hardware, key=lambda one: -one.gain)
    return [(_part(one), f"{-100 * one.gain:+.1f} %", one.sentence) for one in ranked[:_MOST_LINES]]


def _part(change: HardwareChange) -> str:
    return f"{change.factor:g} x {change.part}"


def nearest(answer: PlanAnswer) -> list[tuple[str, str]]:
    """Return changes of the request under which something fits, with the command that tries each."""
    return [(f"{setting(one.set)}: {one.sentence}" if one.set else one.sentence, one.command) for one in _near(answer)]


def _near(answer: PlanAnswer) -> Sequence[NearestPlan]:
    return answer.nearest[:_MOST_LINES]


def setting(chosen: Mapping[str, Any]) -> str:
    """Return what is set, without the part of a scenario that a key belongs to."""
    return ", ".join(f"{key.partition('.')[2] or key} {columns.word(value)}" for key, value in chosen.items())


def settings(answer: PlanAnswer, plan: RankedPlan) -> list[str]:
    """Return the options that make a scenario this plan: a ``--set`` for each field that was searched."""
    chosen = plan.profile.scenario.plan.to_dict()
    keys = answer.free or [key for key in columns.HEADINGS if key in chosen]
    names = dict.fromkeys(key.removeprefix("plan.") for key in keys)
    return [f"--set {shlex.quote(f'plan.{name}={_yaml(chosen[name])}')}" for name in names if name in chosen]


def _yaml(value: Any) -> str:
    """A value as ``--set`` reads it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value == int(value):
            return str(int(value))
        case list() | tuple():
            return f"[{','.join(map(_yaml, value))}]"
        case dict():
            return "{" + ", ".join(f"{key}: {_yaml(item)}" for key, item in value.items()) + "}"
        case None:
            return "null"
        case _:
            return str(value)


def assumptions(answer: PlanAnswer) -> list[str]:
    """Return what the figures rest on, a sentence each."""
    return [f"{name}: {value}" for name, value in answer.assumptions.items()]


def _listed(items: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))
