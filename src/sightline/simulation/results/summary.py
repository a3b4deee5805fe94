"""Result keys of serving, from the rows of an outcome or from sums over them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.scenario import ServingScenario
from sightline.simulation.engine.records import Work, new_work
from sightline.simulation.engine.state import Facts
from sightline.simulation.load import Floats, Integers
from sightline.simulation.outcome import (
    COMPLETED,
    NO_ROOM,
    NOT_ADMITTED,
    OVER_BUDGET,
    QUEUE_FULL,
    REFUSALS,
    TIMED_OUT,
    TOO_LONG,
    WAITED,
    Lifetimes,
    Outcome,
    PoolLimits,
    TierUse,
)
from sightline.simulation.results.iterations import Moments, replicas_of_run
from sightline.simulation.results.times import (
    BATCHES,
    PERCENTILES,
    Interval,
    Sample,
    Statistics,
    Values,
    of_histogram,
    of_mean,
    of_rate,
    request_times,
    statistics,
    times_of,
)

if TYPE_CHECKING:
    import polars

    from sightline.profile import Profile
    from sightline.scenario import Slo


ROUNDING = 1e-12
"""Of a share that is compared with a percentile."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """The completed requests of an outcome: seconds of each, in the order of the requests."""

    arrival_s: Floats
    ttft_s: Floats
    latency_s: Floats
    queue_s: Floats
    """NaN where nobody saw the queue, as outside of an engine that is measured."""
    transfer_s: Floats
    """Between replicas, of requests that are decoded by another than processed their prompt; NaN of the others."""
    decode_queue_s: Floats
    """From then to the first token; NaN of the others."""
    decode_s: Floats
    """From the first token to the last."""
    tpot_s: Floats
    """NaN for answers of one token."""
    output_tokens: Integers
    slo_class: Integers


def answered(outcome: Outcome) -> Answered:
    """Return the times of the completed requests."""
    done = outcome.status == COMPLETED
    arrival_s, output = outcome.requests.arrival_s[done], outcome.requests.output_tokens[done]
    first_s, last_s = outcome.first_token_s[done], outcome.last_token_s[done]
    none = np.full(output.size, np.nan)
    moved = outcome.transfers
    return Answered(
        arrival_s=arrival_s,
        **request_times(arrival_s, first_s, last_s, output),
        queue_s=outcome.scheduled_s[done] - arrival_s,
        transfer_s=none if moved is None else (moved.ready_s - moved.prefilled_s)[done],
        decode_queue_s=none if moved is None else first_s - moved.ready_s[done],
        decode_s=last_s - first_s,
        output_tokens=output,
        slo_class=outcome.requests.slo_class[done],
    )


def kept(times: Answered, slo: "Slo") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which requests are within every limit; an answer of one token has no TPOT and meets that limit."""
    good = np.ones(times.ttft_s.size, np.bool_)
    for _, limits, own in of_classes(times, slo):
        for key, limit in limits.items():
            # Not `<=`: a NaN breaks no limit.
            good[own] &= ~(getattr(times, key)[own] > limit)
    return good


def of_classes(times: Answered, slo: "Slo") -> "Iterator[tuple[str, dict[str, float], Any]]":
    """Yield each class of the objective: its name, limits and requests; without classes all, under no name."""
    names = [each.name for each in slo.classes] or [""]
    for number, (name, limits) in enumerate(zip(names, slo.of_classes, strict=True)):
        yield name, limits, times.slo_class == number if slo.classes else slice(None)


def times_within(times: Answered, slo: "Slo") -> dict[str, dict[str, float]]:
    """Return by class of the objective its percentile of each time that it limits, in seconds, where known."""
    return {
        name: {
            key: float(np.nanpercentile(seconds, slo.percentile))
            for key in limits
            if not np.isnan(seconds := getattr(times, key)[own]).all()
        }
        for name, limits, own in of_classes(times, slo)
    }


def least_share(good: "np.ndarray[tuple[int], np.dtype[np.bool_]]", slo_class: Integers) -> float:
    """Return the share of good requests in the class with the least; 0 without requests."""
    total = np.bincount(slo_class)
    return float((np.bincount(slo_class, good)[total > 0] / total[total > 0]).min(initial=1.0)) if good.size else 0.0


