"""The highest rate of arrivals at which a deployment keeps its service-level objective."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.progress import SILENT, Progress
from sightline.scenario import Arrival, ServingScenario, Slo
from sightline.simulation.load import MeanLengths
from sightline.simulation.outcome import COMPLETED
from sightline.simulation.results.summary import (
    answered,
    kept,
    least_share,
    meets,
    of_classes,
    times_within,
    worst_share,
)

WITHIN = 0.01
"""How close the rate is found, relative to it."""
LEAST = 1.0 / 256.0
"""Of the first rate that is tried: where an objective is not met even so, nobody meets it."""
MOST = 2.0**30
"""Times the first rate: where an objective is met even so, no load breaks it."""
STEP = 2.0
"""Factor between the first two rates that are tried; it is squared from step to step."""
KEPT = ("requests_per_s", "output_tokens_per_s", "goodput_requests_per_s", "ttft_s", "tpot_s", "latency_s")
"""Figures of a point of the curve."""
DRAWN = (0.25, 0.5, 0.75, 0.9)
"""Shares of the highest rate that are tried as well, for the curve."""
ENOUGH = 20.0
"""Mean latencies, and times of the limit on waiting, that a run lasts at least before its queue tells that it grows."""
MOST_REQUESTS = 20_000
"""Of a load that is made longer, so that a search stays a matter of seconds."""
TALKS = 3.0
"""Mean conversations that a run lasts at least, so that as many go on in its last third as in the long run."""
LATE = 2.0 / 3.0
"""Share of the requests, until the last conversation begins, after which the others of these have to keep the objective
by themselves: a growing queue is theirs."""
LASTING = ("poisson", "gamma", "constant")
"""Processes whose rate lasts."""
OPEN = (*LASTING, "trace")
"""Processes that have a rate."""
WAITS = {"ttft_s", "latency_s"}
"""Limits that a queue counts in."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tried:
    """The result of simulating a load at one rate."""

    rate: float
    """Arrivals per second."""
    good: float
    """Share of all requests that kept every limit."""
    late: float
    """The same of the last third."""
    profile: Profile

    @property
    def lasting(self) -> float:
        """The smaller of both, of which the objective is asked: a queue that grows is that of the last requests."""
        return min(self.good, self.late)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capacity:
    """The result of a search for the highest rate."""

    rate: float | None
    """Arrivals per second; None where no rate meets the objective, or none breaks it."""
    tried: tuple[Tried, ...]
    """By rate."""
    sentence: str
    unbroken: bool = False
    """Whether the load is too short for any rate to break the objective."""
    interval: tuple[float, float | None] | None = None
    """80 %, of what the iteration times leave open; None where it was not searched for."""

    @property
    def profile(self) -> Profile | None:
        """The run at the highest rate."""
        return next((tried.profile for tried in self.tried if tried.rate == self.rate), None)

    def users(self, think_s: float) -> int | None:
        """Return how many users who think so long between requests it serves; None where no rate was found."""
        return None if self.rate is None or self.profile is None else users_at(self.rate, self.profile, think_s)

    def points(self) -> list[dict[str, Any]]:
        """What was found at each rate, under result keys."""
        return [
            {"rate": point.rate, "good_share": point.good} | {key: getattr(point.profile, key) for key in KEPT}
            for point in self.tried
        ]


def users_at(rate: float, profile: Profile, think_s: float) -> int:
    """Return how many users a rate corresponds to; each waits for its answer, thinks, and sends the next request.

    By Little's law: the rate times the seconds from one request of a user to the next.
    """
    return int(rate * (profile.latency_s["mean"] + think_s))


def at_rate(scenario: ServingScenario, rate: float) -> ServingScenario:
    """Return the same load at another rate; with the same random numbers, so that only the times of arrival change.

    A closed loop and a burst have no rate: their requests arrive as a Poisson process. A ramp is left out.
    """
    stated = scenario.workload.arrival
    process = stated.process if stated.process in OPEN else "poisson"
    arrival: Arrival = replace(stated, process=process, rate=rate, ramp=(), concurrency=None, ramp_up_s=0.0)
    return replace(scenario, workload=replace(scenario.workload, arrival=arrival))


def searched_as(scenario: ServingScenario) -> str:
    """Return a sentence on which stated arrivals the search ignores; empty if none."""
    stated = scenario.workload.arrival
    if stated.process not in OPEN:
        return f"workload.arrival.process {stated.process} has no rate; searching with Poisson arrivals"
    if stated.concurrency:
        return "workload.arrival.concurrency is ignored; each simulation sends requests when they arrive"
    return "workload.arrival.ramp is ignored; each simulation uses one constant rate" if stated.ramp else ""


