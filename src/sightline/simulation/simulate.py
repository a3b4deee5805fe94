"""Simulates a serving scenario and returns its profile or its highest rate."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import ceil, exp, hypot, inf, log, log10
from typing import Any, TypeAlias

import numpy as np

from sightline.content import flatten
from sightline.prediction.generation.batch_profile import Knowledge
from sightline.prediction.generation.engine_constants import borrowed_releases
from sightline.profile import BOUNDS, Profile
from sightline.progress import SILENT, Progress
from sightline.quantities import SECONDS, format_quantity, percent
from sightline.scenario import Arrival, ServingScenario, Slo
from sightline.simulation.autoscaling import usual_target
from sightline.simulation.capacity import (
    TALKS,
    Capacity,
    enough_requests,
    highest_rate,
    long_enough,
    longer_by,
    searched_as,
    with_requests,
)
from sightline.simulation.load import MeanLengths, load_of
from sightline.simulation.outcome import NO_ROOM, REFUSALS, Outcome
from sightline.simulation.results.iterations import busy_by_bound, energy_j, in_a_sentence, pressure
from sightline.simulation.results.summary import (
    KEPT_UP,
    Summary,
    figures_from,
    percentiles_of,
    summary_of,
    unserved_warnings,
)
from sightline.simulation.results.times import Interval, error_of_mean, student, too_few
from sightline.simulation.serve import MANY_REQUESTS, Rows, serve_streamed
from sightline.simulation.server import Load, Server, server_of

DRAWS = 8
"""Further loads: as many as tell the spread of figures to a fourth of it."""
MOST_REQUESTS = 8_000
"""Of a load that is drawn again; a longer one says by itself how much its parts differ."""
STRIDE = 1_000_003
"""Between seeds, so that seeds near the stated one share no load with it."""


def drawn_again(scenario: ServingScenario) -> Iterator[ServingScenario]:
    """Yield the scenario with other seeds; none for a trace or a long load."""
    shape = scenario.workload.requests
    if shape is not None and shape.count <= MOST_REQUESTS:
        yield from other_seeds(scenario)


def other_seeds(scenario: ServingScenario) -> Iterator[ServingScenario]:
    """Yield the scenario with other seeds."""
    workload = scenario.workload
    for draw in range(1, DRAWS + 1):
        yield replace(scenario, workload=replace(workload, seed=workload.seed + draw * STRIDE))


def intervals_of_draws(
    figures: Mapping[str, Any], others: Sequence[Mapping[str, Any]], slo: Slo | None = None
) -> dict[str, Interval]:
    """Return 80 % intervals of figures from repeated draws of the same load.

    The spread is that of logarithms. A percentile beyond which no request lies has no upper end.
    """
    if not others:
        return {}
    open_ended = too_few(figures["completed"], percentiles_of(slo))
    intervals: dict[str, Interval] = {}
    drawn = [flatten(other) for other in others]
    for key, value in flatten(figures).items():
        values = [value, *(other.get(key) for other in drawn)]
        if not all(isinstance(each, float) and each > 0 for each in values):
            continue
        factor = float(np.exp(student(len(others)) * np.log(values).std(ddof=1)))
        intervals[key] = value / factor, None if key.rpartition(".")[2] in open_ended else value * factor
    return intervals


SPREAD_KEYS = (
    *("ttft_s", "tpot_s", "itl_s", "latency_s", "queue_s"),
    *("output_tokens_per_s", "requests_per_s", "goodput_requests_per_s"),
)
"""Figures that follow the iteration times' own uncertainty."""
NOTICED = 0.05
"""Share of the mean latency that waiting takes at least for anybody to notice it."""
BEGINNING = 10_000
"""Requests of the beginning of a load that stands for all of it at the ends of the iteration times, at least."""
LATENCIES = 100.0
"""Mean latencies that it lasts, at least."""
SETTLED = 0.1
"""How far off its mean latency is at most: by chance, from that of its first quarter, and from that of all of the load.
Else its queue may grow."""
GROWING = 2.0
"""Mean wait of all requests over that of the first quarter where waits grow: about 4 in a long overload, else 1."""
END_STEP = 1.1
"""Factor between the first two rates that are tried at the ends of the iteration times, near the capacity."""
ROUGHLY = 0.25
"""How close the capacity is known from which the length of the run follows."""
HELD_BACK = 0.9
"""Share of the places for requests in flight that are taken from which on most requests wait for one."""
FRONT_END_FULL = 0.9
"""Share of the time from which on the front end limits a server."""


