"""Where no plan fits: the nearest that do, each with what it costs and the command to try it.

The same search answers, with every field of the plan free. Of the plans that fit, those count that change less of what
was asked than any faster one.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sightline.planning.answer import NearestPlan
from sightline.planning.clusters import devices_setting, is_usual
from sightline.planning.training.best import Candidate, First, Keeper
from sightline.planning.training.candidates import Axes
from sightline.planning.training.mesh import Block
from sightline.planning.training.objectives import Measure, exceeded
from sightline.planning.training.search import search
from sightline.planning.training.validity import LAUNCHABLE
from sightline.planning.why.fewest import FewestChanges
from sightline.planning.why.looser import FARTHEST, looser
from sightline.planning.why.unmet import Describer, Unmet, space_of
from sightline.planning.why.variations import Variation, others, with_more_devices
from sightline.profile import Profile
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
    unmet: Unmet, predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit: of the question as it is, then of others.

    Where limits that were set are too tight, those of the question with other limits, fewer tokens or more devices.

    Args:
        unmet: The question.
        predict: What predicts a plan.
        command: What its changes are added to as options.
    """
    describer = Describer(unmet=unmet, predict=predict, command=command)
    if within := _beyond_limits(unmet, describer):
        return within
    loose = _beyond_memory(unmet, _as_asked(unmet), describer)
    found = [describer.described(_as_it_is(unmet), one) for one in _plans(unmet, _as_it_is(unmet))]
    if loose or (found and not _slow(unmet, found)):
        return [*loose, *found]
    if not found and (loose := _beyond_memory(unmet, _as_it_is(unmet), describer)):
        return loose
    return [*found, *_of_other_questions(unmet, describer)]


def _of_other_questions(unmet: Unmet, describer: Describer) -> Iterator[NearestPlan]:
    """Yield a plan of each kind of change under which something fits."""
    for kind in others(unmet.space.scenario):
        for variation in kind:
            there = _plans(unmet, variation)
            if there:
                yield describer.described(variation, there[-1])
                break


def _beyond_memory(unmet: Unmet, asked: Variation, describer: Describer) -> list[NearestPlan]:
    """The plan of least memory, where a limit of it is what is too tight."""
    least = None if unmet.max_memory is None else _best(replace(unmet, max_memory=None), asked, "memory")
    return [] if least is None else [_with_looser_limits(unmet, describer.described(asked, least))]


def _beyond_limits(unmet: Unmet, describer: Describer) -> list[NearestPlan]:
    """Plans that meet other limits of time and money: with the fields that were asked for, else with any."""
    for asked in (_as_asked(unmet), _as_it_is(unmet)) if unmet.is_limited else ():
        best = _best(unmet, asked)
        if best is not None:
            return list(_near_limits(unmet, asked, best, describer))
    return []


def nearest_of(
    asked: Sequence[Unmet], predict: Callable[[Scenario], Profile], command: str = "sightline plan FILE"
) -> list[NearestPlan]:
    """Return the nearest plans that fit of several questions: of all as they are, before any other is asked."""
    if len(asked) == 1:
        return nearest_plans(asked[0], predict, command)
    if asked[0].is_limited:
        for way_of in (_as_asked, _as_it_is):
            best = [(found.keys[0], place) for place, one in enumerate(asked) if (found := _best(one, way_of(one)))]
            if best:
                return nearest_plans(asked[min(best)[1]], predict, command)
    described, loose = list[NearestPlan](), list[NearestPlan]()
    for unmet in asked:
        describer = Describer(unmet=unmet, predict=predict, command=command)
        variation = replace(_as_it_is(unmet), set=_stated(unmet.space))
        described += [describer.described(variation, one) for one in _plans(unmet, variation)[:1]]
        loose += _beyond_memory(unmet, _as_asked(unmet), describer)
    least = sorted(loose, key=lambda one: float(one.plan.profile.memory_bytes["total"]))[:1]
    nearest = [*least, *sorted(described, key=lambda one: (len(one.set), one.plan.value))][:_MOST_ASKED]
    return nearest or nearest_plans(asked[0], predict, command)


def _stated(space: Space[Scenario]) -> dict[str, Any]:
    """The values by which a question differs from others, of clusters of several sizes the largest."""
    cluster = space.scenario.cluster
    named = devices_setting(cluster) if is_usual(cluster) and "cluster" in space.options else {}
    return {**space.options, **named}


