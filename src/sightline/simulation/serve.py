"""A load served by replicas of an engine by the compiled loop: with rows, or in the same memory for any load."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sightline.errors import WorkError
from sightline.progress import SILENT, Progress
from sightline.quantities import counted
from sightline.simulation.autoscaling import Autoscaler, Scaling
from sightline.simulation.compiled import compiling_once
from sightline.simulation.engine import sources, state
from sightline.simulation.engine.fleet import PAUSED, ROUTERS, SERVED, Loop, run
from sightline.simulation.engine.records import Records, gap_edges_s, new_records
from sightline.simulation.engine.sources import Part, Sources
from sightline.simulation.engine.state import Facts, Replica, Slots, Tier
from sightline.simulation.load import Floats, Integers, Requests, joined
from sightline.simulation.outcome import (
    COMPLETED,
    Interruptions,
    Iterations,
    Lifetimes,
    Outcome,
    PoolLimits,
    TierUse,
    Transfers,
)
from sightline.simulation.results.summary import SAMPLED, Summary, Totals, answered, totals_of
from sightline.simulation.results.times import Histogram
from sightline.simulation.times import IterationTimes, packed_together

if TYPE_CHECKING:
    from sightline.scenario import Slo

RECORDS = 1 << 16
"""Requests, and iterations, that are written down before they are read."""


class Piece(NamedTuple):
    """The rows recorded since the last piece."""

    ended: Any
    """Of `ENDED_REQUEST`."""
    log: Any
    """Of `ITERATION`."""
    resumed: Any
    """Of `RESUMED`."""


class Pool(NamedTuple):
    """Equal replicas."""

    facts: Facts
    times: IterationTimes
    name: str = ""
    """What they do, or what they run on, where there are several pools."""
    tiers: tuple[Tier, ...] = ()
    """Memories behind the cache of each, fastest first."""

    @property
    def limits(self) -> PoolLimits:
        """What the replicas have room for."""
        tokens = self.facts.blocks * self.facts.block_tokens
        return PoolLimits(name=self.name, replicas=self.facts.replicas, kv_capacity_tokens=tokens)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployment:
    """Replicas of an engine and how requests reach them."""

    pools: tuple[Pool, ...]
    """One where all are equal; replicas that decode what others have begun are the last."""
    transfers: Floats = field(default_factory=lambda: np.zeros(2))
    """Seconds that keys and values take to those, by tokens of the prompt, on the axis of contexts of the tables."""
    router: str = "round-robin"
    concurrency: int = 0
    """Places of requests in flight, such as the clients of a closed loop; 0: requests come when they come."""
    ramp_up_s: float = 0.0
    """Seconds over which these clients begin, evenly."""
    timeout_s: float = inf
    """Seconds from when a request is sent until its client gives up."""
    think_s: float = 0.0
    """Seconds between an answer and the next request in its place."""
    scaling: Scaling | None = None
    """Of one pool: how many of its replicas there are; None: all of them, all the time."""

    @property
    def limits(self) -> tuple[PoolLimits, ...]:
        """What the replicas of each pool have room for."""
        return tuple(pool.limits for pool in self.pools)


@dataclass(slots=True, kw_only=True, eq=False)
class _Simulation:
    """The loop's state between parts."""

    deployment: Deployment
    fleet: Replica
    slots: Slots
    sources: Sources
    records: Records
    scaler: Autoscaler | None = None

    @property
    def lifetimes(self) -> Lifetimes | None:
        """Those of replicas that come and go."""
        return None if self.scaler is None else self.scaler.lifetimes(self.deployment.pools[0].times.request_s)


def serve(load: Iterable[Requests], deployment: Deployment, progress: Progress = SILENT) -> Outcome:
    """Serve a load and return its outcome, with a row per request; progress counts requests."""
    parts, pieces = list(load), []
    simulation = _new(deployment, parts)
    progress.begin(sum(map(len, parts)), "simulating requests")
    for piece in _pieces(parts, simulation):
        pieces.append(piece)
        progress.advance(len(piece.ended))
    whole = Piece(*map(np.concatenate, zip(*pieces, strict=True)))
    return replace(_outcome(joined(parts), whole, simulation), course=_Course(parts, deployment))


@dataclass(slots=True, eq=False)
class _Course:
    """The iterations of a load, which is served once more when they are first asked for."""

    parts: Sequence[Requests]
    deployment: Deployment
    iterations: Iterations | None = None

    def __call__(self) -> Iterations:
        """Return a row per iteration, in order of time."""
        if self.iterations is None:
            simulation = _new(self.deployment, self.parts, RECORDS)
            log = np.concatenate([piece.log for piece in _pieces(self.parts, simulation)])
            if len(pool_of := simulation.fleet.counts[:, state.POOL]) > 1:
                log = log[np.argsort(log["start_s"], kind="stable")]
            block_tokens = np.array([of.facts.block_tokens for of in self.deployment.pools])[pool_of[log["replica"]]]
            names = ("start_s", "end_s", "replica", "prompt_tokens", "decodes", "running", "waiting")
            held = log["kv_blocks"] * block_tokens
            self.iterations = Iterations(**{name: log[name] for name in names}, kv_tokens=held)
        return self.iterations