def worst_share(profile: "Profile") -> float:
    """Return the share of good requests, of several classes in the one with the least, of which an objective asks."""
    return float(min((profile.good_shares or {"": profile.good_share or 0.0}).values()))


def meets(good_share: float | None, slo: "Slo") -> bool:
    """Return whether the share of good requests meets the objective; False without requests."""
    return good_share is not None and good_share >= slo.percentile / 100.0 * (1.0 - ROUNDING)


KEPT_UP = 0.97
"""Share of a rate that is sent, answered or served at least if it is kept up with."""


def short_of_rate(profile: "Profile") -> str:
    """Return why a load is not served at the rate that it states, whatever the times of its requests; empty if it is.

    Of few requests those sent per second are off by chance, as the square root of their number.
    """
    arrival, sent, capacity = profile.scenario.workload.arrival, profile.sent_per_s, profile.capacity_requests_per_s
    requests = (profile.completed or 0) + (profile.failed or 0) + sum((profile.refused or {}).values())
    if arrival.rate is None or not requests:
        return ""
    if sent is not None and sent < min(KEPT_UP, 1.0 - 3.0 * requests**-0.5) * arrival.rate:
        return (
            f"only {sent:.3g} of {arrival.rate:g} requests/s are sent, because workload.arrival.concurrency "
            f"{arrival.concurrency} holds the others back"
        )
    if capacity is not None and capacity < KEPT_UP * arrival.rate:
        return f"{arrival.rate:g} requests/s exceed the capacity, {capacity:.3g}"
    return ""