def _near_limits(unmet: Unmet, asked: Variation, best: Candidate, describer: Describer) -> Iterator[NearestPlan]:
    """Yield what meets a deadline and a budget: looser ones, fewer tokens, or more devices."""
    loose = describer.described(asked, best)
    calendar_s, cost = (float(loose.plan.figures[key] or 0.0) for key in ("calendar_time_s", "cost_usd"))
    limits, shares = unmet.limits, [1.0]
    if limits.deadline_s is not None:
        shares.append(limits.deadline_s / calendar_s)
    if limits.budget_usd is not None and cost:
        shares.append(limits.budget_usd / cost)
    yield _with_looser_limits(unmet, loose)
    limited = " ".join((describer.command, *_as_typed(unmet)))
    bound = replace(describer, command=limited)
    scenario, tokens = unmet.space.scenario, unmet.space.scenario.workload.total_tokens
    fewer = float(f"{0.995 * min(shares) * float(tokens or 0):.2e}")
    kept = asked.keeps_fields
    variations = [
        Variation(set={"workload.total_tokens": fewer}, scenario=_with_tokens(scenario, fewer), keeps_fields=kept)
    ]
    variations = variations if 1 / min(shares) <= FARTHEST else []
    more = list(with_more_devices(scenario, at_least=1 / min(shares))) if limits.deadline_s is not None else []
    for kind in (variations, [*(replace(variation, keeps_fields=kept) for variation in more), *more]):
        for variation in kind:
            there = _best(unmet, variation, limited=True)
            if there is not None:
                yield bound.described(variation, there)
                break


def _with_looser_limits(unmet: Unmet, found: NearestPlan) -> NearestPlan:
    """A plan with the limits that it meets, each as it was asked for or looser."""
    needed = float(found.plan.profile.memory_bytes["total"])
    options, beyond = looser(unmet.limits, found.plan.figures, max_memory=unmet.max_memory, needed=needed)
    typed = re.sub(r" --max-memory ('[^']*'|\S+)", "", found.command) if "max-memory" in options else found.command
    said = " ".join((typed, *(f"--{name} {value}" for name, value in options.items())))
    return replace(found, set={**options, **found.set}, command=said, sentence="; ".join((found.sentence, *beyond)))


def _as_typed(unmet: Unmet) -> Iterator[str]:
    """The limits as options, as they were written if that is known."""
    limits = unmet.limits
    if limits.deadline_s is not None:
        written = limits.typed.get("deadline", f"{limits.deadline_s / 86400:g}d")
        yield f"--deadline {shlex.quote(written)}"
    if limits.budget_usd is not None:
        written = limits.typed.get("budget", f"{limits.budget_usd:.10g}")
        yield f"--budget {shlex.quote(written)}"


def _with_tokens(scenario: Scenario, tokens: float) -> Scenario:
    return replace(scenario, workload=replace(scenario.workload, total_tokens=tokens))


def _as_it_is(unmet: Unmet) -> Variation:
    return Variation(set={}, scenario=unmet.space.scenario)


def _as_asked(unmet: Unmet) -> Variation:
    """The question with the fields of the plan that it states, so that limits alone can be what is too tight."""
    return Variation(set={}, scenario=unmet.space.scenario, keeps_fields=True)


def _slow(unmet: Unmet, found: list[NearestPlan]) -> bool:
    """Whether all that was found takes much longer than what was asked."""
    return unmet.asked is not None and all(
        one.plan.profile.step_time_s > TOLERABLE * unmet.asked.step_time_s for one in found
    )


def _best(unmet: Unmet, variation: Variation, objective: str = "", *, limited: bool = False) -> Candidate | None:
    """The best plan: by default the fastest, or the cheapest where only money is limited; None if there is none."""
    objective = objective or ("time" if unmet.limits.deadline_s is not None else "cost")
    space = space_of(unmet, variation)
    measure = Measure(space=space, availability=unmet.availability)
    keeper = First(figure=lambda block, axes: (np.asarray(measure(objective, measure.of_block(block, axes))),), count=1)
    _search(unmet, space, keeper, measure if limited else None)
    return next(iter(keeper.kept()), None)


def _plans(unmet: Unmet, variation: Variation) -> list[Candidate]:
    """The plan with the fewest changes, and a faster one if there is one; none if nothing fits."""
    space = space_of(unmet, variation)
    keeper = FewestChanges(asked=unmet.space, measure=Measure(space=space, availability=unmet.availability))
    _search(unmet, space, keeper, None)
    kept = keeper.kept()
    if not kept:
        return []
    fewest, fastest = kept[0], kept[-1]
    return [fewest, fastest] if fastest.keys[1] < WORTH * fewest.keys[1] else [fewest]


def _search(unmet: Unmet, space: Space[Scenario], keeper: Keeper, limited: Measure | None) -> None:
    """Search a space for what the framework offers; with a measure, for what meets the limits."""

    def beyond(block: Block, axes: Axes) -> dict[str, Any]:
        return {} if limited is None else exceeded(unmet.limits, limited, limited.of_block(block, axes))

    rules = LAUNCHABLE if unmet.launchable else TRAINING_RULES
    search(space, keeper, within=None if limited is None else beyond, max_memory=unmet.max_memory, rules=rules)
