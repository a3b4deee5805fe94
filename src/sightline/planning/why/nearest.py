"""Where no plan fits: the nearest that do, each with what it costs and the command to try it.

The same search answers, with every field of the plan free. Of the plans that fit, those count that change less of what
was asked than any faster one.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from typing import Any

import numpy as np

from sightline.planning.answer import NearestPlan
from sightline.planning.training.best import Candidate, First, Keeper
from sightline.planning.training.candidates import Axes
from sightline.planning.training.mesh import Block
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.search import search
from sightline.planning.training.validity import LAUNCHABLE
from sightline.planning.why.fewest import FewestChanges
from sightline.planning.why.telling import Dead, Teller, space_of
from sightline.planning.why.ways import Way, is_usual, others, with_more_devices
from sightline.profile import Profile
from sightline.quantities import significant
from sightline.scenario import Scenario
from sightline.scenario.rules import TRAINING_RULES
from sightline.scenario.space import Space

WORTH = 0.9
"""Share of the time of a plan with fewer changes that one with more must not exceed, to be named as well."""
_MOST_ASKED = 4
"""Plans that are told of several questions."""
TOLERABLE = 1.5
"""How many times the time of the plan that does not fit the question as it is may take, for no other to be asked."""


def nearest_plans(
    dead: Dead, predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit: of the question as it is, then of others.

    Where limits that were set are too tight, those of the question with other limits, fewer tokens or more devices.

    Args:
        dead: The question.
        predict: What predicts a plan.
        command: What its changes are added to as options.
    """
    teller = Teller(dead=dead, predict=predict, command=command)
    if within := _beyond_limits(dead, teller):
        return within
    loose = _beyond_memory(dead, _as_asked(dead), teller)
    found = [teller.told(_as_it_is(dead), one) for one in _plans(dead, _as_it_is(dead))]
    if loose or (found and not _slow(dead, found)):
        return [*loose, *found]
    if not found and (loose := _beyond_memory(dead, _as_it_is(dead), teller)):
        return loose
    return [*found, *_of_other_questions(dead, teller)]


def _of_other_questions(dead: Dead, teller: Teller) -> Iterator[NearestPlan]:
    """Yield a plan of each kind of change under which something fits."""
    for kind in others(dead.space.scenario):
        for way in kind:
            there = _plans(dead, way)
            if there:
                yield teller.told(way, there[-1])
                break


def _beyond_memory(dead: Dead, asked: Way, teller: Teller) -> list[NearestPlan]:
    """The plan of least memory, where a limit of it is what is too tight."""
    least = None if dead.max_memory is None else _best(replace(dead, max_memory=None), asked, "memory")
    return [] if least is None else [_with_looser_limits(dead, teller.told(asked, least))]


def _beyond_limits(dead: Dead, teller: Teller) -> list[NearestPlan]:
    """Plans that meet other limits of time and money: with the fields that were asked for, else with any."""
    for asked in (_as_asked(dead), _as_it_is(dead)) if dead.is_limited else ():
        best = _best(dead, asked)
        if best is not None:
            return list(_near_limits(dead, asked, best, teller))
    return []