class _Window:
    """The parts of a load that have requests under way."""

    def __init__(self) -> None:
        self._parts: list[Requests] = []
        self._left: list[int] = []
        """Of each part, requests that did not end yet."""
        self._first = 0
        """The number of the first request of the first part."""
        self._all: Requests | None = None
        """The parts as one."""

    def noted(self, load: Iterable[Requests]) -> Iterator[Requests]:
        """The same parts, which are noted as they pass."""
        for part in load:
            self._parts.append(part)
            self._left.append(len(part))
            self._all = None
            yield part

    def taken(self, numbers: Integers) -> Requests:
        """Return requests that ended, by their numbers; parts without any other are forgotten, unless last."""
        if self._all is None:
            self._all = joined(self._parts)
        ended_requests = self._all[numbers - self._first]
        begins = self._first + np.cumsum([0, *map(len, self._parts)])
        for i, ended in enumerate(np.histogram(numbers, begins)[0]):
            self._left[i] -= int(ended)
        while len(self._left) > 1 and self._left[0] == 0:
            self._first += len(self._parts.pop(0))
            self._left.pop(0)
            self._all = None
        return ended_requests


def _new(deployment: Deployment, parts: Sequence[Requests] | None = None, iterations: int = 0) -> _Simulation:
    """A simulation at its begin, with room to write down so many iterations until they are read.

    Where all ``parts`` of the load are known, large tiers have no more rows than there are blocks to keep.
    """
    pools = [pool.facts for pool in deployment.pools]
    tokens = inf if parts is None else sum(len(of) + int((of.prompt_tokens + of.output_tokens).sum()) for of in parts)
    behind = [
        [*pool.tiers[:1], *(_of_load(tier, tokens / pool.facts.block_tokens) for tier in pool.tiers[1:])]
        for pool in deployment.pools
    ]
    room = max(RECORDS, *(4 * facts.max_sequences * facts.lockstep for facts in pools))
    try:
        return _Simulation(
            deployment=deployment,
            fleet=state.new_fleet(pools, behind),
            slots=np.zeros(0, state.SLOT),
            sources=sources.new_sources(deployment.concurrency, deployment.ramp_up_s),
            records=new_records(room, iterations, len(pools)),
        )
    except MemoryError:
        replicas, most = sum(facts.replicas for facts in pools), max(facts.max_sequences for facts in pools)
        raise WorkError(
            f"too little memory to simulate {counted(replicas, 'replica')} with {most:,} sequences; reduce "
            "plan.max_sequences or plan.replicas"
        ) from None


def _of_load(tier: state.Tier, blocks: float) -> state.Tier:
    return tier._replace(blocks=int(min(tier.blocks, blocks + 1.0)))


def _pieces(load: Iterable[Requests], simulation: _Simulation) -> Iterator[Piece]:
    """Serve a load; yield what ended, and which iterations ran where these are written down, piece by piece."""
    parts = iter(load)
    part = next(parts, None)
    scaling = simulation.deployment.scaling
    if scaling is not None and part is not None:
        facts, begin_s = simulation.deployment.pools[0].facts, float(part.arrival_s[0]) if len(part) else 0.0
        simulation.scaler = Autoscaler(scaling, simulation.fleet, facts, begin_s)
    while part is not None:
        following = next(parts, None)
        yield from _served(simulation, sources.part_of(part), last=following is None)
        part = following


