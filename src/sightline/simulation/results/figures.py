"""The result keys of serving, from what became of each request or from what all add up to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.simulation.load import Floats, Integers
from sightline.simulation.outcome import COMPLETED, REFUSALS, Lifetimes, Outcome, PoolLimits, TierUse
from sightline.simulation.results.iterations import IterationSums, iteration_sums_of
from sightline.simulation.results.times import (
    PERCENTILES,
    Interval,
    Sample,
    Statistics,
    Values,
    of_histogram,
    of_mean,
    statistics,
    times_of,
)
from sightline.simulation.results.totals import Moments, Totals, answered, rate_intervals, replicas_of_run, totals_of

if TYPE_CHECKING:
    import polars

    from sightline.scenario import Slo

TIMES = ("ttft_s", "latency_s", "tpot_s")
"""Times of a request that statistics are taken of."""
SAMPLED = (*TIMES, "queue_s")
"""Times whose batches say how sure their mean is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Summary:
    """What figures are made of: rows are not needed any more."""

    totals: Totals
    samples: Mapping[str, Sample]
    """By key of `SAMPLED`."""
    gap_counts: Integers
    gap_edges_s: Floats
    iteration_sums: tuple[IterationSums, ...]
    """Of each pool of replicas."""
    pools: tuple[PoolLimits, ...]
    moments: Moments
    """The run over time."""
    lifetimes: Lifetimes | None = None
    """Of replicas, where they come and go."""
    tiers: tuple[TierUse, ...] = ()
    """What was loaded from the memories behind the caches."""
    rate_intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Of what is answered per second, where rows say how it changes."""

    @property
    def sums(self) -> IterationSums:
        """The sums over all replicas."""
        return sum(self.iteration_sums, IterationSums())

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


def summary_of(outcome: Outcome, slo: "Slo | None" = None, *, over_time: bool = False) -> Summary:
    """Return what the rows of an outcome come to; ``over_time`` works out its moments too, which no figure needs."""
    found, moments = answered(outcome), Moments()
    if over_time:
        moments.add(outcome.iterations)
    # Batches of requests in order of arrival: rows are, except in closed loops.
    order = np.argsort(found.arrival_s, kind="stable")
    seconds = {key: getattr(found, key)[order] for key in SAMPLED}
    return Summary(
        totals=totals_of(outcome, found, slo),
        samples={key: Values(of[~np.isnan(of)]) for key, of in seconds.items()},
        gap_counts=outcome.gap_counts,
        gap_edges_s=outcome.gap_edges_s,
        iteration_sums=iteration_sums_of(outcome),
        pools=outcome.pools,
        moments=moments,
        lifetimes=outcome.lifetimes,
        tiers=outcome.tiers,
        rate_intervals=rate_intervals(found, slo),
    )


def figures_of(outcome: Outcome, slo: "Slo | None" = None) -> dict[str, Any]:
    """Return the figures of a profile of serving that the rows of an outcome hold."""
    return figures_from(summary_of(outcome, slo), slo)


def figures_from(summary: Summary, slo: "Slo | None" = None) -> dict[str, Any]:
    """Return the figures of a profile of serving: metrics, phases, intervals, warnings.

    Over the whole run, warm-up and end included. Times have the percentile of the objective too. An unknown figure is
    None. Left out: energy and money.
    """
    totals, has_slo, percentiles = summary.totals, slo is not None, percentiles_of(slo)
    times = {key: statistics(summary.samples[key], percentiles) for key in TIMES}
    per_s = 1.0 / totals.duration_s if totals.duration_s > 0 else 0.0
    return {
        **{key: _known(of.values) for key, of in times.items()},
        "itl_s": _known(_between_tokens(summary, percentiles)),
        "output_tokens_per_s": totals.output_tokens * per_s,
        "requests_per_s": totals.completed * per_s,
        "goodput_requests_per_s": totals.good * per_s if has_slo else None,
        "good_share": totals.good / totals.requests if has_slo and totals.requests else None,
        **_counts(totals),
        "queue_s": totals.mean_queue_s,
        "duration_s": totals.duration_s,
        "prefix_hit_rate": totals.cached_tokens / totals.prompt_tokens if totals.prompt_tokens else None,
        **_of_tiers(summary),
        "kv_use": _kv_use(summary.iteration_sums, summary.pools, summary.replicas, totals.duration_s),
        **_replicas(summary),
        **_of_pools(summary),
        "phases": _phases(totals),
        "interval": _intervals(summary, times),
        "warnings": tuple(_too_few(times, percentiles, totals.completed)),
    }


def percentiles_of(slo: "Slo | None") -> Mapping[str, float]:
    """Return the percentiles that results have, as shares of the requests, the smallest first."""
    promised = {} if slo is None else {f"p{slo.percentile:g}": slo.percentile / 100.0}
    return dict(sorted({**promised, **PERCENTILES}.items(), key=lambda one: one[1]))


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

    Tokens that come together, as drafted ones do, count as one.
    """
    counts, edges_s = summary.gap_counts, summary.gap_edges_s
    gaps = int(counts.sum())
    mean = summary.totals.decode_s / gaps if gaps else float("nan")
    return {"mean": mean} | {name: of_histogram(counts, edges_s, share) for name, share in percentiles.items()}