def with_requests(scenario: ServingScenario, count: int) -> ServingScenario:
    """Return the scenario with so many requests; traces are unchanged."""
    shape = scenario.workload.requests
    if shape is None:
        return scenario
    return replace(scenario, workload=replace(scenario.workload, requests=replace(shape, count=count)))


def longer(scenario: ServingScenario, needed: float) -> ServingScenario:
    """Return the scenario with at least ``needed`` requests, up to a limit; traces are unchanged."""
    shape, count = scenario.workload.requests, min(ceil(needed), MOST_REQUESTS)
    return scenario if shape is None or count <= shape.count else with_requests(scenario, count)


def enough_requests(lengths: MeanLengths, rate: float, latency_s: float) -> float:
    """Return the requests at a rate with which a run reaches a steady state, with as many users as in the long run."""
    return max(ENOUGH * rate * latency_s, TALKS * lengths.talking(rate, latency_s))


def longer_by(scenario: ServingScenario, lengths: MeanLengths, profile: Profile) -> ServingScenario:
    """Return the scenario with enough requests at the rate and the latency of a profile; traces are unchanged."""
    rate = scenario.workload.arrival.rate or float(profile.requests_per_s)
    return longer(scenario, enough_requests(lengths, rate, profile.latency_s["mean"] or 0.0))


def long_enough(scenario: ServingScenario, rate: float) -> ServingScenario:
    """Return the scenario with enough requests to measure a rate near this one to `WITHIN`.

    So far the rate of as many arrivals is off by chance: the square root of their number. And a queue that grows by
    that much faster than it is answered reaches the limit on waiting.
    """
    slo = scenario.workload.slo
    return longer(scenario, max(WITHIN**-2, 0.0 if slo is None else rate * _waiting_s(slo) / WITHIN))


def _waiting_s(slo: Slo) -> float:
    """The longest that an objective lets a request of any class wait; 0 where it does not limit that."""
    return max(min((limit for key, limit in each.items() if key in WAITS), default=0.0) for each in slo.of_classes)


def highest_rate(
    scenario: ServingScenario,
    simulate: Callable[[ServingScenario], Profile],
    first: float,
    progress: Progress = SILENT,
    *,
    within: float = WITHIN,
    step: float = STEP,
    drawn: Sequence[float] = DRAWN,
    least: float = LEAST,
) -> Capacity:
    """Search the highest rate that meets the workload's objective, by bisection.

    Args:
        scenario: The question; its own rate does not matter.
        simulate: Answers one load.
        first: A rate to begin with, of the size of the answer.
        progress: Told of every rate that was tried.
        within: How close the rate is found, relative to it.
        step: The factor by which the second rate is above or below the first.
        drawn: Shares of the highest rate that are tried as well.
        least: Share of the first rate below which none is tried.

    Raises:
        InputError: The workload has no objective.
    """
    slo = scenario.workload.slo
    if slo is None:
        raise InputError("--capacity requires workload.slo, such as {ttft: 1 s, percentile: 90}")
    tried: dict[float, Tried] = {}
    progress.begin(None, "searching for the highest rate")

    def keeps(rate: float) -> bool:
        progress.check()
        profile = simulate(at_rate(scenario, rate))
        good = worst_share(profile)
        tried[rate] = Tried(rate=rate, good=good, late=_late_share(profile, slo), profile=profile)
        progress.advance()
        return meets(tried[rate].lasting, slo)

    low, high = _bracket(keeps, first, step, least)
    unbroken = low == high
    while low is not None and not unbroken and high / low > 1.0 + within:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if keeps(middle) else (low, middle)
    for share in drawn if low is not None and not unbroken else ():
        keeps(share * (low or 0.0))
    rows = tuple(tried[rate] for rate in sorted(tried))
    if unbroken:
        return Capacity(rate=None, tried=rows, sentence=_unbroken(rows[-1]), unbroken=True)
    if low is None and least >= 1.0:
        return Capacity(rate=None, tried=rows, sentence=f"fewer than {first:.3g} requests per second meet the SLO")
    return Capacity(rate=low, tried=rows, sentence=_in_words(tried.get(low or 0.0), rows, slo))


def _bracket(keeps: Callable[[float], bool], first: float, step: float, least: float) -> tuple[float | None, float]:
    """A rate that meets the objective and one that does not, in steps that grow; None where no rate meets it.

    Where no rate breaks it, both are the highest that is tried.
    """
    if keeps(first):
        low, high = first, min(first * step, first * MOST)
        while keeps(high):
            if high >= first * MOST:
                return high, high
            step = step**2
            low, high = high, min(high * step, first * MOST)
        return low, high
    high = first
    while high > first * least:
        low = max(high / step, first * least)
        if keeps(low):
            return low, high
        high, step = low, step**2
    return None, high


def lasting_share(profile: Profile, slo: Slo) -> float:
    """Return the share of requests within every limit: of all or of the last third, whichever is smaller.

    Of a queue that grows the first requests stand in little of it.
    """
    return min(worst_share(profile), _late_share(profile, slo))


