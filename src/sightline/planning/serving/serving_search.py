"""The best plans to serve a load: the layouts of a sweep, simulated until none that is left can be better."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import fmean, median
from typing import Any, NamedTuple

from sightline.errors import InputError
from sightline.loading.checks import meant
from sightline.planning.generation.candidates import BUDGETS
from sightline.planning.generation.space import may_be_tried
from sightline.planning.generation_objectives import ascending, missed_by
from sightline.planning.ranking import Ranked, best_in_words, ranked
from sightline.planning.serving.layouts import CHANGED, Finalist, ServingSpace, Sweep, sweep
from sightline.planning.serving.trial import (
    BRIEF,
    CLOSE,
    COMPARED,
    MANY_MORE,
    WHOLE,
    Precision,
    Trial,
    allowed_counts,
    fewest,
    first_that,
    is_of_stated_load,
    largest,
    objective_in,
    of_one_replica,
    on_devices,
    tried,
    with_its_limit,
)
from sightline.prediction.changes import candidate_changes, changed, settings_of
from sightline.progress import SILENT, Cancelled, Progress
from sightline.scenario import GenerationPlan, ServingScenario
from sightline.scenario.precision import MATMUL_FORMATS, WEIGHT_FORMATS
from sightline.scenario.rules import ENGINE_DEGREES
from sightline.scenario.space import Space
from sightline.simulation.deployment import alike
from sightline.simulation.simulate import other_seeds

HOUR_S = 3600.0
GOODPUT = "goodput_requests_per_s_per_device"


class Compared(NamedTuple):
    """A figure of a plan."""

    key: str
    """The result that it is."""
    ranked_as: str
    """The figure of steady plans that ranks layouts before they are simulated, and whose errors tell ties."""
    by_rate: bool = False
    """Whether plans of one kind of devices compare as their rates do."""


OBJECTIVES: Mapping[str, Compared] = {
    "goodput": Compared(GOODPUT, "output_tokens_per_s_per_device", by_rate=True),
    "cost": Compared("cost_usd_per_million_tokens", "cost_usd_per_million_tokens", by_rate=True),
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
        "mfu": _utilization(trial),
        "meets_slo": trial.meets,
    }


def _utilization(trial: Trial) -> float:
    """Model FLOPs at the highest rate over the devices' peak: two per active parameter and token that is computed."""
    scenario, lengths = trial.finalist.scenario, trial.finalist.lengths
    hits = (trial.at_capacity or trial.profile).prefix_hit_rate or 0.0
    tokens = lengths.prompt_tokens * (1.0 - hits) + lengths.output_tokens
    plan, peaks = scenario.plan, scenario.cluster.device.peak_flops
    words = plan.quantization or scenario.model.published
    own = [MATMUL_FORMATS[WEIGHT_FORMATS[word]].compute_dtype for word in words if word in WEIGHT_FORMATS]
    peak = scenario.cluster.devices * float(peaks[next((dtype for dtype in own if dtype in peaks), plan.dtype)])
    return float(2.0 * scenario.model.active_parameters * tokens * trial.rate / peak)


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
    searched = range(min(BUDGETS), max(BUDGETS) + 1) if allowed is None else allowed
    for stated, plan in single_changes(one.scenario, one.space):
        size = stated.get(f"plan.{SIZE}")
        takes_all = plan.chunked_prefill or (size or 0) >= one.lengths.longest_prompt
        if size is not None and takes_all and size in searched:
            yield one.changed(plan)


def all_sizes(one: Finalist) -> Iterator[Finalist]:
    """Yield it with all sizes that come from another by halves and doubles."""
    known, left = {_size(one)}, [one]
    while left:
        for other in other_sizes(left.pop()):
            if _size(other) not in known:
                known.add(_size(other))
                left.append(other)
                yield other


def choices_of(one: Finalist) -> dict[str, Any]:
    """Return by dotted key what a layout chose of what was allowed beside it: an engine, pools, a cluster."""
    apart = {"plan.disaggregate": one.steady.variant.pooled} if "disaggregate" in one.space.values else {}
    return {"plan.framework": one.steady.variant.scenario.plan.engine.name, **apart, **one.space.options}


