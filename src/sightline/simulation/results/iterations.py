"""Where iterations spend their time, what bounds the devices, and how a run develops over time."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sightline.cost.power import watts_of
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.replica import Worker, iteration_of, saved_starts_s
from sightline.profile import BOUNDS
from sightline.program import Batch, Collective, decoding, prompts
from sightline.quantities import Number, percent
from sightline.scenario import GenerationPlan
from sightline.simulation.engine.records import END, MOMENT_S, Work, new_work
from sightline.simulation.load import Floats
from sightline.simulation.outcome import Flags, Iterations, Lifetimes, Outcome
from sightline.simulation.times import in_loop

PREFILL, DECODE, MIXED = "prefill", "decode", "prefill and decode"
HOST = "host"


def kinds_of(course: Iterations) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    """Return the kind of each iteration: prefill, decode, or both."""
    has_prompts, decodes = course.prompt_tokens > 0, course.decodes > 0
    return np.where(has_prompts & decodes, MIXED, np.where(has_prompts, PREFILL, DECODE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an iteration's time."""

    part: str
    """``PREFILL``, ``DECODE``, or ``HOST``: what the device waits for."""
    module: str
    name: str
    """Of communication its operator, else the module."""
    share: float
    """Of the iteration's seconds."""
    is_communication: bool = False


def iteration_parts(
    worker: Worker,
    constants: InferenceConstants,
    outcome: Outcome,
    chosen: Flags,
) -> list[Piece]:
    """Return the parts of the mean of the chosen iterations, in order; their shares sum to 1.

    Prompts and decoding sequences of an iteration run through most kernels together, whose time is split by their new
    tokens; each has its own attention. Left out: prompts behind a cached context, and what differs from the mean.
    """
    course = outcome.iterations
    new, decodes = float(course.prompt_tokens[chosen].mean()), float(course.decodes[chosen].mean())
    context = float((course.kv_tokens[chosen] / np.maximum(course.running[chosen], 1)).mean())
    new_per_decode = 1.0 + float(worker.plan.drafted(decodes))
    groups = [prompts(1.0, new)] if new else []
    groups += [decoding(decodes, context, new_per_decode)] if decodes else []
    if not groups:
        return []
    weights = {PREFILL: new, DECODE: decodes * new_per_decode}
    parts = [name for name, tokens in weights.items() if tokens]
    own = {name: weights[name] / sum(weights.values()) for name in parts}
    return list(_pieces(worker, in_loop(worker, constants), Batch.of(*groups), own))


def _pieces(worker: Worker, constants: InferenceConstants, batch: Batch, own: dict[str, float]) -> Iterator[Piece]:
    (priced,) = worker.priced([batch])
    mean_pass = iteration_of(worker, priced, constants)
    prices, parts = priced.in_engine(constants), list(own)
    seconds_of: dict[tuple[str, str, str, bool], float] = defaultdict(float)
    for block in priced.program.blocks:
        for op in block.operators:
            sends = isinstance(op, Collective)
            seconds = float(block.count * op.count * prices[id(op)].time_s)
            for part, share in (own if op.group is None else {parts[op.group]: 1.0}).items():
                seconds_of[part, op.module, op.name if sends else op.module, sends] += share * seconds
    totals = {sends: sum(s for key, s in seconds_of.items() if key[3] == sends) for sends in (False, True)}
    whole = {False: float(mean_pass.times.work_s), True: float(mean_pass.times.collective_s)}
    outside = {"between stages": float(mean_pass.transfer_s), HOST: float(mean_pass.host_s)}
    whole_s = sum(whole.values()) + sum(outside.values())
    if outside[HOST] > 0.0:
        yield Piece(part=HOST, module=HOST, name=HOST, share=outside[HOST] / whole_s)
    for part in parts:
        for (of, module, name, sends), seconds in seconds_of.items():
            if of == part and seconds > 0.0:
                share = seconds / totals[sends] * whole[sends] / whole_s
                yield Piece(part=part, module=module, name=name, share=share, is_communication=sends)
        if outside["between stages"] > 0.0:
            share = own[part] * outside["between stages"] / whole_s
            yield Piece(part=part, module="pipeline", name="send-recv", share=share, is_communication=True)