def _replicas(summary: Summary) -> dict[str, Any]:
    """How many replicas there were, and the seconds that they add up to, where they come and go."""
    found = summary.autoscaled
    return {"replicas": found, "replica_s": found["mean"] * summary.totals.duration_s} if found else {}


def _kv_use(
    iteration_sums: Sequence[IterationSums], pools: Sequence[PoolLimits], replicas: Sequence[float], duration_s: float
) -> dict[str, float] | None:
    """Which share of the caches running requests hold, over time; None where nobody saw iterations."""
    held = sum(sums.kv_token_s for sums in iteration_sums)
    capacity = sum(count * limits.kv_capacity_tokens for count, limits in zip(replicas, pools, strict=True))
    if not any(sums.iterations for sums in iteration_sums) or not capacity or duration_s <= 0:
        return None
    shares = [
        sums.most_kv_tokens / limits.kv_capacity_tokens for sums, limits in zip(iteration_sums, pools, strict=True)
    ]
    return {"mean": held / capacity / duration_s, "max": max(shares)}


def _of_tiers(summary: Summary) -> dict[str, Any]:
    """What each tier behind the caches had of the prompts, and how long a request's loads from it take on average."""
    totals = summary.totals
    if not summary.tiers:
        return {}
    found = {
        use.name: {
            "hit_rate": use.tokens / totals.prompt_tokens if totals.prompt_tokens else 0.0,
            "load_s": use.seconds / totals.completed if totals.completed else 0.0,
        }
        for use in summary.tiers
    }
    return {"kv_tiers": found}


def _of_pools(summary: Summary) -> dict[str, Any]:
    """What unlike replicas do, pool by pool, and how long keys and values are on their way between them."""
    totals, duration_s = summary.totals, summary.totals.duration_s
    found: dict[str, Any] = {}
    if len(summary.pools) > 1:
        found["pools"] = {
            limits.name: {
                "replicas": limits.replicas,
                "busy": sums.seconds / duration_s / limits.replicas if duration_s > 0 else 0.0,
                "waiting": sums.waiting_s / sums.seconds if sums.seconds else 0.0,
                "kv_use": _kv_use([sums], [limits], [limits.replicas], duration_s),
            }
            for limits, sums in zip(summary.pools, summary.iteration_sums, strict=True)
        }
    if totals.transfers:
        found["transfer_s"] = totals.transfer_s / totals.transfers
    return found


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
    return {**of_times, **({"queue_s": of_mean(queued)} if queued.count else {}), **summary.rate_intervals}


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
    """Return what became of each request: the load's columns, its times, and its status in words.

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
    moved = outcome.transfers
    between = (
        {}
        if moved is None
        else {"prefill_replica": moved.replica, "prefilled_s": moved.prefilled_s, "ready_s": moved.ready_s}
    )
    words = {COMPLETED: "completed", **REFUSALS}
    return polars.DataFrame(
        {
            "request": np.arange(len(requests)) if numbers is None else numbers,
            "status": [words.get(int(status), FAILED) for status in outcome.status],
            "arrival_s": requests.arrival_s,
            "prompt_tokens": requests.prompt_tokens,
            "output_tokens": requests.output_tokens,
            **{name: np.where(done, seconds, np.nan) for name, seconds in times.items()},
            **{name: getattr(outcome, name) for name in ("cached_tokens", "preemptions", "replica")},
            **between,
            **{name: getattr(requests, name) for name in ("prefix_id", "prefix_tokens", "session_id", "priority")},
            "adapter": requests.adapter,
        }
    ).with_columns(polars.selectors.float().fill_nan(None))
