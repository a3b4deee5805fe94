"""The best plan with each value that a request allows beside the mesh - cluster, adapter, format - and its loss."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from sightline.content import fields_of
from sightline.planning.answer import Neighbour, RankedPlan, by_loss
from sightline.planning.clusters import devices_setting
from sightline.planning.training.best import Candidate
from sightline.planning.training.candidates import resolved
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.quantities import SECONDS, format_quantity, significant
from sightline.scenario import Scenario
from sightline.scenario.space import TRAINING_FIELDS, Space

COMPARED = ("time", "cost", "energy", "memory")
"""Objectives of which a share can be lost."""


class _Option(NamedTuple):
    """The best plan with some values, by what is to be small."""

    set: Mapping[str, Any]
    key: float
    """Infinite where no plan fits; of those of which no plan is kept the least that it could be."""
    scenario: Scenario | None = None


def alternatives(
    parts: Sequence[tuple[Space[Scenario], Sequence[Candidate]]],
    first: RankedPlan,
    money: Callable[[Profile], float | None],
) -> list[Neighbour]:
    """Return the best plan with each value that the first plan does not have, the least loss first, then those without.

    Values of which too few plans were kept to know the best are left out.

    Args:
        parts: The spaces that were searched, and the good plans of each.
        first: The best plan of all.
        money: Dollars of the run of a prediction; None where nobody knows them.
    """
    options = [option for space, kept in parts for option in _options(space, kept)]
    own = next((one.set for one in options if _is(one, first.profile.scenario)), None)
    if own is None:
        return []
    best = min(one.key for one in options)
    found = []
    for key, chosen in own.items():
        values = {str(one.set[key]): one.set[key] for one in options if str(one.set[key]) != str(chosen)}
        for value in values.values():
            having = [one for one in options if str(one.set[key]) == str(value)]
            least = min(having, key=lambda one: one.key)
            if least.scenario is None and least.key < inf:
                continue
            others = {name: one for name, one in least.set.items() if name != key and str(one) != str(own[name])}
            found.append(_told({key: value}, others, least, best, money))
    return by_loss(found)


def _options(space: Space[Scenario], kept: Sequence[Candidate]) -> Iterator[_Option]:
    """The best plan of a space, or of each number of devices in it."""
    if not space.clusters:
        if space.options:
            yield _Option(dict(space.options), *_best(space, next(iter(kept), None)))
        return
    for cluster in space.clusters:
        best = next((one for one in kept if one.fields["devices"] == cluster.devices), None)
        named = {**space.options, **devices_setting(cluster)}
        yield _Option(named, kept[-1].keys[0]) if best is None and kept else _Option(named, *_best(space, best))


def _best(space: Space[Scenario], best: Candidate | None) -> tuple[float, Scenario | None]:
    return (inf, None) if best is None else (best.keys[0], resolved(space, best.fields))


def _is(option: _Option, own: Scenario) -> bool:
    """Whether a scenario has the values of an option."""
    one = option.scenario
    if one is None or one.cluster is not own.cluster or one.model is not own.model:
        return False
    fixed, its = ({k: v for k, v in fields_of(of.plan).items() if k not in TRAINING_FIELDS} for of in (one, own))
    return str(fixed) == str(its)


def _told(
    value: Mapping[str, Any],
    others: Mapping[str, Any],
    option: _Option,
    best: float,
    money: Callable[[Profile], float | None],
) -> Neighbour:
    if option.scenario is None:
        return Neighbour(set=value, loss=None, sentence="no plan that fits and meets the limits")
    profile = predict(option.scenario)
    said = f"{format_quantity(significant(float(profile.step_time_s), 3), SECONDS)} a step at best"
    cost = money(profile)
    if cost is not None:
        said += f", {cost:,.{0 if cost >= 100 else 2}f} USD"
    said += "".join(f", with {name.partition('.')[2] or name} {one}" for name, one in others.items())
    return Neighbour(set=value, loss=option.key / best - 1, sentence=f"{said}{'; may not fit' * profile.tight}")