def nearest_of(
    asked: Sequence[Dead], predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit of several questions: of all as they are, before any other is asked."""
    if len(asked) == 1:
        return nearest_plans(asked[0], predict, command)
    if asked[0].is_limited:
        for way_of in (_as_asked, _as_it_is):
            best = [(found.keys[0], place) for place, one in enumerate(asked) if (found := _best(one, way_of(one)))]
            if best:
                return nearest_plans(asked[min(best)[1]], predict, command)
    told: list[NearestPlan] = []
    for dead in asked:
        way = replace(_as_it_is(dead), set=_stated(dead.space))
        told += [Teller(dead=dead, predict=predict, command=command).told(way, one) for one in _plans(dead, way)[:1]]
    if told:
        return sorted(told, key=lambda one: (len(one.set), one.plan.value))[:_MOST_ASKED]
    return nearest_plans(asked[0], predict, command)


def _stated(space: Space[Scenario]) -> dict[str, Any]:
    """The values by which a question differs from others, of clusters of several sizes the largest."""
    cluster = space.scenario.cluster
    named = {"cluster": f"{cluster.devices}x {cluster.device.name}"} if is_usual(cluster) else {}
    return {**space.options, **({} if "cluster" not in space.options else named)}


def _near_limits(dead: Dead, asked: Way, best: Candidate, teller: Teller) -> Iterator[NearestPlan]:
    """Yield what meets a deadline and a budget: looser ones, fewer tokens, or more devices."""
    loose = teller.told(asked, best)
    calendar_s, cost = (float(loose.plan.figures[key] or 0.0) for key in ("calendar_time_s", "cost_usd"))
    limits, shares = dead.limits, [1.0]
    if limits.deadline_s is not None:
        shares.append(limits.deadline_s / calendar_s)
    if limits.budget_usd is not None and cost:
        shares.append(limits.budget_usd / cost)
    yield _with_looser_limits(dead, loose)
    limited = " ".join((teller.command, *_as_typed(dead)))
    bound = replace(teller, command=limited)
    scenario, tokens = dead.space.scenario, dead.space.scenario.workload.total_tokens
    fewer = float(f"{0.995 * min(shares) * float(tokens or 0):.2e}")
    kept = asked.keeps_fields
    ways = [Way(set={"workload.total_tokens": fewer}, scenario=_with_tokens(scenario, fewer), keeps_fields=kept)]
    more = list(with_more_devices(scenario, at_least=1 / min(shares))) if limits.deadline_s is not None else []
    for kind in (ways, [*(replace(way, keeps_fields=kept) for way in more), *more]):
        for way in kind:
            there = _best(dead, way, limited=True)
            if there is not None:
                yield bound.told(way, there)
                break


def _with_looser_limits(dead: Dead, found: NearestPlan) -> NearestPlan:
    """A plan with the limits that it meets, each as it was asked for or looser."""
    limits, figures, options, beyond = dead.limits, found.plan.figures, {}, []
    needed = float(found.plan.profile.memory_bytes["total"])
    if dead.max_memory is not None and needed > dead.max_memory:
        options["max-memory"] = f"{ceil(needed / 1e8) / 10:g}GB"
        beyond.append(_beyond(needed / dead.max_memory, "max-memory"))
    if limits.deadline_s is not None:
        longest = max(float(figures["calendar_time_s"] or 0.0), limits.deadline_s)
        options["deadline"] = f"{ceil(longest / 8640) / 10:g}d"
        beyond.append(_beyond(longest / limits.deadline_s, "deadline"))
    if limits.budget_usd is not None and (cost := figures["cost_usd"]):
        options["budget"] = _dollars(cost) if cost > limits.budget_usd else f"{limits.budget_usd:.10g}"
        beyond.append(_beyond(cost / limits.budget_usd, "budget"))
    typed = re.sub(r" --max-memory ('[^']*'|\S+)", "", found.command) if "max-memory" in options else found.command
    said = " ".join((typed, *(f"--{name} {value}" for name, value in options.items())))
    sentence = "; ".join((found.sentence, *filter(None, beyond)))
    return replace(found, set={**options, **found.set}, command=said, sentence=sentence)


def _beyond(ratio: float, limit: str) -> str:
    """By how much a limit is exceeded; nothing where it is met."""
    return f"{significant(100 * (ratio - 1), 2):g} % beyond the {limit}" if ratio > 1 else ""


def _dollars(cost: float) -> str:
    """A budget of two digits that pays for it, as it is typed: 110, 5.5k."""
    digit = 10.0 ** (floor(log10(cost)) - 1)
    usd = ceil(cost / digit) * digit
    return f"{usd / 1000:g}k" if usd >= 1000 else f"{usd:g}"


def _as_typed(dead: Dead) -> Iterator[str]:
    """The limits as options, as they were written if that is known."""
    limits = dead.limits
    if limits.deadline_s is not None:
        written = limits.typed.get("deadline", f"{limits.deadline_s / 86400:g}d")
        yield f"--deadline {shlex.quote(written)}"
    if limits.budget_usd is not None:
        written = limits.typed.get("budget", f"{limits.budget_usd:.10g}")
        yield f"--budget {shlex.quote(written)}"


def _with_tokens(scenario: Scenario, tokens: float) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, total_tokens=tokens))


def _as_it_is(dead: Dead) -> Way:
    return Way(set={}, scenario=dead.space.scenario)


def _as_asked(dead: Dead) -> Way:
    """The question with the fields of the plan that it states, so that limits alone can be what is too tight."""
    return Way(set={}, scenario=dead.space.scenario, keeps_fields=True)


def _slow(dead: Dead, found: list[NearestPlan]) -> bool:
    """Whether all that was found takes much longer than what was asked."""
    return dead.asked is not None and all(
        one.plan.profile.step_time_s > TOLERABLE * dead.asked.step_time_s for one in found
    )


def _best(dead: Dead, way: Way, objective: str = "", *, limited: bool = False) -> Candidate | None:
    """The best plan: by default the fastest, or the cheapest where only money is limited; None if there is none."""
    objective = objective or ("time" if dead.limits.deadline_s is not None else "cost")
    space = space_of(dead, way)
    measure = Measure(space=space, availability=dead.availability)
    keeper = First(figure=lambda block, axes: (np.asarray(measure(objective, measure.of_block(block, axes))),), count=1)
    _search(dead, space, keeper, measure if limited else None)
    return next(iter(keeper.kept()), None)


def _plans(dead: Dead, way: Way) -> list[Candidate]:
    """The plan with the fewest changes, and a faster one if there is one; none if nothing fits."""
    space = space_of(dead, way)
    keeper = FewestChanges(asked=dead.space, measure=Measure(space=space, availability=dead.availability))
    _search(dead, space, keeper, None)
    kept = keeper.kept()
    if not kept:
        return []
    fewest, fastest = kept[0], kept[-1]
    return [fewest, fastest] if fastest.keys[1] < WORTH * fewest.keys[1] else [fewest]


def _search(dead: Dead, space: Space[Scenario], keeper: Keeper, limited: Measure | None) -> None:
    """Search a space for what the framework offers; with a measure, for what meets the limits."""

    def beyond(block: Block, axes: Axes) -> dict[str, Any]:
        return {} if limited is None else exceeded(dead.limits, limited, limited.of_block(block, axes))

    rules = LAUNCHABLE if dead.launchable else TRAINING_RULES
    search(space, keeper, within=None if limited is None else beyond, max_memory=dead.max_memory, rules=rules)