def _served(simulation: _Simulation, part: Part, *, last: bool) -> Iterator[Piece]:
    deployment = simulation.deployment
    room, free = simulation.slots.size, int(simulation.sources.counts[sources.FREE])
    if free < part.size:
        more = room + max(part.size - free, room // 2)
        simulation.sources = sources.with_slots(simulation.sources, room, more)
        simulation.slots = state.grown(simulation.slots, more)
    simulation.sources = sources.with_sessions(simulation.sources, part)
    simulation.sources.counts[sources.TAKEN] = 0
    pools = [pool.facts for pool in deployment.pools]
    simulation.fleet = state.with_rows(
        simulation.fleet, pools, int((part["prompt_tokens"] + part["output_tokens"]).max(initial=0))
    )
    others = pools[-1].replicas if pools[-1].role == state.DECODE else 0
    times = packed_together([pool.times for pool in deployment.pools])
    entries = simulation.fleet.counts.shape[0] - others
    loop = Loop(
        simulation.fleet,
        simulation.slots,
        simulation.sources,
        state.as_records(pools),
        times,
        simulation.records,
        part,
        deployment.transfers,
        entries,
        deployment.timeout_s,
    )
    router, outcome = ROUTERS[deployment.router], -1
    while outcome != SERVED:
        with compiling_once(run):
            pause_s = np.inf if simulation.scaler is None else simulation.scaler.next_s
            outcome = run(loop, router, deployment.think_s, last, pause_s)
        if outcome == PAUSED and simulation.scaler is not None:
            simulation.scaler.look()
        else:
            yield _emptied(simulation)
    simulation.sources.counts[sources.NUMBERED] += part.size


def _emptied(simulation: _Simulation) -> Piece:
    """What was written down since, as copies; the records are empty again."""
    records = simulation.records
    requests, iterations, resumptions = records.rows
    written = records.ended[:requests], records.log[:iterations], records.resumed[:resumptions]
    piece = Piece(*(rows.copy() for rows in written))
    records.rows[:] = simulation.sources.counts[sources.READ] = 0
    return piece


def _outcome(requests: Requests, piece: Piece, simulation: _Simulation) -> Outcome:
    """All rows, in the order of the requests; whatever happens is later by what precedes the engine's queue."""
    ended, _, resumed = piece
    pools, of_replica = simulation.deployment.pools, simulation.fleet.counts[:, state.POOL]
    order = np.argsort(ended["request"])
    ended = ended[order]
    sent = replace(requests, arrival_s=ended["arrival_s"])
    requested_s = np.array([pool.times.request_s for pool in pools])
    # Refused requests have no replica, and no times.
    later_s = requested_s[of_replica[ended["replica"]]]
    moved = None
    if pools[-1].facts.role == state.DECODE:
        sent_s, ready_s = ended["prefilled_s"] + later_s, ended["ready_s"] + later_s
        moved = Transfers(replica=ended["prefilled_by"], prefilled_s=sent_s, ready_s=ready_s)
    return Outcome(
        requests=sent,
        scheduled_s=ended["scheduled_s"] + later_s,
        first_token_s=ended["first_s"] + later_s,
        last_token_s=ended["last_s"] + later_s,
        cached_tokens=ended["cached"],
        preemptions=ended["preemptions"],
        replica=ended["replica"],
        status=ended["status"],
        gap_counts=simulation.records.gaps,
        gap_edges_s=gap_edges_s(),
        pools=simulation.deployment.limits,
        interruptions=Interruptions(
            request=resumed["request"],
            from_s=resumed["from_s"] + requested_s[of_replica[resumed["replica"]]],
            to_s=resumed["to_s"] + requested_s[of_replica[resumed["replica"]]],
        ),
        transfers=moved,
        lifetimes=simulation.lifetimes,
        tiers=tuple(_tiers(simulation)),
        work=simulation.records.work,
    )


def _tiers(simulation: _Simulation) -> Iterator[TierUse]:
    """What was loaded from the tiers of the same place in all pools."""
    pools = simulation.deployment.pools
    for number in range(max(len(pool.tiers) for pool in pools)):
        tokens, seconds, name = 0, 0.0, ""
        for at, pool in enumerate(pools):
            if number < len(pool.tiers):
                blocks, spent_s = state.loaded_from(simulation.fleet, at, number)
                tokens, seconds = tokens + blocks * pool.facts.block_tokens, seconds + spent_s
                name = pool.tiers[number].name
        yield TierUse(name=name, tokens=tokens, seconds=seconds)


MANY_REQUESTS = 1_000_000
"""Requests of a load of which no rows are kept."""
Rows = Callable[[Integers, Outcome], None]
"""Takes requests that ended: their numbers in the load, and their rows."""


def serve_streamed(
    load: Iterable[Requests],
    deployment: Deployment,
    slo: "Slo | None" = None,
    rows: Rows | None = None,
    progress: Progress = SILENT,
) -> Summary:
    """Serve a load and return its summary; ``rows`` takes each piece of it, and progress counts requests.

    Percentiles are to 0.1 %, all else is exact. Once somebody asked to stop, the rest of the load is left out.
    """
    totals, samples = Totals(), {key: Histogram() for key in SAMPLED}
    window, simulation = _Window(), _new(deployment)
    for piece in _pieces(window.noted(load), simulation):
        numbers = np.sort(piece.ended["request"])
        outcome = replace(_outcome(window.taken(numbers), piece, simulation), interruptions=Interruptions())
        times = answered(outcome)
        totals += totals_of(outcome, times, slo)
        done = numbers[outcome.status == COMPLETED]
        for key, histogram in samples.items():
            histogram.add(done, getattr(times, key))
        if rows is not None:
            rows(numbers, outcome)
        progress.advance(numbers.size)
        if progress.cancelled:
            break
    return Summary(
        totals=totals,
        samples=samples,
        gap_counts=simulation.records.gaps,
        gap_edges_s=gap_edges_s(),
        work=simulation.records.work,
        pools=deployment.limits,
        lifetimes=simulation.lifetimes,
        tiers=tuple(_tiers(simulation)),
    )
