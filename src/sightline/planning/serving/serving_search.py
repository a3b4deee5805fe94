"""The best plans to serve a load: the layouts of a sweep, simulated until none that is left can be better."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import median
from typing import Any, NamedTuple

from sightline.errors import InputError
from sightline.loading.checks import meant
from sightline.planning.generation.space import may_be_tried
from sightline.planning.generation_objectives import ascending, missed_by
from sightline.planning.ranking import Ranked, ranked
from sightline.planning.serving.layouts import CHANGED, Finalist, ServingSpace, Sweep, sweep
from sightline.planning.serving.trial import (
    MANY_MORE,
    ROUGHLY,
    Trial,
    allowed_counts,
    fewest,
    is_of_stated_load,
    objective_in,
    of_one_replica,
    tried,
)
from sightline.prediction.changes import candidate_changes, changed, settings_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import GenerationPlan, ServingScenario
from sightline.scenario.space import Space
from sightline.simulation.deployment import alike

HOUR_S = 3600.0
GOODPUT = "goodput_requests_per_s_per_device"


class Compared(NamedTuple):
    """A figure of a plan."""

    key: str
    """The result that it is."""
    ranked_as: str
    """The figure of steady plans that ranks layouts before they are simulated, and whose errors tell ties."""


OBJECTIVES: Mapping[str, Compared] = {
    "goodput": Compared(GOODPUT, "output_tokens_per_s_per_device"),
    "cost": Compared("cost_usd_per_million_tokens", "cost_usd_per_million_tokens"),
    "users": Compared("most_users", "output_tokens_per_s"),
    "energy": Compared("energy_j_per_million_tokens", "energy_j_per_million_tokens"),
}
"""By the word that is asked for."""


def objective_of(name: str) -> str:
    """Return the objective that a word stands for; raise `InputError` for any other. ``time`` is what nobody stated."""
    if name in ("time", GOODPUT):
        return "goodput"
    if name not in OBJECTIVES:
        allowed = ", ".join(OBJECTIVES)
        raise InputError(f"objective is '{name}'; allowed for serving: {allowed}{meant(name, list(OBJECTIVES))}")
    return name


def figures_of(trial: Trial, think_s: float, *, stated: bool = False) -> dict[str, Any]:
    """Return the results of a plan at its highest rate by key; None where nobody knows one.

    Money is of the load as it is ``stated``, or at the highest rate.
    """
    cluster, rate = trial.finalist.scenario.cluster, trial.rate
    per_hour = None if cluster.usd_per_hour is None else float(cluster.usd_per_hour) * cluster.devices
    requests_per_h, tokens_per_h = (HOUR_S * rate for rate in _answered_per_s(trial, stated=stated))
    return {
        "capacity_requests_per_s": trial.capacity.rate,
        GOODPUT: rate / cluster.devices,
        "goodput_requests_per_usd": requests_per_h / per_hour if per_hour else None,
        "most_users": trial.users(think_s),
        "cost_usd_per_million_tokens": 1e6 * per_hour / tokens_per_h if per_hour and tokens_per_h else None,
        "energy_j_per_million_tokens": _energy_j(trial),
        "usd_per_hour": per_hour,
        "meets_slo": trial.meets,
    }


def _answered_per_s(trial: Trial, *, stated: bool) -> tuple[float, float]:
    """Requests that are answered per second, and their tokens: what is refused yields none.

    A rate has its share of completed requests, without the end of a run; a closed loop has what it answered.
    """
    rate, of = (trial.finalist.lengths.requests_per_s, trial.profile) if stated else (trial.rate, trial.at_capacity)
    if of is None or not of.completed:
        return 0.0, 0.0
    share = of.completed / (of.completed + of.failed + sum(of.refused.values()))
    requests_per_s = rate * share if rate else float(of.requests_per_s)
    return requests_per_s, requests_per_s * float(of.output_tokens_per_s) / float(of.requests_per_s)


def _energy_j(trial: Trial) -> float | None:
    """Joules of all devices per million output tokens."""
    of = trial.at_capacity
    if of is None or of.energy_j is None or not of.output_tokens_per_s:
        return None
    return 1e6 * float(of.energy_j) / (float(of.output_tokens_per_s) * float(of.duration_s))


SIZE = "max_batched_tokens"
"""The most tokens of an iteration."""


def single_changes(scenario: ServingScenario, space: Space[Any]) -> Iterator[tuple[dict[str, Any], GenerationPlan]]:
    """Yield candidate changes of a plan that break no rule and that a layout can have: no other limits or routers."""
    plain = alike(scenario, 1, 1)
    for change in candidate_changes(plain):
        other = changed(plain, change)
        if change.keys() <= CHANGED and may_be_tried(space, other):
            yield settings_of({name: value for name, value in change.items() if name != "replicas"}), other.plan


def other_sizes(one: Finalist) -> Iterator[Finalist]:
    """Yield a layout with iterations of half and of twice as many tokens, as far as these are searched."""
    allowed = one.space.values.get(SIZE, ())
    for stated, plan in single_changes(one.scenario, one.space):
        size = stated.get(f"plan.{SIZE}")
        if size is not None and (allowed is None or size in allowed):
            yield one.changed(plan)


def choices_of(one: Finalist) -> dict[str, Any]:
    """Return by dotted key what a layout chose of what was allowed beside it: an engine, a cluster, an adapter."""
    return {"plan.framework": one.scenario.plan.engine.name, **one.space.options}


PER_PLAN = 3
"""Layouts that are simulated at most, for each plan that is asked for."""
DOUBT = 1.25
"""How much more of its steady loop a layout may reach than the ones that were simulated did."""
NEAREST = 3
"""Layouts that are looked at where none keeps the objective on the devices that there are."""


class Placed(NamedTuple):
    """A plan in its place."""

    place: Ranked
    trial: Trial
    figures: Mapping[str, Any]


@dataclass(slots=True, kw_only=True, eq=False)
class Simulated:
    """What a search found so far."""

    compared: Compared
    think_s: float
    stated: bool = False
    """Whether the least rent for the load as it is stated is searched, in place of the highest rate."""
    swept: Sweep = field(default_factory=lambda: Sweep((), ()))
    trials: list[Trial] = field(default_factory=list)
    other_sizes: list[Trial] = field(default_factory=list)
    """Layouts of ``trials`` with other sizes of iterations, with which they serve less."""
    beyond: list[Trial] = field(default_factory=list)
    """Where no layout serves the stated load on the devices that there are: those that do on more."""
    sized: list[tuple[float, Finalist]] = field(default_factory=list)
    """Layouts with the replicas that the stated load needs, each with its rent per hour."""
    unfit: int = 0
    stopped: bool = False

    def best(self, top: int) -> list[Placed]:
        """Return the best plans in order; of those that are as good as the best the simplest comes first."""
        key = self.compared.ranked_as
        serving = [one for one in self.trials if one.at_capacity is not None]
        found = [(self.figures_of(one), one) for one in serving]
        plans = [
            # Ties are told as between steady plans, by what was simulated instead of their figures.
            (replace(one.finalist.steady, figures={**one.finalist.steady.figures, key: _value(self, said)}), said, one)
            for said, one in found
        ]
        plans.sort(key=lambda of: float(ascending(key, of[0].figures[key])))
        by_plan = {id(plan): (one, said) for plan, said, one in plans}
        return [Placed(place, *by_plan[id(place.plan)]) for place in ranked(key, [plan for plan, *_ in plans], top)]

    def figures_of(self, one: Trial) -> dict[str, Any]:
        """Return the results of a plan by key."""
        return figures_of(one, self.think_s, stated=self.stated)

    def is_better(self, one: Trial, other: Trial) -> bool:
        """Whether a plan is better than another by what was simulated."""
        its, own = (_value(self, self.figures_of(of)) for of in (one, other))
        return bool(one.rate) and float(missed_by(self.compared.ranked_as, its, own)) < 1.0

    def may_be_better(self, one: Finalist, top: int) -> bool:
        """Whether a layout may be among the best, by its steady loop and by what others reached of theirs."""
        key = self.compared.ranked_as
        # By which factor each fell short of its steady loop.
        reached = [
            float(missed_by(key, _value(self, self.figures_of(other)), other.finalist.steady.figures[key]))
            for other in self.trials
            if other.at_capacity is not None
        ]
        if len(reached) < top:
            return True
        last = self.best(top)[-1].place.plan.figures[key]
        # Of layouts in their order, those to come promise no more than this one.
        return float(missed_by(key, one.steady.figures[key], last)) * min(reached) <= DOUBT

    def may_join(self, roughly: Trial, top: int) -> bool:
        """Whether a plan, whose rate is known roughly, may be among the best."""
        best = self.best(top)
        if len(best) < top or roughly.at_capacity is None:
            return True
        its, last = _value(self, self.figures_of(roughly)), _value(self, best[-1].figures)
        return float(missed_by(self.compared.ranked_as, its, last)) <= (1.0 + ROUGHLY) ** 2


def _value(of: Simulated, figures: Mapping[str, Any]) -> float:
    """What plans are compared by; unknown values are no better than any."""
    value = figures[of.compared.key]
    return float("nan") if value is None else float(value)


def search(
    spaces: Sequence[ServingSpace],
    objective: str = "goodput",
    *,
    top: int = 5,
    think_s: float = 0.0,
    progress: Progress = SILENT,
) -> Simulated:
    """Return what became of the most promising layouts, each under its load with the same random numbers.

    Args:
        spaces: What is free, a space for each cluster and each other choice.
        objective: One of ``OBJECTIVES``.
        top: Plans that are wanted; ``PER_PLAN`` times as many are simulated at most.
        think_s: Seconds that a user takes between an answer and the next request.
        progress: Told how far the search is; when it is cancelled the best until then are returned.

    Raises:
        InputError: no objective in a workload, no price where rent is compared, no engine for the model, or a load
            that cannot be read.
    """
    for space in spaces:
        objective_in(space.scenario)
        if objective == "cost" and space.scenario.cluster.usd_per_hour is None:
            device = space.scenario.cluster.device.name
            raise InputError(
                f"objective is 'cost', but the price of {device} is unknown; set it with --price {device}=2.50"
            )
    compared = OBJECTIVES[objective]
    found = Simulated(compared=compared, think_s=think_s, stated=is_of_stated_load(spaces, objective))
    try:
        if found.stated:
            _least_rent(found, spaces, top, progress)
        else:
            _highest_rates(found, spaces, top, progress)
    except Cancelled:
        found.stopped = True
    _as_checkpoint(found, spaces, progress)
    if progress.cancelled and not found.trials:
        _add_cheapest(found, 1, SILENT)
    found.stopped |= progress.cancelled
    return found


def _highest_rates(found: Simulated, spaces: Sequence[ServingSpace], top: int, progress: Progress) -> None:
    """Add the layouts that may serve the most."""
    found.swept = sweep(spaces, found.compared.ranked_as, progress)
    for one in progress.over(found.swept.finalists[: PER_PLAN * top], "simulating"):
        if not found.may_be_better(one, top):
            break
        _add(found, one, top, progress)
    _one_of_each_choice(found, top, progress)
    _best_size(found, progress)


def _one_of_each_choice(found: Simulated, top: int, progress: Progress) -> None:
    """Add the most promising layout of each engine, and of each other choice, of which none was simulated."""
    seen = {choice for one in found.trials for choice in _choices(one.finalist)}
    for one in found.swept.finalists:
        if not _choices(one) <= seen:
            count = len(found.trials)
            _add(found, one, top, progress)
            seen |= _choices(one) if len(found.trials) > count else set()


def _choices(one: Finalist) -> set[tuple[str, str]]:
    return {(key, str(value)) for key, value in choices_of(one).items()}


def _as_checkpoint(found: Simulated, spaces: Sequence[ServingSpace], progress: Progress) -> None:
    """Add the most promising layout without quantization where formats are free and its engine has none of it yet."""
    plain = next((one for one in found.swept.finalists if one.keeps_numerics), None)
    if plain is None or not is_of_any_format(spaces):
        return
    simulated = [one.finalist for one in found.trials if one.finalist.keeps_numerics]
    if any(one.scenario.plan.engine.name == plain.scenario.plan.engine.name for one in simulated):
        return
    if found.stated:
        plain = fewest(plain, _replicas(plain), allowed_counts(spaces), progress.check)
    if plain is not None:
        _add(found, plain, len(found.trials) + 1, progress)


def is_of_any_format(spaces: Sequence[ServingSpace]) -> bool:
    """Return whether a search chooses the format of weights and cache."""
    return any(space.values.get("quantization", ()) is None for space in spaces)


def _best_size(found: Simulated, progress: Progress) -> None:
    """Give the best layout the size of iterations with which it serves the most.

    A steady loop of mean lengths, which ranks the sizes, knows neither bursts nor how lengths vary.
    """
    looked_at: set[int] = set()
    while placed := found.best(1):
        best = placed[0].trial
        if id(best) in looked_at:
            return
        looked_at.add(id(best))
        known = {_plan_of(one.finalist) for one in (*found.trials, *found.other_sizes)}
        for one in other_sizes(best.finalist):
            trial = None if _plan_of(one) in known else tried(one, best.rate, progress.check)
            if trial is None:
                continue
            better, worse = (trial, best) if found.is_better(trial, best) else (best, trial)
            found.other_sizes.append(worse)
            found.trials[found.trials.index(best)] = best = better


def _plan_of(one: Finalist) -> tuple[int, str]:
    """What a layout is known by, whatever limit of sequences it was found to serve the most with."""
    return id(one.space), str(one.steady.scenario.plan.to_dict())


def _least_rent(found: Simulated, spaces: Sequence[ServingSpace], top: int, progress: Progress) -> None:
    """Add the layouts that serve the stated load for the least rent; of none the fewest devices that would do."""
    found.swept = sweep(of_one_replica(spaces), found.compared.ranked_as, progress)
    for one in progress.over(found.swept.finalists[: PER_PLAN * top], "simulating"):
        last = sorted(rent for rent, _ in found.sized)[top - 1] if len(found.sized) >= top else inf
        least = max(ceil(one.lengths.requests_per_s / (DOUBT * one.requests_per_s)), 1)
        if _rent(one) * least > last:
            continue
        few = fewest(one, _replicas(one), allowed_counts(spaces), progress.check)
        if few is not None:
            found.sized.append((_rent(few), few))
    _add_cheapest(found, top, progress)
    for one in () if found.sized else found.swept.finalists[:NEAREST]:
        few = fewest(one, MANY_MORE * _replicas(one), None, progress.check)
        trial = tried(few or one.replicated(_replicas(one)), check=progress.check)
        if trial is not None and few:
            found.beyond.append(trial)
        elif trial is not None:
            found.trials.append(trial.as_stated())


def _add_cheapest(found: Simulated, top: int, progress: Progress) -> None:
    for _, few in sorted(found.sized, key=lambda of: of[0])[:top]:
        _add(found, few, top, progress)


def _add(found: Simulated, one: Finalist, top: int, progress: Progress) -> None:
    # Layouts of one question fall short of their steady loops alike.
    reached = [other.rate / other.finalist.requests_per_s for other in found.trials if other.rate]
    guess = one.requests_per_s * median(reached or [1.0])
    trial = tried(one, guess, progress.check, lambda roughly: found.may_join(roughly, top))
    if trial is None:
        found.unfit += 1
    else:
        found.trials.append(trial)


def _replicas(one: Finalist) -> int:
    """How many replicas of a layout of one there may be."""
    return int(one.space.sizes[-1].devices // one.space.scenario.cluster.devices)


def _rent(one: Finalist) -> float:
    """Dollars per hour of its devices."""
    cluster = one.space.scenario.cluster
    return float(cluster.usd_per_hour or 0.0) * cluster.devices