def keeps_slo(profile: "Profile") -> bool:
    """Return whether a load is served at its rate and as many requests as its objective asks keep their limits.

    True without an objective.
    """
    slo = profile.scenario.workload.slo
    return slo is None or (meets(worst_share(profile), slo) and not short_of_rate(profile))


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over requests; times and tokens are those of completed ones."""

    by_status: Counter[int] = field(default_factory=Counter)
    """Requests by what became of them."""
    good: int = 0
    """That kept every limit of the objective."""
    by_class: Counter[int] = field(default_factory=Counter)
    """Requests of each class of the objective."""
    good_by_class: Counter[int] = field(default_factory=Counter)
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    ttft_s: float = 0.0
    decode_s: float = 0.0
    queue_s: float = 0.0
    queues: int = 0
    """Requests whose queue somebody saw."""
    transfer_s: float = 0.0
    decode_queue_s: float = 0.0
    transfers: int = 0
    """Requests that another replica decodes than processed their prompt."""
    first_arrival_s: float = np.inf
    """Of all requests."""
    last_arrival_s: float = -np.inf
    last_token_s: float = -np.inf

    @property
    def requests(self) -> int:
        """All of them."""
        return self.by_status.total()

    @property
    def completed(self) -> int:
        """Those that were answered."""
        return self.by_status[COMPLETED]

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last token; 0 where nothing completed."""
        return self.last_token_s - self.first_arrival_s if self.completed else 0.0

    @property
    def mean_queue_s(self) -> float | None:
        """The mean of those that somebody saw."""
        return self.queue_s / self.queues if self.queues else None

    def __add__(self, other: "Totals") -> "Totals":
        """The sums of both."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Totals)}
        sums["first_arrival_s"] = min(self.first_arrival_s, other.first_arrival_s)
        sums |= {name: max(getattr(self, name), getattr(other, name)) for name in ("last_arrival_s", "last_token_s")}
        return Totals(**sums)


SUMMED = ("ttft_s", "decode_s", "queue_s", "transfer_s", "decode_queue_s")
"""Times of completed requests that are added up; those that nobody saw are NaN."""


def totals_of(outcome: Outcome, times: Answered, slo: "Slo | None" = None) -> Totals:
    """Return the sums over the requests of an outcome; ``times`` has the times of those that completed."""
    done = outcome.status == COMPLETED
    good = np.zeros(times.ttft_s.size, np.bool_) if slo is None else kept(times, slo)
    return Totals(
        by_status=Counter(outcome.status.tolist()),
        good=int(good.sum()),
        by_class=_counted(outcome.requests.slo_class),
        good_by_class=_counted(times.slo_class[good]),
        preemptions=int(outcome.preemptions.sum()),
        prompt_tokens=int(outcome.requests.prompt_tokens[done].sum()),
        cached_tokens=int(outcome.cached_tokens[done].sum()),
        output_tokens=int(times.output_tokens.sum()),
        **{name: float(np.nansum(getattr(times, name))) for name in SUMMED},
        queues=int((~np.isnan(times.queue_s)).sum()),
        transfers=int((~np.isnan(times.transfer_s)).sum()),
        first_arrival_s=float(outcome.requests.arrival_s.min(initial=np.inf)),
        last_arrival_s=float(outcome.requests.arrival_s.max(initial=-np.inf)),
        last_token_s=float(outcome.last_token_s[done].max(initial=-np.inf)),
    )


def _counted(slo_class: Integers) -> Counter[int]:
    return Counter(dict(enumerate(np.bincount(slo_class).tolist())))


def rate_intervals(times: Answered, slo: "Slo | None") -> dict[str, Interval]:
    """Return the intervals of requests, tokens and good requests per second; none of a run that takes no time."""
    last_s = times.arrival_s + times.latency_s
    order = np.argsort(last_s, kind="stable")
    batches = min(BATCHES, order.size)
    if not batches:
        return {}
    ends = np.array([part[-1] for part in np.array_split(order, batches)])
    seconds = np.diff(last_s[ends], prepend=times.arrival_s.min())
    if not (seconds > 0).all():
        return {}
    amounts: dict[str, Floats] = {
        "requests_per_s": np.ones(order.size),
        "output_tokens_per_s": times.output_tokens.astype(np.float64),
    }
    if slo is not None:
        amounts["goodput_requests_per_s"] = kept(times, slo).astype(np.float64)
    return {
        key: of_rate(np.array([part.sum() for part in np.array_split(of[order], batches)]), seconds)
        for key, of in amounts.items()
    }


def unserved_warnings(
    refused: Mapping[str, int], completed: int, scenario: ServingScenario, facts: Sequence[Facts]
) -> Iterator[str]:
    """Yield one warning per reason for which requests were refused; ``facts`` are those of the pools.

    What replicas of several pools have room for is told of the smallest.
    """
    requests = sum(refused.values()) + completed
    limits = _why(scenario, facts)
    for reason, count in refused.items():
        what = reason if reason == REFUSALS[TIMED_OUT] else "were rejected"
        yield f"{count:,} of {requests:,} requests {what}: {limits[reason]}"


def _why(scenario: ServingScenario, facts: Sequence[Facts]) -> Mapping[str, str]:
    """What refuses requests, with its limit and its key, by reason."""
    name, engine = scenario.model.name, scenario.plan.engine
    context = scenario.model.max_positions
    budget = min(of.token_budget // of.stages for of in facts)
    room = min(of.blocks * of.block_tokens for of in facts)
    budget_least = (
        f"; {engine.name} requires at least the context, {context:,}"
        if engine.serving.policy == "vllm" and budget < context
        else ""
    )
    return {
        REFUSALS[TOO_LONG]: f"prompt and answer exceed the context of {name}, {context:,} tokens",
        REFUSALS[NO_ROOM]: (
            f"they exceed the KV cache of a replica, {room:,} tokens; use more devices per replica "
            "(plan.tensor_parallel) or quantize the weights (plan.quantization)"
        ),
        REFUSALS[NOT_ADMITTED]: (
            f"{engine.name} had {facts[0].max_concurrent:,} in flight, the limit of plan.max_concurrent_requests"
        ),
        REFUSALS[OVER_BUDGET]: (
            f"prompts exceed plan.max_batched_tokens, {budget:,}, and plan.chunked_prefill is false{budget_least}"
        ),
        REFUSALS[TIMED_OUT]: f"clients gave up after workload.timeout, {scenario.workload.timeout_s or 0.0:g} s",
        REFUSALS[QUEUE_FULL]: f"{facts[0].max_queued:,} were waiting, the limit of plan.max_queued_requests",
        REFUSALS[WAITED]: f"they waited for plan.queue_timeout, {facts[0].queue_s:g} s",
    }


TIMES = ("ttft_s", "latency_s", "tpot_s")
"""Times of a request that statistics are taken of."""
SAMPLED = (*TIMES, "queue_s")
"""Times whose batches say how sure their mean is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """Everything that result figures are computed from, without the rows."""

    totals: Totals
    samples: Mapping[str, Sample]
    """By key of `SAMPLED`."""
    gap_counts: Integers
    gap_edges_s: Floats
    pools: tuple[PoolLimits, ...]
    work: Work | None
    """What iterations come to; None where nobody saw any."""
    lifetimes: Lifetimes | None = None
    """Of replicas, where they come and go."""
    tiers: tuple[TierUse, ...] = ()
    """What was loaded from the memories behind the caches."""
    rate_intervals: Callable[[], Mapping[str, Interval]] = dict
    """Those of what is answered per second, where rows say how it changes."""
    class_times_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """`times_within` by the name of the class, where rows say it."""

    @property
    def iteration_sums(self) -> Any:
        """The sums over the iterations of each pool of replicas, of `WORK`."""
        return (self.work or new_work(len(self.pools))).sums

    @property
    def moments(self) -> Moments:
        """The run over time."""
        return Moments(self.work)

    @property
    def replicas(self) -> tuple[float, ...]:
        """How many replicas of each pool there are, on average over the run."""
        if self.lifetimes is None:
            return tuple(float(of.replicas) for of in self.pools)
        return (self.autoscaled["mean"],)

    @property
    def autoscaled(self) -> dict[str, float]:
        """Replicas where they come and go: mean over the run, the fewest and the most; empty where they do not."""
        if self.lifetimes is None or not self.totals.completed:
            return {}
        return replicas_of_run(self.lifetimes, self.totals.first_arrival_s, self.totals.last_token_s)