Again: TypeAlias = Callable[[ServingScenario, Server], Summary]
"""Returns what the load of a scenario comes to on a server, which may be at another pace."""


def simulate(
    scenario: ServingScenario,
    *,
    load: Load | None = None,
    intervals: bool = True,
    streamed: bool | None = None,
    rows: Rows | None = None,
    progress: Progress = SILENT,
    known: Knowledge | None = None,
) -> Profile:
    """Simulate an engine under a load and return the profile.

    ``profile.outcome`` has a row for each request and each iteration, unless the load is streamed. A plan that does not
    fit is answered without times. Intervals hold what the length of the run and the iteration times leave open.

    Args:
        scenario: A scenario whose task is serve.
        load: Requests instead of those of the workload: parts in order of arrival.
        intervals: Whether to simulate more: other draws of a short load, and both ends of the iteration times.
        streamed: Whether to keep no rows, in the same memory for any number of requests; by default, if the workload
            states more than a million.
        rows: Of a streamed load: takes the numbers and rows of requests that ended, piece by piece.
        progress: Counts requests, of each run anew.
        known: What was measured of one's own server.

    Raises:
        InputError: The load cannot be read, or the plan has what no simulation follows.
    """
    parts = None if load is None else list(load)
    server = server_of(scenario, known, parts)
    streamed = is_long(scenario) if streamed is None else streamed
    return profile_of(
        server, scenario, load=parts, intervals=intervals, streamed=streamed, rows=rows, progress=progress
    )


def is_long(scenario: ServingScenario) -> bool:
    """Return whether a workload states so many requests that none of their rows are kept."""
    workload = scenario.workload
    return workload.trace is None and workload.requests is not None and workload.requests.count > MANY_REQUESTS


def profile_of(
    server: Server,
    scenario: ServingScenario,
    *,
    load: Load | None = None,
    intervals: bool = True,
    streamed: bool = False,
    rows: Rows | None = None,
    progress: Progress = SILENT,
) -> Profile:
    """Return the profile of a load on a server that is ready, as `simulate` does."""
    if not server.fits:
        return _unfit(server, scenario, sum(map(len, load_of(scenario) if load is None else load)))
    remarks: list[str] = []
    slo = scenario.workload.slo

    def served(question: ServingScenario, paced: Server = server, rows: Rows | None = None) -> Outcome | Summary:
        if not streamed:
            return paced.serve(question, load, remarks.append, progress)
        parts, shape = load_of(question, on_remark=remarks.append) if load is None else load, question.workload.requests
        progress.begin(None if shape is None else shape.count, "simulating requests")
        return serve_streamed(parts, paced.deployment(question), slo, rows, progress)

    def summed_up(found: Outcome | Summary) -> Summary:
        return summary_of(found, slo) if isinstance(found, Outcome) else found

    def again(question: ServingScenario, paced: Server) -> Summary:
        return summed_up(served(question, paced))

    found = served(scenario, rows=rows)
    repeats = again if intervals and not progress.cancelled else None
    profile = _profile(server, scenario, summed_up(found), repeats, remarks, is_drawn=load is None)
    if isinstance(found, Outcome):
        return profile.replace(outcome=found)
    stopped = (f"stopped after {found.totals.requests:,} requests",) if progress.cancelled else ()
    return profile.replace(summary=found, warnings=(*profile.warnings, *stopped))