MOST, MOST_ALIKE = 96, 40
"""Kinds of layouts that are simulated at most, and other layouts of these."""
MARGIN = 1.0 + 1.5 * BRIEF.within
"""How far behind the best a layout may be by a brief simulation to be simulated closely."""
NEAR = 1.0 + 1.5 * CLOSE.within
"""How far behind the best it may be by a longer one, to be simulated as a single plan is."""
MOST_PAIRS = 10
"""Kinds of prefill and decode workers of an engine that are simulated at most."""
IMPROVED = 3
"""Layouts that are tried with other sizes of iterations and limits of sequences."""
DOUBT = 2.0
"""Times what its steady loop promises at most that a layout may serve."""
LEAST_POOLED = 2
"""Devices of prefill and decode workers at least."""
MOST_SIZED = 3
"""Layouts whose fewest replicas are looked for at most, for each plan that is asked for."""
NEAREST = 3
"""Layouts that are looked at where none keeps the objective on the devices that there are."""


class Placed(NamedTuple):
    """A plan in its place."""

    place: Ranked
    trial: Trial


class Leaders(NamedTuple):
    """The best plans of a search so far."""

    last: Trial
    """Of as many as are wanted."""
    with_choice: Mapping[tuple[str, str], Trial]
    """The best with each choice."""


@dataclass(slots=True, kw_only=True, eq=False)
class Simulated:
    """What a search found so far."""

    compared: Compared
    think_s: float
    stated: bool = False
    """Whether the least rent for the load as it is stated is searched, in place of the highest rate."""
    swept: Sweep = field(default_factory=lambda: Sweep((), ()))
    trials: list[Trial] = field(default_factory=list)
    """Simulated closely."""
    brief: list[Trial] = field(default_factory=list)
    """Simulated briefly at first, and as closely as they have been since."""
    other_sizes: list[Trial] = field(default_factory=list)
    """Layouts of ``trials`` with other sizes of iterations, with which they serve less."""
    beyond: list[Trial] = field(default_factory=list)
    """Where no layout serves the stated load on the devices that there are: those that do on more."""
    sized: list[tuple[float, Finalist]] = field(default_factory=list)
    """Layouts with the replicas that the stated load needs, each with its rent per hour."""
    known: dict[Trial, dict[str, Any]] = field(default_factory=dict)
    """Results of plans that were worked out so far."""
    users_per_stream: float = 1.0
    """Users of the best plan in the mean over streams of requests, over those with the stated seed."""
    unfit: int = 0
    stopped: bool = False

    def best(self, top: int) -> list[Placed]:
        """Return the best plans in order.

        Of those that are as good as the best the simplest comes first, of equal rents for the stated load that which
        serves most.
        """
        key = self.compared.ranked_as
        serving = sorted((one for one in self.trials if one.at_capacity is not None), key=self.rank_value)
        plans = [
            # Ties are told as between steady plans, by what was simulated instead of their figures.
            replace(one.finalist.steady, figures={**one.finalist.steady.figures, key: self.value(one)})
            for one in serving
        ]
        by_plan = {id(plan): one for plan, one in zip(plans, serving, strict=True)}
        places = ranked(key, plans, top, simplest=not self.stated)
        return [Placed(place, by_plan[id(place.plan)]) for place in places]

    def figures_of(self, one: Trial) -> dict[str, Any]:
        """Return the results of a plan by key."""
        if one not in self.known:
            figures = figures_of(one, self.think_s, stated=self.stated)
            self.known[one] = {**figures, "most_users": int(self.users_per_stream * figures["most_users"])}
        return self.known[one]

    def value(self, one: Trial) -> float:
        """Return the figure that plans are compared by; an unknown one is no better than any."""
        value = self.figures_of(one)[self.compared.key]
        return float("nan") if value is None else value

    def rank_value(self, one: Trial) -> tuple[float, float]:
        """What a plan is compared by; smaller is better, and a plan that serves nothing is no better than any."""
        value = float(ascending(self.compared.ranked_as, self.value(one))) if one.rate else inf
        # Equal rents are the same but for rounding.
        return (float(f"{value:.9g}"), -one.rate) if self.stated else (value, 0.0)

    def contenders(self, of: Sequence[Trial], top: int, margin: float) -> list[Trial]:
        """Return so many of the best plans of some and those not far behind the first; those that serve, if any do."""
        ordered = sorted(of, key=self.rank_value)
        serving = [one for one in ordered if one.rate]
        if not serving:
            return ordered[:NEAREST]
        key, best = self.compared.ranked_as, self.value(serving[0])
        return [
            one
            for place, one in enumerate(serving)
            if place < top or float(missed_by(key, self.value(one), best)) <= margin
        ]

    def takes(self, trial: Trial | None, among: list[Trial]) -> bool:
        """Add a trial; count it as unfit where the plan has no room for a cache."""
        self.unfit += trial is None
        among += [] if trial is None else [trial]
        return trial is not None

    def replace(self, one: Trial, other: Trial) -> None:
        """Put another trial in the place of one."""
        for trials in (self.brief, self.trials):
            trials[:] = [other if of is one else of for of in trials]

    def again(self, one: Trial, how: Precision, progress: Progress, least: float = 0.0) -> None:
        """Simulate a plan more closely; one that does not serve the ``least`` is of no interest."""
        server = one.server if one.how.coarser == how.coarser else None
        trial = tried(one.finalist, one.rate, progress.check, how, least=least, server=server, sure=one.how.within)
        if trial is not None:
            self.replace(one, trial)

    def leaders(self, top: int, how: Precision = BRIEF) -> "Leaders | None":
        """Return the best plans that were simulated so; of all where that is briefly.

        None where they are fewer than that, or compare by more than their rates.
        """
        known = [of for of in self.brief if of.rate and how in (BRIEF, of.how)] if self.compared.by_rate else []
        serving = sorted(known, key=self.rank_value)
        if len(serving) < top:
            return None
        return Leaders(serving[top - 1], {choice: of for of in reversed(serving) for choice in _choices(of.finalist)})

    def rate_to_beat(self, one: Finalist, leaders: "Leaders | None") -> float:
        """Return the rate from which on a layout would be among the best, or the best with what it chose.

        0 where there are no ``leaders`` yet, or none chose so.
        """
        choices = _choices(one)
        if leaders is None or not choices <= leaders.with_choice.keys():
            return 0.0
        return min(self._as_good(one, its) for its in (leaders.last, *map(leaders.with_choice.__getitem__, choices)))

    def _as_good(self, one: Finalist, other: Trial) -> float:
        """The rate at which a layout is as good as another at its own."""
        cluster, own = one.scenario.cluster, other.finalist.scenario.cluster
        dearer = (cluster.usd_per_hour or 1.0) / (own.usd_per_hour or 1.0) if self.compared.key != GOODPUT else 1.0
        return float(other.rate * cluster.devices / own.devices * dearer)


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
        top: Plans that are wanted.
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
        if objective == "users":
            _over_streams(found, progress)
    except Cancelled:
        found.stopped = True
        found.trials = found.trials or list(found.brief)
    if progress.cancelled and not found.trials:
        _add_cheapest(found, 1, SILENT)
    found.stopped |= progress.cancelled
    return found


