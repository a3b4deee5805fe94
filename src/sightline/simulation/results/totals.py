"""What a run's requests add up to: sums over them, which add up piece by piece."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from sightline.scenario import ServingScenario
from sightline.simulation.engine.state import Facts
from sightline.simulation.load import Floats, Integers
from sightline.simulation.outcome import (
    COMPLETED,
    NO_ROOM,
    NOT_ADMITTED,
    OVER_BUDGET,
    REFUSALS,
    TOO_LONG,
    Iterations,
    Lifetimes,
    Outcome,
)
from sightline.simulation.results.times import BATCHES, Interval, of_rate, request_times

if TYPE_CHECKING:
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
    )


def good_requests(found: Answered, slo: "Slo") -> int:
    """Return how many requests kept every limit."""
    return int(kept(found, slo).sum())


def kept(found: Answered, slo: "Slo") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which requests kept every limit; a time that an answer of one token does not have keeps its own."""
    good = np.ones(found.ttft_s.size, np.bool_)
    for key in ("ttft_s", "tpot_s", "latency_s"):
        limit = getattr(slo, key)
        if limit is not None:
            # Not `<=`: a NaN breaks no limit.
            good &= ~(getattr(found, key) > limit)
    return good


def meets(good_share: float | None, slo: "Slo") -> bool:
    """Return whether as large a share of all requests kept every limit as the objective asks; of no load it did not."""
    return good_share is not None and good_share >= slo.percentile / 100.0 * (1.0 - ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over requests; times and tokens are those of completed ones."""

    by_status: Counter[int] = field(default_factory=Counter)
    """Requests by what became of them."""
    good: int = 0
    """That kept every limit of the objective."""
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
        sums["last_token_s"] = max(self.last_token_s, other.last_token_s)
        return Totals(**sums)


def totals_of(outcome: Outcome, found: Answered, slo: "Slo | None" = None) -> Totals:
    """Return what the requests of an outcome add up to; ``found`` has the times of those that completed."""
    done = outcome.status == COMPLETED
    queued = found.queue_s[~np.isnan(found.queue_s)]
    return Totals(
        by_status=Counter(outcome.status.tolist()),
        good=0 if slo is None else good_requests(found, slo),
        preemptions=int(outcome.preemptions.sum()),
        prompt_tokens=int(outcome.requests.prompt_tokens[done].sum()),
        cached_tokens=int(outcome.cached_tokens[done].sum()),
        output_tokens=int(found.output_tokens.sum()),
        ttft_s=float(found.ttft_s.sum()),
        decode_s=float(found.decode_s.sum()),
        queue_s=float(queued.sum()),
        queues=queued.size,
        transfer_s=float(np.nansum(found.transfer_s)),
        decode_queue_s=float(np.nansum(found.decode_queue_s)),
        transfers=int((~np.isnan(found.transfer_s)).sum()),
        first_arrival_s=float(outcome.requests.arrival_s.min(initial=np.inf)),
        last_token_s=float(outcome.last_token_s[done].max(initial=-np.inf)),
    )


def rate_intervals(found: Answered, slo: "Slo | None") -> dict[str, Interval]:
    """Return the intervals of requests, tokens and good requests per second; none of a run that takes no time."""
    last_s = found.arrival_s + found.latency_s
    order = np.argsort(last_s, kind="stable")
    batches = min(BATCHES, order.size)
    if not batches:
        return {}
    ends = np.array([part[-1] for part in np.array_split(order, batches)])
    seconds = np.diff(last_s[ends], prepend=found.arrival_s.min())
    if not (seconds > 0).all():
        return {}
    amounts: dict[str, Floats] = {
        "requests_per_s": np.ones(order.size),
        "output_tokens_per_s": found.output_tokens.astype(np.float64),
    }
    if slo is not None:
        amounts["goodput_requests_per_s"] = kept(found, slo).astype(np.float64)
    return {
        key: of_rate(np.array([part.sum() for part in np.array_split(of[order], batches)]), seconds)
        for key, of in amounts.items()
    }


def unserved_warnings(
    refused: Mapping[str, int], completed: int, scenario: ServingScenario, facts: Sequence[Facts]
) -> Iterator[str]:
    """Yield a sentence for each reason of ``refused`` requests, as results name them; ``facts`` are those of the pools.

    What replicas of several pools have room for is told of the smallest.
    """
    asked = sum(refused.values()) + completed
    why = _why(scenario, facts)
    for reason, count in refused.items():
        yield f"{count:,} of {asked:,} requests were rejected: {why[reason]}"


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
            "(plan.tensor_parallel) or fewer bits (plan.quantization)"
        ),
        REFUSALS[NOT_ADMITTED]: (
            f"{engine.name} had {facts[0].max_concurrent:,} in flight, the limit of plan.max_concurrent_requests"
        ),
        REFUSALS[OVER_BUDGET]: (
            f"prompts exceed plan.max_batched_tokens, {budget:,}, and plan.chunked_prefill is false{budget_least}"
        ),
    }


MOMENTS = 400
"""Moments of a run at most; at least half as many, once it has lasted `FIRST_S` times as many."""
FIRST_S = 1e-3
"""Seconds of a moment, to begin with."""
SEEN = ("running", "waiting", "kv_tokens")
"""Columns of iterations that are added up."""


class Moments:
    """What iterations of all replicas hold, second by second, summed over moments of equal length."""

    def __init__(self) -> None:
        """Begin with none."""
        self._moment_s = FIRST_S
        self._sums = {name: np.zeros(MOMENTS) for name in SEEN}
        self.end_s = 0.0
        """When the last iteration ended."""

    def add(self, iterations: Iterations) -> None:
        """Add iterations, each of which holds what it does from its start to its end."""
        if not iterations.start_s.size:
            return
        self.end_s = max(self.end_s, float(iterations.end_s.max()))
        while self.end_s > MOMENTS * self._moment_s:
            self._merge()
        times = np.concatenate([iterations.start_s, iterations.end_s])
        order = np.argsort(times, kind="stable")
        edges = self._moment_s * np.arange(MOMENTS + 1.0)
        for name in SEEN:
            column = getattr(iterations, name)
            level = np.cumsum(np.concatenate([column, -column]).astype(np.float64)[order])
            area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times[order]))])
            self._sums[name] += np.diff(np.interp(edges, times[order], area))

    def _merge(self) -> None:
        """Make moments twice as long."""
        self._moment_s *= 2.0
        half = MOMENTS // 2
        for sums in self._sums.values():
            sums[:half] = sums[0::2] + sums[1::2]
            sums[half:] = 0.0

    @property
    def edges_s(self) -> Floats:
        """Where moments begin, up to the end of the run."""
        count = max(int(np.ceil(self.end_s / self._moment_s - 1e-9)), 1)
        edges: Floats = np.minimum(self._moment_s * np.arange(count + 1.0), self.end_s)
        return edges

    def means(self, name: str) -> Floats:
        """Return the mean of one of `SEEN` over each moment, added up over replicas; 0 while no iteration runs."""
        edges = self.edges_s
        return self._sums[name][: edges.size - 1] / np.maximum(np.diff(edges), 1e-12)


def replica_seconds(of: Lifetimes, begin_s: float, times_s: Floats) -> Floats:
    """Return the seconds of all replicas from the beginning to each of some times; they start and finish within."""
    times = times_s[:, np.newaxis]
    seconds: Floats = (
        np.minimum(times, np.maximum(of.stopped_s, begin_s)) - np.minimum(times, np.maximum(of.started_s, begin_s))
    ).sum(axis=1)
    return seconds


def replicas_of_run(of: Lifetimes, begin_s: float, end_s: float) -> dict[str, float]:
    """Return how many replicas a run had: the mean over its time, the fewest and the most at once."""
    first, last = np.clip(of.started_s, begin_s, end_s), np.clip(of.stopped_s, begin_s, end_s)
    there = last > first
    times = np.unique(np.concatenate([[begin_s], first[there], last[there]]))
    counts = [int(((first <= at) & (at < last) & there).sum()) for at in times if at < end_s]
    seconds = float(replica_seconds(of, begin_s, np.array([end_s]))[0])
    mean = seconds / (end_s - begin_s) if end_s > begin_s else float(max(counts, default=0))
    return {"mean": mean, "min": min(counts, default=0), "max": max(counts, default=0)}