def busy_by_bound(worker: Worker, constants: InferenceConstants, sums: Any) -> tuple[dict[str, float], float]:
    """Return the seconds of all ranks with an iteration under way, by what bounds it (``BOUNDS``), and their joules.

    ``sums`` are those of a pool, of `WORK`. The joules are those of one device per rank. Iterations with prompts and
    those without are each split as their mean one. Left out: prompts behind a cached context.
    """
    busy, joules, watts = dict.fromkeys(BOUNDS, 0.0), 0.0, watts_of(worker.scenario.cluster)
    for batch, seconds in _mean_batches(sums, worker.plan):
        (priced,) = worker.priced([batch])
        own = in_loop(worker, constants)
        mean_pass = iteration_of(worker, priced, own, saved_s=saved_starts_s(worker, batch, own))
        legs: Mapping[str, Number] = {
            "compute": mean_pass.times.compute_s,
            "memory": mean_pass.times.memory_s,
            "network": mean_pass.times.collective_s + mean_pass.transfer_s,
            "host": mean_pass.host_s,
        }
        whole = sum(float(leg) for leg in legs.values())
        for bound, leg in legs.items():
            busy[bound] += seconds * float(leg) / whole
        work_s = seconds * float(mean_pass.times.work_s) / whole
        joules += float(watts.joules(seconds, *(share * work_s for share in priced.utilization(constants))))
    return busy, joules


def _mean_batches(sums: Any, plan: GenerationPlan) -> Iterator[tuple[Batch, float]]:
    """Yield the mean batch of iterations with prompts and in those without, and the seconds of each kind."""
    for kind in sums[::-1]:
        if kind["iterations"]:
            new, decodes, context = (
                float(kind[name] / kind["iterations"]) for name in ("prompt_tokens", "decodes", "context_tokens")
            )
            groups = [prompts(1.0, new)] if new else []
            groups += [decoding(decodes, context, 1.0 + plan.drafted(decodes))] if decodes else []
            if groups:
                yield Batch.of(*groups), float(kind["seconds"])


def energy_j(worker: Worker, busy: Mapping[str, float], busy_j: float, duration_s: float) -> float:
    """Return the joules of all devices in a run: ``busy_j`` of one per rank while they work, idle power otherwise.

    ``duration_s`` are the seconds that they run, on average where replicas come and go.
    ``busy`` has the seconds of all ranks that schedule by themselves. Left out: hosts, network, cooling.
    """
    cluster, ranks = worker.scenario.cluster, float(worker.plan.replicas * worker.plan.data_parallel)
    idle_s = max(duration_s - sum(busy.values()) / ranks, 0.0)
    return float(cluster.devices * (busy_j / ranks + cluster.device.idle_w * idle_s))


IDLE = 0.7
"""Share of the time with work below which a replica has room for more."""
WAITS = 0.1
"""Share of the busy time with a queue from which the queue is worth a word, if requests spend time in it."""
QUEUED = 0.03
"""Share of the latency in the queue from which they do."""


CAUSES: Final = ("cache_full", "sequences_full", "budget_full")
"""Why requests wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Shares of the time."""

    busy: float
    """Of a replica's time: with an iteration under way."""
    waiting: float
    """Of the busy time: requests wait after scheduling."""
    cache_full: float
    """Of the waiting time: running requests hold the KV cache."""
    sequences_full: float
    """Of the waiting time: as many requests run as may."""
    budget_full: float
    """Of the waiting time: the iteration has as many tokens as it may."""