_BRIEF_UNTIL, _ALIKE_UNTIL, _COMPARED_UNTIL, _SIZED_UNTIL = 0.2, 0.28, 0.4, 0.45
_LONGER_UNTIL, _CHECKED_UNTIL, _CONFIRMED_UNTIL = 0.7, 0.85, 0.95
"""Shares of a search that usually go by until a stage ends; of Llama 3 8B on 8 H100."""


def _highest_rates(found: Simulated, spaces: Sequence[ServingSpace], top: int, progress: Progress) -> None:
    """Add the layouts that may serve the most.

    By successive halving (Jamieson and Talwalkar 2016, AISTATS): a steady loop ranks all layouts; one of each kind is
    simulated briefly, then the others of the kinds that come near; those that come near longer, the best of them with
    other sizes of iterations; the best of these closely, until the first of them is as sure as a single plan. All with
    the same random numbers.
    """
    # Runs so short may take the second for the first.
    top = max(top, IMPROVED)
    found.swept = sweep(spaces, found.compared.ranked_as, progress)
    first, others = _by_kind(found.swept.finalists)
    for one in progress.over(first[:MOST], "simulating", _BRIEF_UNTIL):
        _try_briefly(found, one, top, progress)
    reached = {_kind(one.finalist): one.rate / one.finalist.requests_per_s for one in found.brief if one.rate}
    likely, leaders = [one for one in others if _kind(one) in reached], found.leaders(top)
    near = [
        one for one in likely if reached[_kind(one)] * one.requests_per_s * MARGIN > found.rate_to_beat(one, leaders)
    ]
    for one in progress.over(near[:MOST_ALIKE], "simulating others like the best", _ALIKE_UNTIL):
        _try_briefly(found, one, top, progress)
    _compare(found, top, progress)
    for choice in dict.fromkeys(choice for one in found.brief for choice in sorted(_choices(one.finalist))):
        _compare(found, 1, progress, choice)
    for trial in found.contenders(found.brief, IMPROVED, 1.0):
        _improve(found, trial, progress, _SIZED_UNTIL)
    _give_the_best_size(found, progress)
    for trial in progress.over(found.contenders(found.brief, top, NEAR), "simulating the best longer", _LONGER_UNTIL):
        found.again(trial, CLOSE, progress)
    for trial in found.contenders([one for one in found.brief if one.how is CLOSE], 1, 1.0)[:1]:
        _improve(found, trial, progress, _CHECKED_UNTIL)
    found.trials = [one for one in found.brief if one.how is CLOSE]
    _one_of_each_choice(found, progress)
    _confirm(found, progress)