def summary_of(outcome: Outcome, slo: "Slo | None" = None) -> Summary:
    """Return the summary of an outcome."""
    times = answered(outcome)
    # Batches of requests in order of arrival: rows are, except in closed loops.
    order = np.argsort(times.arrival_s, kind="stable")
    seconds = {key: getattr(times, key)[order] for key in SAMPLED}
    return Summary(
        totals=totals_of(outcome, times, slo),
        samples={key: Values(of[~np.isnan(of)]) for key, of in seconds.items()},
        gap_counts=outcome.gap_counts,
        gap_edges_s=outcome.gap_edges_s,
        pools=outcome.pools,
        work=outcome.work,
        lifetimes=outcome.lifetimes,
        tiers=outcome.tiers,
        rate_intervals=partial(rate_intervals, times, slo),
        class_times_s={} if slo is None or not slo.classes else times_within(times, slo),
    )


def figures_of(outcome: Outcome, slo: "Slo | None" = None) -> dict[str, Any]:
    """Return the result figures of an outcome."""
    return figures_from(summary_of(outcome, slo), slo)


def figures_from(summary: Summary, slo: "Slo | None" = None, *, intervals: bool = True) -> dict[str, Any]:
    """Return the result figures of serving: metrics, phases, intervals if wanted, warnings.

    Over the whole run, warm-up and end included. Times have the percentile of the objective too. An unknown figure is
    None. Left out: energy and money.
    """
    totals, has_slo, percentiles = summary.totals, slo is not None, percentiles_of(slo)
    times = {key: statistics(summary.samples[key], percentiles) for key in TIMES}
    per_s, there = 1.0 / totals.duration_s if totals.duration_s > 0 else 0.0, summary.autoscaled
    return {
        **{key: _known(of.values) for key, of in times.items()},
        "itl_s": _known(_between_tokens(summary, percentiles)),
        "output_tokens_per_s": totals.output_tokens * per_s,
        "requests_per_s": totals.completed * per_s,
        "goodput_requests_per_s": totals.good * per_s if has_slo else None,
        "good_share": totals.good / totals.requests if has_slo and totals.requests else None,
        **_of_classes(totals, slo),
        **({"class_times_s": summary.class_times_s} if summary.class_times_s else {}),
        **_counts(totals),
        "queue_s": totals.mean_queue_s,
        "duration_s": totals.duration_s,
        "prefix_hit_rate": totals.cached_tokens / totals.prompt_tokens if totals.prompt_tokens else None,
        **_of_tiers(summary),
        "kv_use": _kv_use(summary.iteration_sums, summary.pools, summary.replicas, totals.duration_s),
        **({"replicas": there, "replica_s": there["mean"] * totals.duration_s} if there else {}),
        **_of_pools(summary),
        "phases": _phases(totals),
        "interval": _intervals(summary, times) if intervals else {},
        "warnings": tuple(_too_few(times, percentiles, totals.completed)),
    }


