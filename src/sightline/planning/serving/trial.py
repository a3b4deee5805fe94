"""A plan under its load: the highest rate that keeps the objective, and the fewest replicas that serve it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import NamedTuple

from sightline.content import fields_of
from sightline.errors import InputError
from sightline.planning.clusters import devices_setting, resizer
from sightline.planning.serving.layouts import Finalist, ServingSpace
from sightline.profile import Profile
from sightline.quantities import rounded_up
from sightline.scenario import Cluster, ServingScenario, Slo
from sightline.simulation.capacity import (
    ENOUGH,
    LEAST,
    MOST_REQUESTS,
    TALKS,
    WAITS,
    WITHIN,
    Capacity,
    Tried,
    highest_rate,
    lasting_share,
    longer,
    longer_by,
    users_at,
    with_requests,
)
from sightline.simulation.load import MeanLengths
from sightline.simulation.results.summary import keeps_slo, meets, short_of_rate, worst_share
from sightline.simulation.server import Server, server_of
from sightline.simulation.simulate import profile_of


class Precision(NamedTuple):
    """How closely the highest rate of a layout is found."""

    within: float
    """Relative to it."""
    step: float
    """Between the first two rates."""
    latencies: float
    """Mean latencies that a run lasts, so that a queue that grows shows."""
    requests: tuple[int, int]
    """Fewest and most requests of a load that is drawn."""
    coarser: int = 0
    """Bits by which tables of times are coarser."""


BRIEF = Precision(within=0.1, step=1.5, latencies=5.0, requests=(400, 2_000), coarser=3)
"""Enough to see which layouts are far behind."""
COMPARED = Precision(within=0.02, step=1.1, latencies=10.0, requests=(1_000, 4_000), coarser=3)
"""Enough for the ratio of two layouts that are simulated so, under the same load."""
CLOSE = Precision(within=0.02, step=1.25, latencies=ENOUGH, requests=(2_500, MOST_REQUESTS), coarser=3)
"""Less than what plans are apart by the errors of their times."""
WHOLE = Precision(within=WITHIN, step=1.04, latencies=ENOUGH, requests=(round(WITHIN**-2), MOST_REQUESTS))
"""As closely as `find_capacity` does."""
LONGER_TALKS = 4
"""Times the most requests, that a load of conversations has."""
MORE = 1.04
"""Times a capacity, at which a layout is tried with another limit of sequences."""
MANY_MORE = 64
"""Times the replicas that there may be, of which the fewest that serve a stated load are told."""
STEADY = 1.25
"""Times the sequences that run in the mean: a limit that random arrivals reach now and then."""
LIMIT_STEP = 8
"""Sequences of which limits are multiples."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """A plan that was simulated."""

    finalist: Finalist
    server: Server
    how: Precision
    most_running: int
    """Sequences that ran at a time at the highest rate, of the busiest rank."""
    capacity: Capacity
    """The search for the highest rate."""
    profile: Profile
    """At the stated load; where none is stated at the highest rate, or at the rate that comes nearest."""
    at_capacity: Profile | None
    """At the highest rate; None where no rate keeps the objective."""
    lowest: Profile
    """At the rate at which the most requests keep the limits, its outcome kept where no rate keeps the objective."""
    meets: bool
    """Whether ``profile`` keeps the objective."""

    @property
    def rate(self) -> float:
        """The highest rate that keeps the objective, 0 for none; what is answered at all where no rate breaks it."""
        if self.capacity.unbroken and self.at_capacity is not None:
            return float(self.at_capacity.requests_per_s)
        return self.capacity.rate or 0.0

    def as_stated(self) -> "Trial":
        """Return the plan as one that does not serve the stated load: with what became of that load."""
        scenario = self.finalist.scenario
        profile, slo = profile_of(server_of(scenario), scenario, intervals=False), objective_in(scenario)
        good = worst_share(profile)
        said = short_of_rate(profile) or (
            f"{100 * good:.3g} % of the requests meet the limits with plan.replicas {scenario.plan.replicas}, "
            f"{slo.percentile:g} % required; {MANY_MORE} times the replicas are not enough either"
        )
        stated = Tried(rate=0.0, good=good, late=good, profile=_light(profile))
        failed = Capacity(rate=None, tried=(stated,), sentence=said)
        return replace(self, capacity=failed, profile=_light(profile), at_capacity=None, lowest=profile, meets=False)

    def users(self, think_s: float) -> int:
        """Return how many users send requests at that rate: each waits for the answer, thinks, and sends the next."""
        return 0 if self.at_capacity is None else users_at(self.rate, self.at_capacity, think_s)


def tried(
    finalist: Finalist,
    guess: float = 0.0,
    check: Callable[[], None] = lambda: None,
    how: Precision = CLOSE,
    *,
    least: float = 0.0,
    server: Server | None = None,
    sure: float = inf,
) -> Trial | None:
    """Return what becomes of a plan under its load; None where a replica has no room for a cache.

    Args:
        finalist: The plan.
        guess: The rate that it may serve; 0 means that of its steady loop.
        check: Called before each simulation; it may raise `Cancelled`.
        how: How closely its highest rate is found.
        least: A rate that it has to serve to be of interest; where it does not, none below is looked for.
        server: Its replicas, where they are known as closely already.
        sure: How close the guess is, relative to it.
    """
    scenario, first = finalist.scenario, least or guess or finalist.requests_per_s
    server = server or server_of(scenario, coarser=how.coarser)
    if not server.fits:
        return None

    def run(asked: ServingScenario) -> Profile:
        check()
        return profile_of(server, asked, intervals=False)

    load = _as_long_as(scenario, how, finalist.steady.columns["batch"], finalist.lengths, first)
    step, lowest = min(how.step, 1.0 + 2.0 * sure), 1.0 if least else LEAST
    found = highest_rate(load, run, first, within=how.within, step=step, drawn=(), least=lowest)
    return _trial(finalist, server, found, run(scenario) if has_times(scenario) and how is not BRIEF else None, how)


def capacity_interval(of: Trial) -> tuple[float, float | None] | None:
    """Return the 80 % interval of the highest rate, by those at both ends of the iteration times; None if unknown.

    All are searched in the same shorter runs, whose ratios are what counts.
    """
    paced = [of.server, *(of.server.at_pace(*factors) for factors in of.server.end_factors)]
    same, *ends = (tried(of.finalist, of.rate, how=COMPARED, server=server) for server in paced)
    if same is None or not same.rate or not ends:
        return None
    shares = [1.0, *(end.rate / same.rate for end in ends if end is not None)]
    unbroken = any(end.capacity.unbroken for end in ends if end is not None)
    return of.rate * min(shares), None if unbroken else of.rate * max(shares)


def with_its_limit(of: Trial, check: Callable[[], None], how: Precision) -> Trial:
    """Return a plan with the limit of sequences under which it serves the most, where none is stated."""
    best = of
    for limit in _other_limits(of):
        own, least = of.finalist._replace(max_sequences=limit), (MORE if best is of else 1.0 + how.within) * best.rate
        other = tried(own, least, check, how, least=least)
        if other is not None and other.rate:
            best = other
        elif best is not of:
            break
    return best


def _as_long_as(
    scenario: ServingScenario, how: Precision, in_flight: float, lengths: MeanLengths, rate: float
) -> ServingScenario:
    """The question with as many requests as its highest rate takes to be known; those of a trace stay.

    So many are in flight at a rate near it. Conversations of several turns also go on as in the long run.
    """
    shape = scenario.workload.requests
    if shape is None:
        return scenario
    fewest, most = how.requests
    count = min(max(fewest, how.latencies * in_flight), most)
    count = max(count, min(TALKS * lengths.talking(rate, in_flight / rate if rate else 0.0), LONGER_TALKS * most))
    count = min(max(ceil(count), shape.count if how is not BRIEF else 0), MOST_REQUESTS)
    return with_requests(scenario, count)


def _other_limits(of: Trial) -> Iterator[int]:
    """Yield limits of the sequences that run at a time, where none is stated, under which a plan may serve more.

    Twice the engine's own where all of these run; else from a little above what it has in the mean up to what it has at
    most, so that bursts wait in the queue in place of slowing down everybody.
    """
    # Without a limit on the time in it any queue would do.
    counts_waiting = bool(objective_in(of.finalist.scenario).limits.keys() & WAITS)
    if of.at_capacity is None or of.finalist.space.scenario.plan.max_sequences or not counts_waiting:
        return
    facts = of.server.pools[-1].facts
    limit = STEADY * of.rate * float(of.at_capacity.latency_s["mean"]) / facts.replicas
    if of.most_running >= facts.max_sequences:
        yield 2 * facts.max_sequences
        return
    while (fewer := int(rounded_up(limit / LIMIT_STEP)) * LIMIT_STEP) < of.most_running:
        yield fewer
        limit = STEADY * fewer


def _trial(finalist: Finalist, server: Server, found: Capacity, stated: Profile | None, how: Precision) -> Trial:
    """A plan with what was found, and its load at the stated times."""
    best = found.tried[-1].profile if found.unbroken else found.profile
    nearest = max(found.tried, key=lambda one: one.lasting).profile
    profile = _light(stated or best or nearest).replace(capacity_requests_per_s=found.rate)
    # Outcomes have a row for every request and iteration of every rate.
    tried_alone = tuple(replace(one, profile=_light(one.profile)) for one in found.tried)
    return Trial(
        finalist=finalist,
        server=server,
        how=how,
        most_running=0 if best is None or best.outcome is None else int(best.outcome.work.sums["most_running"].max()),
        capacity=replace(found, tried=tried_alone),
        profile=profile,
        at_capacity=None if best is None else _light(best),
        lowest=nearest if best is None else _light(nearest),
        meets=keeps_slo(profile),
    )


def _light(profile: Profile) -> Profile:
    return profile.replace(outcome=None)


def objective_in(scenario: ServingScenario) -> Slo:
    """Return what users are promised; raise `InputError` where nothing is."""
    slo = scenario.workload.slo
    if slo is None:
        raise InputError(
            "workload.slo is missing; needed for a serving search, such as {ttft: 1 s, tpot: 50 ms, percentile: 90}"
        )
    return slo


def has_times(scenario: ServingScenario) -> bool:
    """Whether a load says when its requests arrive, or how many clients send them."""
    return scenario.workload.arrival.process != "all_at_once"


def is_of_stated_load(spaces: Sequence[ServingSpace], objective: str) -> bool:
    """Return whether the least rent is asked for, of a load that says when its requests come, not of pools alone."""
    apart = any(space.values.get("disaggregate") == (True,) for space in spaces)
    return objective == "cost" and not apart and all(has_times(space.scenario) for space in spaces)


def of_one_replica(spaces: Sequence[ServingSpace]) -> list[ServingSpace]:
    """Return spaces of one replica each, of every size that fits in the largest cluster of a kind of devices."""
    return [one for space in largest(spaces) for one in _by_size(space)]


def largest(spaces: Sequence[ServingSpace]) -> list[ServingSpace]:
    """Return the space of the largest cluster of each kind of devices, and of each other choice."""
    found: dict[tuple[str, str], ServingSpace] = {}
    for space in spaces:
        others = {key: value for key, value in space.options.items() if key.partition(".")[0] != "cluster"}
        kind = str(fields_of(space.scenario.cluster.device)), str(others)
        known = found.get(kind)
        if known is None or known.scenario.cluster.devices < space.scenario.cluster.devices:
            found[kind] = space
    return [*found.values()]


def on_devices(space: ServingSpace, count: int) -> ServingSpace:
    """Return a space on so many of its devices."""
    whole = space.scenario.cluster
    scenario = replace(space.scenario, cluster=resizer(whole)(count))
    return replace(space, scenario=scenario, clusters=(), options={**space.options, **devices_setting(whole)})


def _by_size(space: ServingSpace) -> Iterator[ServingSpace]:
    """The space of one replica, for each number of devices that it may take."""
    whole = space.scenario.cluster
    counts = space.values.get("replicas", (int(space.scenario.plan.replicas),)) or (1,)
    for size in _sizes(whole, whole.devices // min(counts)):
        of = on_devices(space, size)
        scenario = replace(of.scenario, plan=replace(of.scenario.plan, replicas=1))
        # Pools are of several sizes, and searched by themselves.
        alone = {"disaggregate": (False,)} if "disaggregate" in space.values else {}
        values = {**space.values, "replicas": (1,), **alone}
        yield replace(of, scenario=scenario, values=values, clusters=(of.scenario.cluster, whole))


def _sizes(cluster: Cluster, most: int) -> list[int]:
    """Numbers of devices of a replica: parts of a node that fill it or double, and whole nodes."""
    node = int(cluster.per_node)
    within = {size for size in range(1, node + 1) if node % size == 0 or size & (size - 1) == 0}
    return [size for size in sorted(within | set(range(node, most + 1, node))) if size <= most]


def allowed_counts(stated: Sequence[ServingSpace]) -> tuple[int, ...] | None:
    """Return the numbers of replicas that the question allows; None for any."""
    space = stated[0]
    found = space.values.get("replicas", (int(space.scenario.plan.replicas),))
    return None if found is None else tuple(sorted(found))


def fewest(
    one: Finalist, most: int, counts: Sequence[int] | None = None, check: Callable[[], None] = lambda: None
) -> Finalist | None:
    """Return a layout of one replica with the fewest replicas that keep the objective at the stated load.

    Args:
        one: The layout.
        most: Replicas that there may be.
        counts: Those that are allowed; None for any.
        check: Called before each simulation; it may raise `Cancelled`.
    """
    server, slo = server_of(one.scenario), objective_in(one.scenario)
    if not server.fits:
        return None
    allowed = [count for count in (range(1, most + 1) if counts is None else counts) if count <= most]
    load = one.scenario

    def run(count: int) -> Profile:
        check()
        return profile_of(server, replace(load, plan=replace(load.plan, replicas=count)), intervals=False)

    def keeps(place: int) -> bool:
        nonlocal load
        profile = run(allowed[place])
        if not keeps_slo(profile):
            return False
        enough = longer(longer_by(load, one.lengths, profile), WITHIN**-2)
        if enough is not load:
            # In a short run a queue that goes on growing is short too.
            load = enough
            profile = run(allowed[place])
        return meets(lasting_share(profile, slo), slo)

    guess = ceil(one.lengths.requests_per_s / one.requests_per_s) if one.requests_per_s else 1
    first = sum(count < guess for count in allowed)
    place = first_that(keeps, len(allowed), min(first, len(allowed) - 1))
    return None if place is None else one.replicated(allowed[place])


def first_that(keeps: Callable[[int], bool], count: int, guess: int) -> int | None:
    """Return the first place from which on all keep something, of so many, beginning at a guess; None for none."""
    low, high, place, step = -1, count, guess, 1
    while high - low > 1:
        if keeps(place):
            high = place
        else:
            low = place
        if high == count:
            place, step = min(low + step, count - 1), 2 * step
        elif low < 0:
            place, step = max(high - step, 0), 2 * step
        else:
            place = (low + high) // 2
    return None if high == count else high