def _kind(one: Finalist) -> tuple[Any, ...]:
    """What layouts have in common that reach about the same share of what they promise."""
    columns = one.steady.columns
    degrees = (value for name, value in columns.items() if name.rpartition(".")[2] in ENGINE_DEGREES)
    return id(one.space), one.steady.variant.scenario.plan.engine.name, *degrees


def _by_kind(finalists: Sequence[Finalist]) -> tuple[list[Finalist], list[Finalist]]:
    """The most promising layout of each kind, and the others; the most promising first."""
    kinds: dict[tuple[Any, ...], Finalist] = {}
    pairs: Counter[Any] = Counter()
    for one in finalists:
        variant, is_new = one.steady.variant, _kind(one) not in kinds
        if is_new and variant.pooled:
            pairs[variant.scenario.plan.engine.name] += 1
        if is_new and (not variant.pooled or pairs[variant.scenario.plan.engine.name] <= MOST_PAIRS):
            kinds[_kind(one)] = one
    first = {id(one) for one in kinds.values()}
    return list(kinds.values()), [one for one in finalists if id(one) not in first]


def _try_briefly(found: Simulated, one: Finalist, top: int, progress: Progress) -> None:
    least = found.rate_to_beat(one, found.leaders(top))
    if DOUBT * one.most_per_s < least:
        return
    shares = [other.rate / other.finalist.requests_per_s for other in found.brief if other.rate]
    guess = one.requests_per_s * median(shares or [1.0])
    if found.takes(tried(one, guess, progress.check, BRIEF, least=least / MARGIN), found.brief):
        _tell_best(found, progress)


def _tell_best(found: Simulated, progress: Progress) -> None:
    best = min(found.brief, key=found.rank_value)
    progress.found(best_in_words(f"{best.rate:.3g} requests/s", best.finalist.scenario.plan))


def _improve(found: Simulated, best: Trial, progress: Progress, until: float) -> None:
    """Give a layout the size of iterations and the limit of sequences with which it serves the most.

    A steady loop of mean lengths, which ranks the sizes, knows neither bursts nor how lengths vary.
    """
    for one in progress.each(list(all_sizes(best.finalist)), "simulating sizes of iterations", until):
        trial = tried(one, best.rate, progress.check, best.how, least=best.rate)
        if trial is not None and found.rank_value(trial) < found.rank_value(best):
            found.other_sizes.append(best)
            found.replace(best, trial)
            best = trial
        elif trial is not None:
            found.other_sizes.append(trial)
    found.replace(best, with_its_limit(best, progress.check, best.how))


def _give_the_best_size(found: Simulated, progress: Progress) -> None:
    """Try layouts that came near the best with its size of iterations: another may fail them all for long prompts."""
    best = min(found.brief, key=found.rank_value, default=None)
    if best is None or not best.rate:
        return
    engine, size = best.finalist.scenario.plan.engine, _size(best.finalist)
    least = best.rate / (1.0 + COMPARED.within)
    for other in [one for one in found.brief if one.how is COMPARED and not one.finalist.steady.variant.pooled]:
        sized = next((one for one in all_sizes(other.finalist) if _size(one) == size), None)
        if sized is None or sized.scenario.plan.engine != engine:
            continue
        trial = tried(sized, best.rate, progress.check, COMPARED, least=least)
        if trial is not None and found.rank_value(trial) < found.rank_value(other):
            found.replace(other, trial)