def pressure(sums: Any, duration_s: float, replicas: float) -> Pressure | None:
    """Return how the time of a pool with these sums, of `WORK`, was spent; None without recorded iterations."""
    if not sums["iterations"].any() or duration_s <= 0:
        return None
    seconds, waiting_s = float(sums["seconds"].sum()), float(sums["waiting_s"].sum())
    return Pressure(
        busy=min(seconds / duration_s / replicas, 1.0),
        waiting=waiting_s / seconds,
        **{name: float(sums[f"{name}_s"].sum()) / (waiting_s or 1.0) for name in CAUSES},
    )


def in_a_sentence(pressure: Pressure | None, bottleneck: str | None, queued: float) -> str:
    """Return a sentence on what limits the replicas; empty without recorded iterations.

    Args:
        pressure: How the time was spent.
        bottleneck: What bounds the iterations.
        queued: Share of the mean latency that requests wait in the queue.
    """
    if pressure is None:
        return ""
    if pressure.waiting >= WAITS and queued >= QUEUED:
        share = f"requests wait {percent(pressure.waiting)} of the busy time"
        causes = {
            "the KV cache is full": pressure.cache_full,
            "plan.max_sequences is reached": pressure.sequences_full,
            "plan.max_batched_tokens is reached": pressure.budget_full,
        }
        cause = max(causes, key=lambda name: causes[name])
        return f"{share}, mostly because {cause}" if causes[cause] > 0.5 else share
    if pressure.busy < IDLE:
        return f"replicas are idle {percent(1 - pressure.busy)} of the time and can serve more requests"
    limit = "the devices" if bottleneck is None else in_words(bottleneck)
    return f"requests wait mainly for the running iteration, which is limited by {limit}"


def in_words(bottleneck: str) -> str:
    """Return the spoken form of a bound; memory is called memory bandwidth."""
    return {"compute": "arithmetic", "memory": "memory bandwidth"}.get(bottleneck, f"the {bottleneck}")


SEEN: Final = ("running", "waiting", "kv_tokens")
"""Rows of `Work.moments`."""


class Moments:
    """Running and waiting requests and cached tokens of all replicas over time, in intervals of equal length."""

    def __init__(self, work: Work | None) -> None:
        """Read them from what iterations come to."""
        work = work or new_work(1)
        self._sums, self._moment_s = dict(zip(SEEN, work.moments, strict=True)), float(work.clocks[MOMENT_S])
        self.end_s = float(work.clocks[END])
        """When the last iteration ended."""

    @property
    def edges_s(self) -> Floats:
        """Where moments begin, up to the end of the run."""
        count = max(int(np.ceil(self.end_s / self._moment_s - 1e-9)), 1)
        return np.asarray(np.minimum(self._moment_s * np.arange(count + 1.0), self.end_s))

    def means(self, name: str) -> Floats:
        """Return the mean of one of `SEEN` over each moment, added up over replicas; 0 while no iteration runs."""
        edges = self.edges_s
        return np.asarray(self._sums[name][: edges.size - 1] / np.maximum(np.diff(edges), 1e-12))


def replica_seconds(of: Lifetimes, begin_s: float, times_s: Floats) -> Floats:
    """Return the cumulative replica-seconds from the beginning to each of the given times."""
    times = times_s[:, np.newaxis]
    seconds: Floats = (
        np.minimum(times, np.maximum(of.stopped_s, begin_s)) - np.minimum(times, np.maximum(of.started_s, begin_s))
    ).sum(axis=1)
    return seconds


def replicas_of_run(of: Lifetimes, begin_s: float, end_s: float) -> dict[str, float]:
    """Return the mean, minimum and maximum number of replicas during a run."""
    first, last = np.clip(of.started_s, begin_s, end_s), np.clip(of.stopped_s, begin_s, end_s)
    there = last > first
    times = np.unique(np.concatenate([[begin_s], first[there], last[there]]))
    counts = [int(((first <= at) & (at < last) & there).sum()) for at in times if at < end_s]
    seconds = float(replica_seconds(of, begin_s, np.array([end_s]))[0])
    mean = seconds / (end_s - begin_s) if end_s > begin_s else float(max(counts, default=0))
    return {"mean": mean, "min": min(counts, default=0), "max": max(counts, default=0)}