def _profile(
    server: Server,
    scenario: ServingScenario,
    summary: Summary,
    again: Again | None,
    remarks: list[str],
    *,
    is_drawn: bool,
) -> Profile:
    """The profile of a load, whose intervals come from simulating it again; ``remarks`` are those on its trace."""
    slo, totals = scenario.workload.slo, summary.totals
    bounded = again is not None and totals.requests > 0
    figures = figures_from(summary, slo, intervals=bounded)
    lasts_s = totals.last_arrival_s - totals.first_arrival_s
    if scenario.workload.arrival.is_capped and lasts_s > 0.0:
        figures["sent_per_s"] = (totals.requests - 1) / lasts_s
    growing: list[str] = []
    if again is not None and bounded:
        if is_drawn:
            draws = [figures_from(again(question, server), slo, intervals=False) for question in drawn_again(scenario)]
            figures["interval"] |= intervals_of_draws(figures, draws, slo)
            growing = [*_too_much(server, scenario, figures, again)]
        beginning = _beginning(scenario, figures) if is_drawn else None
        figures["interval"] = _joined_intervals(server, _at_ends(server, scenario, beginning, figures, again), figures)
    if is_drawn:
        remarks += growing or _too_short(scenario, figures, server.lengths)
    warnings = (*_warnings(scenario), *dict.fromkeys(remarks), *figures.pop("warnings"))
    warnings += (*_load_warnings(server, scenario, figures),)
    effort = cache(partial(_effort, server, summary, figures))
    later: dict[str, Any] = {name: lambda _, name=name: effort()[name] for name in EFFORT}
    return Profile(**_about(server, scenario), **figures, **later, warnings=warnings)


def _at_ends(
    server: Server,
    scenario: ServingScenario,
    beginning: ServingScenario | None,
    figures: Mapping[str, Any],
    again: Again,
) -> list[Mapping[str, Any]]:
    """The figures of the same load at both ends of the iteration times; none where these are not known.

    Where its ``beginning`` settles they are scaled from that, which is simulated at both ends and as predicted: all
    three have the same requests, so that most of what is by chance in them is not in their ratios.
    """
    slo, ends = scenario.workload.slo, [server.at_pace(*factors) for factors in server.end_factors]
    if ends and beginning is not None:
        values = flatten({key: figures[key] for key in SPREAD_KEYS})
        runs: list[Summary] = []
        # The slow end first, which is the last to settle.
        while len(runs) < 3 and (not runs or _settles(runs[-1], scenario)):
            runs.append(again(beginning, (ends[1], ends[0], server)[len(runs)]))
        slow, *others = (flatten(figures_from(run, slo, intervals=False)) for run in runs)
        if len(others) == 2 and _settles(runs[-1], scenario):
            fast, first = others
            same = abs(values["latency_s.mean"] / first["latency_s.mean"] - 1.0) < SETTLED
            if same and all(first[key] for key, value in values.items() if value):
                known = {key: value / first[key] for key, value in values.items() if value}
                return [{key: ratio * (end[key] or 0.0) for key, ratio in known.items()} for end in (fast, slow)]
    return [flatten(figures_from(again(scenario, paced), slo, intervals=False)) for paced in ends]


def _beginning(scenario: ServingScenario, figures: Mapping[str, Any]) -> ServingScenario | None:
    """The scenario with the beginning of its load alone; None where the load is not much longer or changes."""
    shape, arrival = scenario.workload.requests, scenario.workload.arrival
    if shape is None or arrival.process == "all_at_once" or arrival.ramp or scenario.plan.autoscale is not None:
        return None
    running = figures["requests_per_s"] * (figures["latency_s"]["mean"] or 0.0)
    count = max(BEGINNING, ceil(LATENCIES * running))
    if 2 * count > shape.count:
        return None
    return with_requests(scenario, count)