def _size(one: Finalist) -> tuple[Any, ...]:
    return one.scenario.plan.max_batched_tokens, one.scenario.plan.chunked_prefill


def _compare(found: Simulated, top: int, progress: Progress, choice: tuple[str, str] | None = None) -> None:
    """Simulate longer what may be among the best, until none of these is known from a brief simulation alone.

    With a ``choice`` they are the best of those that chose so.
    """
    progress.begin(None, "simulating the best", _COMPARED_UNTIL)
    while True:
        own = [one for one in found.brief if choice is None or choice in _choices(one.finalist)]
        if not (left := [one for one in found.contenders(own, top, MARGIN) if one.how is BRIEF]):
            return
        least = found.rate_to_beat(left[0].finalist, found.leaders(top, COMPARED))
        found.again(left[0], COMPARED, progress, least / (1.0 + COMPARED.within))
        progress.advance()


def _confirm(found: Simulated, progress: Progress) -> None:
    """Simulate the best as a single plan is simulated, and those that come near, until one of these is the best."""
    progress.begin(None, "simulating the best closely", _CONFIRMED_UNTIL)
    while left := [one for one in found.contenders(found.trials, 1, NEAR) if one.rate and one.how is not WHOLE]:
        found.again(left[0], WHOLE, progress)
        progress.advance()


def _over_streams(found: Simulated, progress: Progress) -> None:
    """Scale users to the mean over several streams of requests, by what the best plan has in each.

    Near its capacity a plan's latency, and so its users, is that of the bursts and lengths that a seed draws; all plans
    share these, so that their ratios are known much better than the users of any.
    """
    best = min(found.trials, key=found.rank_value, default=None)
    space = None if best is None else best.finalist.space
    if best is None or space is None or not best.rate or space.scenario.workload.requests is None:
        return
    users = [best.users(found.think_s)]
    for asked in progress.over([*other_seeds(space.scenario)], "simulating other streams of requests", 1.0):
        drawn = best.finalist._replace(space=replace(space, scenario=asked))
        trial = tried(drawn, best.rate, progress.check, best.how, server=best.server)
        users += [trial.users(found.think_s)] if trial is not None else []
    found.users_per_stream = fmean(users) / max(users[0], 1)
    found.known.clear()


def _one_of_each_choice(found: Simulated, progress: Progress) -> None:
    """Simulate the best layout of each engine, and of each other choice, of which none was simulated closely."""
    known = {id(one.finalist) for one in found.brief}
    best = [one.finalist for one in sorted(found.brief, key=lambda one: (one.how is BRIEF, found.rank_value(one)))]
    _add_first(found, (*best, *(one for one in found.swept.finalists if id(one) not in known)), 0, progress)
    limited = set[Trial]()
    for choice in sorted({choice for one in found.trials for choice in _choices(one.finalist)}):
        first = min((one for one in found.trials if choice in _choices(one.finalist)), key=found.rank_value)
        if first.finalist.max_sequences is None and first not in limited:
            limited.add(first)
            found.replace(first, with_its_limit(first, progress.check, first.how))


def _choices(one: Finalist) -> set[tuple[str, str]]:
    """What a layout chose; a plan without quantization is one more choice where formats are free."""
    plain = one.keeps_numerics and one.space.values.get("quantization", ()) is None
    return {*((key, str(value)) for key, value in choices_of(one).items()), *([("numerics", "")] if plain else [])}


def _as_checkpoint(found: Simulated, spaces: Sequence[ServingSpace], progress: Progress) -> None:
    """Add the most promising layout without quantization where none of the cheapest is one."""
    plain = next((one for one in found.swept.finalists if one.keeps_numerics), None)
    if plain is not None and not any(one.finalist.keeps_numerics for one in found.trials):
        few = fewest(plain, _replicas(plain), allowed_counts(spaces), progress.check)
        _add_first(found, [] if few is None else [few], 1, progress)


def is_of_any_format(spaces: Sequence[ServingSpace]) -> bool:
    """Return whether a search chooses the format of weights and cache."""
    return any(space.values.get("quantization", ()) is None for space in spaces)


