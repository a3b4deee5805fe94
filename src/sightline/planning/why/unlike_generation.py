"""Why a plan of generation on unlike devices is the best, and what would serve where no plan fits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.loading.sources import with_settings
from sightline.planning.answer import NearestPlan, Neighbour, PlanAnswer, by_loss
from sightline.planning.clusters import cluster_settings, without_names
from sightline.planning.generation.answers import needed_limits
from sightline.planning.generation.mixed import Listed, listed_plan
from sightline.planning.generation.objectives import figure_key
from sightline.planning.generation.search import search
from sightline.planning.generation.space import GenerationSpace
from sightline.planning.lazy import LazySequence
from sightline.planning.why.generation import compared, explained_generation, kinds_of, nearest_of, small
from sightline.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Searched:
    """What a search on unlike devices looked at."""

    objective: str
    limits: Mapping[str, float]
    parts: Sequence[GenerationSpace]
    """The space on each kind of device."""
    listed: Listed
    """The plans on several kinds."""


def explained_on_unlike(answer: PlanAnswer, of: Searched, command: str) -> PlanAnswer:
    """Return the answer of a search on unlike devices with why its first plan is the best, or what would serve instead.

    Args:
        answer: The answer.
        of: What was searched.
        command: What was typed to ask, to which changes are added.
    """
    if not answer.plans:
        return answer if answer.stopped else replace(answer, nearest=LazySequence(lambda: list(_nearest(of, command))))
    best, key = answer.plans[0].profile, figure_key(answer.objective)
    if best.scenario.cluster.groups:
        return replace(answer, neighbours=LazySequence(lambda: _others(best, key, of)))
    said = explained_generation(answer, of.parts, limits=of.limits, command=command)

    def neighbours() -> list[Neighbour]:
        return _sorted([*_others(best, key, of), *said.neighbours])

    return replace(said, neighbours=LazySequence(neighbours))


def _sorted(found: list[Neighbour]) -> list[Neighbour]:
    """The least loss first, those without one last."""
    return by_loss(found)


def _others(best: Profile, key: str, of: Searched) -> list[Neighbour]:
    """The best plan of each other choice of devices, and of each other use of several kinds."""
    own, found = float(small(key, best) or 0.0), list[Neighbour]()
    by_use = _by_use(of)
    for profiles in by_use.values():
        other = min(profiles, key=lambda one: float(small(key, one) or 0.0))
        if _use(other) != _use(best):
            loss = float(small(key, other) / own - 1) if own else None
            found.append(Neighbour(set=_use(other), loss=loss, sentence=compared(best, other, of.limits)))
    there = {one.scenario.cluster.in_words for profiles in by_use.values() for one in profiles}
    clusters = [part.scenario.cluster for part in of.parts if part.scenario.cluster.in_words not in there]
    nothing = [Neighbour(set=cluster_settings(one), loss=None, sentence="no plan fits") for one in clusters]
    return _sorted([*found, *nothing])


def _by_use(of: Searched) -> dict[str, list[Profile]]:
    """Plans of the list, and the best on each kind of device, by what the devices are used for."""
    alone = (search([part], of.objective, of.limits, top=1).plans for part in of.parts)
    found: dict[str, list[Profile]] = {}
    for profile in (*of.listed.profiles, *(one.profile for plans in alone for one in plans)):
        found.setdefault(str(_use(profile)), []).append(profile)
    return found


def _use(profile: Profile) -> dict[str, Any]:
    """The devices that a plan runs on, or which of several kinds prefills."""
    cluster, split = profile.scenario.cluster, profile.scenario.plan.disaggregate
    if split is None or not cluster.groups:
        return cluster_settings(cluster)
    return {"plan.disaggregate.prefill.device": split.prefill_device}


def _nearest(of: Searched, command: str) -> Iterator[NearestPlan]:
    """The plan on several kinds that misses the limits by least, and what each kind alone needs."""
    key, missing = figure_key(of.objective), of.listed.nearest
    if missing is not None:
        yield needed_limits(of.limits, listed_plan(missing, key))
    for part in of.parts:
        stated = cluster_settings(part.scenario.cluster)
        typed = with_settings(command, stated)
        found = list(search([part], of.objective, of.limits, top=1).nearest)
        found = found or list(nearest_of(kinds_of(part), of.objective, of.limits, typed))
        yield from (without_names(replace(one, set={**stated, **one.set})) for one in found[:1])