def percentiles_of(slo: "Slo | None") -> Mapping[str, float]:
    """Return the percentiles that results have, as shares of the requests, the smallest first."""
    promised = {} if slo is None else {f"p{slo.percentile:g}": slo.percentile / 100.0}
    return dict(sorted({**promised, **PERCENTILES}.items(), key=lambda item: item[1]))


def _of_classes(totals: Totals, slo: "Slo | None") -> dict[str, Any]:
    """The share of good requests in each class that has any."""
    classes = () if slo is None else slo.classes
    shares = {
        each.name: totals.good_by_class[i] / count for i, each in enumerate(classes) if (count := totals.by_class[i])
    }
    return {"good_shares": shares} if shares else {}


def _counts(totals: Totals) -> dict[str, Any]:
    """How many requests ended how; a status that is neither completion nor refusal is a failure."""
    refused = {reason: totals.by_status[status] for status, reason in REFUSALS.items()}
    return {
        "completed": totals.completed,
        "failed": totals.requests - totals.completed - sum(refused.values()),
        "refused": {reason: count for reason, count in refused.items() if count},
        "preemptions": totals.preemptions,
    }


def _between_tokens(summary: Summary, percentiles: Mapping[str, float]) -> dict[str, float]:
    """Mean and percentiles of all times between two tokens; the mean is exact, percentiles are to a bin.

    Tokens that come together, as drafted ones do, count as one. Where clients gave up, with tokens or without, the mean
    is to a bin too.
    """
    counts, edges_s = summary.gap_counts, summary.gap_edges_s
    gaps = int(counts.sum())
    mean = summary.totals.decode_s / gaps if gaps else float("nan")
    if gaps and summary.totals.by_status[TIMED_OUT]:
        mean = float(counts @ (edges_s[:-1] + edges_s[1:]) / 2.0 / gaps)
    return {"mean": mean} | {name: of_histogram(counts, edges_s, share) for name, share in percentiles.items()}


def _kv_use(
    sums: Any, pools: Sequence[PoolLimits], replicas: Sequence[float], duration_s: float
) -> dict[str, float] | None:
    """Which share of the caches running requests hold, over time; None where nobody saw iterations."""
    capacities = [limits.kv_capacity_tokens for limits in pools]
    capacity = sum(map(mul, replicas, capacities))
    if not sums["iterations"].any() or not capacity or duration_s <= 0:
        return None
    most = max((sums["most_kv_tokens"].max(axis=1) / capacities).tolist())
    return {"mean": float(sums["kv_token_s"].sum()) / capacity / duration_s, "max": most}


def _of_tiers(summary: Summary) -> dict[str, Any]:
    """What each tier behind the caches had of the prompts, and how long a request's loads from it take on average."""
    totals = summary.totals
    if not summary.tiers:
        return {}
    prompt_tokens, completed = max(totals.prompt_tokens, 1), max(totals.completed, 1)
    uses = {use.name: (use.tokens / prompt_tokens, use.seconds / completed) for use in summary.tiers}
    return {"kv_tiers": {name: {"hit_rate": rate, "load_s": load_s} for name, (rate, load_s) in uses.items()}}