def _least_rent(found: Simulated, spaces: Sequence[ServingSpace], top: int, progress: Progress) -> None:
    """Add the layouts that serve the stated load for the least rent; of none the fewest devices that would do."""
    found.swept = sweep(of_one_replica(spaces), found.compared.ranked_as, progress)
    for one in progress.over(found.swept.finalists[: MOST_SIZED * top], "simulating", _LONGER_UNTIL):
        last = sorted(rent for rent, _ in found.sized)[top - 1] if len(found.sized) >= top else inf
        least = max(ceil(one.lengths.requests_per_s / one.most_per_s), 1)
        if _rent(one) * least > last:
            continue
        few = _fewest_of_any_size(one, spaces, progress)
        if few is not None:
            found.sized.append((_rent(few), few))
    for space in largest(spaces):
        found.sized += [(_rent(few), few) for few in _fewest_of_pools(found, space, progress)]
    _add_cheapest(found, top, progress)
    for best in sorted(found.trials, key=found.rank_value)[:1]:
        _improve(found, best, progress, _CHECKED_UNTIL)
    _confirm(found, progress)
    if is_of_any_format(spaces):
        _as_checkpoint(found, spaces, progress)
    for one in () if found.sized else found.swept.finalists[:NEAREST]:
        few = fewest(one, MANY_MORE * _replicas(one), None, progress.check)
        trial = tried(few or one.replicated(_replicas(one)), check=progress.check)
        if trial is not None and few:
            found.beyond.append(trial)
        elif trial is not None:
            found.trials.append(trial.as_stated())


def _fewest_of_any_size(one: Finalist, spaces: Sequence[ServingSpace], progress: Progress) -> Finalist | None:
    """Return a layout of one replica with the fewest replicas that serve the stated load; None where none do.

    Fewer may, with iterations of another size.
    """
    counts = allowed_counts(spaces)
    few = fewest(one, _replicas(one), counts, progress.check)
    for other in other_sizes(one):
        if few is not None:
            few = fewest(other, int(few.scenario.plan.replicas) - 1, counts, progress.check) or few
    return few


def _fewest_of_pools(found: Simulated, space: ServingSpace, progress: Progress) -> Iterator[Finalist]:
    """Yield the layout of prefill and decode workers that serves the stated load on the fewest devices, if any does."""
    devices, serving = space.scenario.cluster.devices, dict[int, Finalist]()
    if "disaggregate" not in space.values or devices < LEAST_POOLED:
        return

    def serves(place: int) -> bool:
        progress.check()
        swept = sweep([on_devices(space, place + LEAST_POOLED)], found.compared.ranked_as, SILENT).finalists
        for one in [one for one in swept if one.steady.variant.pooled][:MOST_PAIRS]:
            own = int(one.scenario.plan.replicas)
            few = fewest(one, own, (own,), progress.check)
            if few is not None:
                serving[place] = few
                return True
        return False

    of_others = min((few.scenario.cluster.devices for _, few in found.sized), default=devices)
    place = first_that(serves, devices + 1 - LEAST_POOLED, max(min(of_others, devices) - LEAST_POOLED, 0))
    if place is not None:
        yield serving[place]


def _add_cheapest(found: Simulated, top: int, progress: Progress) -> None:
    """Add so many of the cheapest layouts, and the cheapest with each choice."""
    _add_first(found, [few for _, few in sorted(found.sized, key=lambda of: of[0])], top, progress)


def _add_first(found: Simulated, finalists: Iterable[Finalist], top: int, progress: Progress) -> None:
    """Simulate the first ``top`` layouts closely, and the first with each choice of which none was."""
    seen = {choice for one in found.trials for choice in _choices(one.finalist)}
    for place, one in enumerate(finalists):
        if place >= top and _choices(one) <= seen:
            continue
        if found.takes(tried(one, check=progress.check), found.trials):
            seen |= _choices(one)


def _replicas(one: Finalist) -> int:
    """How many replicas of a layout of one there may be."""
    return int(one.space.sizes[-1].devices // one.space.scenario.cluster.devices)


def _rent(one: Finalist) -> float:
    """Dollars per hour of its devices."""
    cluster = one.space.scenario.cluster
    return float(cluster.usd_per_hour or 0.0) * cluster.devices