def _growing(profile: Profile) -> str:
    """The requests of which ever more wait, so that in a longer run they keep no limit on waiting; empty for none.

    Of those that come after a third of the run, a share is added to the queue until the last arrives; when no others
    come any more it empties, and how long these waited tells nothing. As many arrivals are off by chance as the square
    root of their number. Without a lasting rate nobody knows it.
    """
    workload, outcome = profile.scenario.workload, profile.outcome
    if outcome is None or workload.slo is None or workload.arrival.process not in LASTING or workload.arrival.ramp:
        return ""
    times = answered(outcome)
    for name, _, of in of_classes(times, workload.slo):
        arrived_s, ttft_s = times.arrival_s[of], times.ttft_s[of]
        if not arrived_s.size:
            continue
        # Nobody has less than the shortest time, without any queue.
        left_s, arrived_s = np.sort(arrived_s + ttft_s - ttft_s.min()), np.sort(arrived_s)
        ends_s = arrived_s[[int(LATE / 2 * arrived_s.size), -1]]
        came, left = (np.diff(np.searchsorted(s, ends_s, "right"))[0] for s in (arrived_s, left_s))
        if came - left > max(WITHIN, arrived_s.size**-0.5) * came:
            return f"requests of {name}" if name else "requests"
    return ""


def _late_share(profile: Profile, slo: Slo) -> float:
    """The share of the last requests to arrive that kept every limit; 0 where no request is known or queues grow.

    Those that arrive when no conversation begins any more are left out: fewer and fewer users are at work then.
    """
    outcome = profile.outcome
    if outcome is None or not outcome.status.size or (_waiting_s(slo) and _growing(profile)):
        return 0.0
    good = np.zeros(outcome.status.size, np.bool_)
    good[outcome.status == COMPLETED] = kept(answered(outcome), slo)
    order = np.argsort(outcome.requests.arrival_s, kind="stable")
    session = outcome.requests.session_id[order]
    begins = np.where(session < 0, np.arange(good.size), np.unique(session, return_index=True)[1].max())
    order = order[: int(begins.max()) + 1]
    late = order[int(LATE * order.size) :]
    return least_share(good[late], outcome.requests.slo_class[late])


def _in_words(best_rate: Tried | None, tried: tuple[Tried, ...], slo: Slo) -> str:
    """What was found, and of nothing the best that was reached."""
    if best_rate is not None:
        beyond = next(
            (_growing(one.profile) for one in tried if one.rate > best_rate.rate and meets(one.good, slo)), ""
        )
        above = f"; above, {beyond} wait ever longer" if beyond else ""
        sentence = f"up to {best_rate.rate:.4g} requests per second meet the SLO{above}"
        lasts_s, latency_s = best_rate.profile.duration_s, best_rate.profile.latency_s["mean"]
        lasting = best_rate.profile.scenario.workload.arrival.process in LASTING
        limit_s = 0.0 if lasting else _waiting_s(slo)
        wait, what = max((latency_s, "a request's latency"), (limit_s, "the latency limit"))
        if lasts_s >= ENOUGH * wait:
            return sentence
        return (
            f"{sentence} in a run of {lasts_s:.3g} s, {lasts_s / wait:.3g} times {what}; simulate more requests "
            "(workload.requests.count, or a longer trace) to see whether queues keep growing"
        )
    best = max(tried, key=lambda point: point.lasting)
    if not best.profile.completed:
        reasons = ", ".join(f"{count:,} are {reason}" for reason, count in best.profile.refused.items())
        return f"no rate meets the SLO: no request is answered, {reasons}"
    of = "the requests" if best.good <= best.late else "the last third of the requests"
    return (
        f"no rate meets the SLO: at {best.rate:.3g} requests per second, {100 * best.lasting:.3g} % of {of} meet "
        f"its limits, {slo.percentile:g} % required{_missed(best.profile, slo)}"
    )


def _unbroken(fastest: Tried) -> str:
    """That a load is too short for the question."""
    requests = fastest.profile.completed or 0
    return (
        f"no rate misses the SLO, even when all {requests:,} requests arrive at once; to find the highest rate, "
        "use more requests (workload.requests.count, or a longer trace) or tighter limits"
    )


def _missed(profile: Profile, slo: Slo) -> str:
    """The limits that too few requests keep, and what they would have to be at that rate."""
    if profile.outcome is None:
        return ""
    within = times_within(answered(profile.outcome), slo)
    return "".join(
        f"; {name}{': ' if name else ''}{slo.percentile:g} % have {metric_of(key).label} up to {took:.3g} s, "
        f"limit {limits[key]:.3g} s"
        for (name, times), limits in zip(within.items(), slo.of_classes, strict=True)
        for key, took in times.items()
        if took > limits[key]
    )