def _of_pools(summary: Summary) -> dict[str, Any]:
    """What unlike replicas do, pool by pool, and how long keys and values are on their way between them."""
    totals, duration_s = summary.totals, summary.totals.duration_s
    figures: dict[str, Any] = {}
    if len(summary.pools) > 1:
        figures["pools"] = {
            limits.name: {
                "replicas": limits.replicas,
                "busy": seconds / duration_s / limits.replicas if duration_s > 0 else 0.0,
                "waiting": float(sums["waiting_s"].sum()) / seconds if seconds else 0.0,
                "kv_use": _kv_use(sums[np.newaxis], [limits], [limits.replicas], duration_s),
            }
            for limits, sums in zip(summary.pools, summary.iteration_sums, strict=True)
            for seconds in [float(sums["seconds"].sum())]
        }
    if totals.transfers:
        figures["transfer_s"] = totals.transfer_s / totals.transfers
    return figures


def _phases(totals: Totals) -> dict[str, float]:
    """Seconds of the mean latency: waiting, up to the first token, and after it; without a seen queue the two alone.

    Where other replicas decode than process prompts, what lies between both is apart.
    """
    if not totals.completed:
        return {}
    queue_s = totals.mean_queue_s
    moved = {"transfer": totals.transfer_s / totals.completed, "decode_queue": totals.decode_queue_s / totals.completed}
    prefill_s = totals.ttft_s / totals.completed - (queue_s or 0.0) - sum(moved.values())
    waited = {} if queue_s is None else {"queue": queue_s}
    between = moved if totals.transfers else {}
    return {**waited, "prefill": prefill_s, **between, "decode": totals.decode_s / totals.completed}


def _intervals(summary: Summary, times: Mapping[str, Statistics]) -> dict[str, Interval]:
    of_times = {f"{key}.{name}": ends for key, of in times.items() for name, ends in of.intervals.items()}
    queued = summary.samples["queue_s"]
    return {**of_times, **({"queue_s": of_mean(queued)} if queued.count else {}), **summary.rate_intervals()}


def _too_few(times: Mapping[str, Statistics], percentiles: Mapping[str, float], completed: int) -> Iterator[str]:
    """Yield which percentile stands for less than one request."""
    few = times["latency_s"].too_few
    if few:
        needed = round(1.0 / (1.0 - percentiles[few[-1]]))
        yield f"{completed:,} completed requests are too few for {few[-1]}, which needs {needed:,}"


def _known(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if np.isnan(value) else value for name, value in values.items()}


FAILED = "failed"


def request_table(outcome: Outcome, numbers: Integers | None = None) -> "polars.DataFrame":
    """Return a table with one row per request: the load's columns, times, and status.

    Times are seconds; those that a request does not have are null. ``numbers`` are those of the requests in their load,
    where the outcome is a piece of it. Where other replicas decode than process prompts, the latter, and when keys and
    values were sent and came, are columns too.
    """
    import polars

    requests = outcome.requests
    done = outcome.status == COMPLETED
    times = {
        "scheduled_s": outcome.scheduled_s,
        "first_token_s": outcome.first_token_s,
        "last_token_s": outcome.last_token_s,
        "queue_s": outcome.scheduled_s - requests.arrival_s,
        **times_of(outcome),
    }
    moved, between = outcome.transfers, {}
    if moved is not None:
        between = {"prefill_replica": moved.replica, "prefilled_s": moved.prefilled_s, "ready_s": moved.ready_s}
    words = {COMPLETED: "completed", **REFUSALS}
    return polars.DataFrame(
        {
            "request": np.arange(len(requests)) if numbers is None else numbers,
            "status": [words.get(int(status), FAILED) for status in outcome.status],
            **{name: getattr(requests, name) for name in ("arrival_s", "prompt_tokens", "output_tokens")},
            **{name: np.where(done, seconds, np.nan) for name, seconds in times.items()},
            **{name: getattr(outcome, name) for name in ("cached_tokens", "preemptions", "replica")},
            **between,
            **{name: getattr(requests, name) for name in ("prefix_id", "prefix_tokens", "session_id")},
            **{name: getattr(requests, name) for name in ("priority", "adapter")},
            **({"slo_class": requests.slo_class} if requests.slo_class.any() else {}),
        }
    ).with_columns(polars.selectors.float().fill_nan(None))