def _settles(run: Summary, scenario: ServingScenario) -> bool:
    """Whether requests are answered as they come, and their latencies neither grow nor leave their mean unknown."""
    means, arriving = run.samples["latency_s"].means(), scenario.workload.arrival.rate or 0.0
    if not means.size or run.totals.completed < KEPT_UP * arriving * run.totals.duration_s:
        return False
    known = error_of_mean(means).half_width < SETTLED * means.mean()
    return bool(known and means.mean() < (1.0 + SETTLED) * means[: max(means.size // 4, 1)].mean())


def _too_much(server: Server, scenario: ServingScenario, figures: Mapping[str, Any], again: Again) -> Iterator[str]:
    """Yield that requests come faster than they are answered: the first quarter of them waits much less."""
    shape, arrival = scenario.workload.requests, scenario.workload.arrival
    answered, waits_s = figures["requests_per_s"], figures["queue_s"] or 0.0
    if shape is None or arrival.rate is None or answered > KEPT_UP * arrival.rate or scenario.workload.sessions:
        return
    first = again(with_requests(scenario, ceil(shape.count / 4)), server)
    before_s = figures_from(first, scenario.workload.slo, intervals=False)["queue_s"] or 0.0
    if waits_s > GROWING * before_s and waits_s > NOTICED * figures["latency_s"]["mean"]:
        yield (
            f"{arrival.rate:g} requests/s arrive but only {answered:.3g} are answered, so waits grow as long as the "
            "load lasts; --capacity finds the highest rate, and plan --objective cost the fewest devices"
        )


def _too_short(scenario: ServingScenario, figures: Mapping[str, Any], lengths: MeanLengths) -> Iterator[str]:
    """Yield that a run is too short for what a server that is always at work comes to."""
    shape, arrival = scenario.workload.requests, scenario.workload.arrival
    lasts_s, latency_s = figures["duration_s"], figures["latency_s"]["mean"]
    if shape is None or arrival.process == "all_at_once" or arrival.ramp or not latency_s:
        return
    talk_s, answered = lengths.talking(1.0, latency_s), shape.count / lasts_s
    rate = arrival.rate or answered if talk_s else answered
    enough = enough_requests(lengths, rate, latency_s)
    if shape.count < enough:
        # Up to the next number of two digits and zeros.
        step = 10 ** max(int(log10(enough)) - 1, 0)
        what = f"a conversation ({format_quantity(talk_s, SECONDS)})" if talk_s else "a request's latency"
        reached = f", and {answered:.3g} of {rate:.3g} requests/s come on average" if talk_s and arrival.rate else ""
        yield (
            f"the run lasts only {lasts_s / (talk_s or latency_s):.3g} times {what}, so the empty start affects "
            f"the results{reached}; use at least {ceil(enough / step) * step:,} requests "
            "(workload.requests.count)"
        )


def _load_warnings(server: Server, scenario: ServingScenario, figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield that an objective is held against a burst, what was assumed of the replicas, and what they refused."""
    if scenario.workload.slo is not None and scenario.workload.arrival.process == "all_at_once":
        yield (
            "all requests arrive at once; set their rate with --rate (workload.arrival), or use --capacity to find the "
            "highest rate that meets workload.slo"
        )
    arrival, in_flight = scenario.workload.arrival, figures["requests_per_s"] * (figures["latency_s"]["mean"] or 0.0)
    if figures.get("sent_per_s") and in_flight > HELD_BACK * (arrival.concurrency or 0):
        places = f"workload.arrival.concurrency {arrival.concurrency} holds requests back"
        yield (
            f"{places}: {in_flight:.3g} are in flight on average, {figures['sent_per_s']:.3g} requests/s are sent, and "
            "times count from then"
        )
    for tier in dict.fromkeys(tier.name for of in server.pools for tier in of.pool.tiers if tier.blocks == 0):
        yield f"plan.kv_tiers: {tier} has no effect, as it has no room for a block of plan.kv_block_tokens"
    scale = server.scenario.plan.autoscale
    if scale is not None and scale.target is None:
        target = usual_target(server.pools[0].facts.max_sequences)
        yield (
            f"plan.autoscale.target is not set; using {target:g} requests in flight per replica, the Knative default"
        )
    facts = [of.facts for of in server.pools]
    yield from unserved_warnings(figures["refused"], figures["completed"], server.scenario, facts)


def find_capacity(
    scenario: ServingScenario,
    progress: Progress = SILENT,
    known: Knowledge | None = None,
    *,
    intervals: bool = False,
) -> Capacity:
    """Return the highest rate of arrivals that meets the workload's objective, and every rate that was tried.

    A load that is drawn has as many requests as the answer needs; a trace has those that it has. With ``intervals`` the
    rate is searched at the slow and at the fast end of the iteration times as well.

    Raises:
        InputError: There is no objective, or what `simulate` refuses.
    """
    server = server_of(scenario, known)
    if not server.fits:
        return Capacity(rate=None, tried=(), sentence="no rate meets the SLO: the model does not fit in memory")
    run = partial(profile_of, server, intervals=False)
    burst = Arrival(think_time_s=scenario.workload.arrival.think_time_s)

    def at_once(question: ServingScenario) -> float:
        profile = run(replace(question, workload=replace(question.workload, arrival=burst)))
        return max(float(profile.requests_per_s), 1e-6)

    fastest = at_once(scenario)
    longer = long_enough(scenario, fastest)
    first = fastest if longer is scenario else at_once(longer)
    # How long conversations last is known once their requests' latency is.
    if server.lengths.turns > 1.0:
        roughly = highest_rate(longer, run, first, progress, within=ROUGHLY, drawn=())
        if roughly.rate and roughly.profile is not None:
            longer, first = longer_by(longer, server.lengths, roughly.profile), roughly.rate
    capacity = highest_rate(longer, run, first=first, progress=progress)
    rate, profile, shape = capacity.rate, capacity.profile, longer.workload.requests
    said = [capacity.sentence, searched_as(scenario)]
    if longer is not scenario and shape is not None:
        said.append(f"simulated {shape.count:,} requests to see whether queues grow")
    latency_s = 0.0 if profile is None else profile.latency_s["mean"]
    enough = server.lengths.talking(TALKS * (rate or 0.0), latency_s)
    if shape is not None and shape.count < enough:
        talk = format_quantity(server.lengths.talking(1.0, latency_s), SECONDS)
        said.append(f"a conversation lasts {talk}, so that the long run has more users at work")
        said.append(f"use at least {ceil(enough):,} requests (workload.requests.count)")
    capacity = replace(capacity, sentence="; ".join(filter(None, said)))
    if rate is None or profile is None or not intervals:
        return capacity
    ends = [
        highest_rate(longer, partial(profile_of, paced, intervals=False), rate, progress, step=END_STEP, drawn=())
        for paced in (server.at_pace(*factors) for factors in server.end_factors)
    ]
    # 0 where no rate meets the objective, no upper end where none breaks it.
    rates = [rate, *(inf if end.unbroken else end.rate or 0.0 for end in ends)]
    return replace(capacity, interval=(min(rates), None if max(rates) == inf else max(rates))) if ends else capacity


def _about(server: Server, scenario: ServingScenario) -> dict[str, Any]:
    """What the profile says whatever becomes of the load."""
    scheduler = {"scheduler": "estimated"} if scenario.plan.engine.serving.assumed else {}
    return {
        "scenario": scenario,
        "source": "predicted",
        "memory_bytes": server.fullest.room.memory_bytes,
        "usable_bytes": server.fullest.usable_bytes,
        "fits": server.fits,
        "evidence": {"framework": server.pools[0].evidence, **scheduler},
    }


def _warnings(scenario: ServingScenario) -> Iterator[str]:
    """Yield those of the scenario, and what of the engine's scheduler is assumed."""
    yield from scenario.warnings
    engine = scenario.plan.engine
    yield from borrowed_releases(engine.name, engine.version)
    if engine.serving.assumed:
        which = ", ".join(engine.serving.assumed)
        whence = f" ({engine.serving.source})" if engine.serving.source else ""
        yield f"the scheduler of {engine.name} is assumed, not taken from its source code: {which}{whence}"


def _unfit(server: Server, scenario: ServingScenario, requests: int) -> Profile:
    """A profile without times, which refuses all requests and says why."""
    fullest = server.fullest
    needed, usable = float(fullest.room.memory_bytes["total"]) / 2**30, fullest.usable_bytes / 2**30
    where = f"of {fullest.plan.name} " if fullest.plan.name else ""
    blocks = scenario.plan.kv_cache_blocks
    cache = "without KV cache" if blocks is None else f"with plan.kv_cache_blocks {blocks:,}"
    sentence = (
        f"needs {needed:.1f} GiB {where}{cache}, has {usable:.1f} GiB, so no request can be served; use "
        "more devices (plan.tensor_parallel) or quantize the weights (plan.quantization)"
    )
    return Profile(
        **_about(server, scenario),
        completed=0,
        failed=0,
        refused={REFUSALS[NO_ROOM]: requests},
        advice=(sentence,),
        warnings=(*_warnings(scenario),),
    )


EFFORT = ("limits", "limited_by", "energy_j")
"""What `_effort` returns, worked out when it is first asked for."""


def _effort(server: Server, summary: Summary, figures: Mapping[str, Any]) -> dict[str, Any]:
    """What bounds the devices, what limits the load, and the energy."""
    duration_s, latency_s = figures["duration_s"], figures["latency_s"]["mean"]
    busy = [
        busy_by_bound(pool.worker, pool.constants, sums)
        for pool, sums in zip(server.pools, summary.iteration_sums, strict=True)
    ]
    there_s = figures["replica_s"] / server.scenario.plan.replicas if "replica_s" in figures else duration_s
    joules = [energy_j(of.worker, *each, there_s) for of, each in zip(server.pools, busy, strict=True)]
    by_bound = {bound: sum(seconds[bound] for seconds, _ in busy) for bound in BOUNDS}
    whole = sum(by_bound.values())
    limits = {bound: s / whole * latency_s for bound, s in by_bound.items()} if whole and latency_s else {}
    bottleneck = max(limits, key=lambda bound: limits[bound]) if limits else None
    # A request waits before its prompt, and between pools for room at a replica that decodes.
    waited_s = (figures["queue_s"] or 0.0) + figures["phases"].get("decode_queue", 0.0)
    return {
        "limits": limits,
        "limited_by": _limited_by_front_end(server, summary, duration_s)
        or _limited_by(summary, duration_s, bottleneck, waited_s / (latency_s or 1.0)),
        "energy_j": sum(joules) if whole else None,
    }


def _limited_by_front_end(server: Server, summary: Summary, duration_s: float) -> str:
    """Say that the front ends have no time left for more requests; empty where they have, or where nothing ran."""
    facts, totals = server.pools[0].facts, summary.totals
    front_s = facts.request_s * totals.completed + facts.request_token_s * totals.prompt_tokens
    front_s += facts.chunk_s * totals.output_tokens
    busy = front_s / (duration_s * summary.replicas[0]) if duration_s else 0.0
    return (
        f"the front end (HTTP server, tokenizer) is busy {percent(busy)} of the time" if busy > FRONT_END_FULL else ""
    )


def _limited_by(summary: Summary, duration_s: float, bottleneck: str | None, queued: float) -> str:
    """What limits the replicas; of unlike ones those with the most work for the time."""
    pools = [
        (pressure(sums, duration_s, count), of.name)
        for of, sums, count in zip(summary.pools, summary.iteration_sums, summary.replicas, strict=True)
    ]
    busiest, name = max(pools, key=lambda pool: -1.0 if pool[0] is None else pool[0].busy)
    sentence = in_a_sentence(busiest, bottleneck, queued)
    return f"{name}: {sentence}" if name and sentence else sentence


def _joined_intervals(
    server: Server, at_ends: Sequence[Mapping[str, Any]], figures: Mapping[str, Any]
) -> dict[str, Interval]:
    """Intervals that hold what the run's length and the iteration times leave open, as independent errors.

    ``at_ends`` are `_at_ends`.
    """
    if not at_ends:
        return {}
    values = flatten({key: figures[key] for key in SPREAD_KEYS})
    return {
        key: joined_interval(
            value,
            figures["interval"].get(key, (value, value)),
            (at_ends[0][key], at_ends[1][key]),
            *server.ends_beyond_iterations(key.split(".")[0], value),
        )
        for key, value in values.items()
        if value and at_ends[0][key] and at_ends[1][key]
    }


def joined_interval(value: float, sampling: Interval, *errors: tuple[float, float]) -> Interval:
    """Return the interval of independent errors, added in quadrature in the logarithm.

    A low end of 0 of the sampling stays one, as an upper end that is not known does.
    """
    low, high = sampling
    downs = [log(value / min(*ends, value)) for ends in errors]
    down = hypot(log(value / low) if low > 0 else inf, *downs)
    if high is None:
        return value * exp(-down), None
    ups = [log(max(*ends, value) / value) for ends in errors]
    return value * exp(-down), value * exp(hypot(log(high / value), *ups))
