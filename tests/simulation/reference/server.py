"""A load served by replicas: requests arrive and are routed, iterations follow each other."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from simulation.reference.autoscaling import Life, Scaler, Scaling
from simulation.reference.lightllm import LightLlm
from simulation.reference.reserving import Orca, Static, TensorRtLlm, Tgi
from simulation.reference.routers import ROUTERS, Turns
from simulation.reference.scheduler import Batch, Rules, Scheduler
from simulation.reference.sequences import Sequence, sequence_of
from simulation.reference.sglang import Sglang
from simulation.reference.transformers import Transformers
from simulation.reference.vllm import Vllm
from simulation.reference.vllm_before import VllmBefore

from sightline.simulation.load import Requests
from sightline.simulation.outcome import (
    COMPLETED,
    NO_ROOM,
    NOT_ADMITTED,
    OVER_BUDGET,
    QUEUE_FULL,
    TIMED_OUT,
    TOO_LONG,
    WAITED,
    Iterations,
    Outcome,
    PoolLimits,
)

Seconds = Callable[[int, int, list[tuple[int, int]], float], float]
"""Seconds of an iteration: sequences that decode, the sum of their cached tokens, new and cached tokens of each prompt,
and new tokens of the mean of the ranks that begin together."""
POLICIES: dict[str, type[Scheduler]] = {
    "vllm": Vllm,
    "vllm-0": VllmBefore,
    "sglang": Sglang,
    "tgi": Tgi,
    "lightllm": LightLlm,
    "transformers": Transformers,
    "tensorrt-llm": TensorRtLlm,
    "orca": Orca,
    "static": Static,
}


class Clients:
    """Who sends which request when: at its time, after the answer before it in its conversation, or, in a closed loop,
    once a client has the last answer of its own."""

    def __init__(self, requests: Requests, concurrency: int, think_s: float) -> None:
        """Begin with nothing sent; ``concurrency`` clients of a closed loop, or 0 for an open one."""
        self.requests = requests
        self.think_s = think_s
        self.taken = 0
        self.free_from: list[float] | None = [0.0] * concurrency if concurrency else None
        """When each idle client of a closed loop may send."""
        self.due: list[tuple[float, int]] = []
        """Turns whose time is known but has not come."""
        self.last_turn: dict[int, int] = {}
        self.turn_after: dict[int, int] = {}
        """Turns that wait for the end of another, by the row of that other."""
        self.ended_s: dict[int, float] = {}

    def _next_taken_s(self) -> float:
        if self.taken == len(self.requests):
            return inf
        arrival = float(self.requests.arrival_s[self.taken])
        if self.free_from is None or self._goes_on():
            return arrival
        return max(arrival, self.free_from[0]) if self.free_from else inf

    def _goes_on(self) -> bool:
        """Whether the next request has a turn before it that has not ended."""
        session = int(self.requests.session_id[self.taken])
        before = self.last_turn.get(session) if session >= 0 else None
        return before is not None and before not in self.ended_s

    def next_s(self) -> float:
        """Return when the next request is sent, as far as that is known."""
        return min(self._next_taken_s(), self.due[0][0] if self.due else inf)

    def send(self, now: float) -> int | None:
        """Return the row of the request that is sent now; None where it turns out to wait for the turn before it."""
        if self.due and self.due[0][0] <= self._next_taken_s():
            return heapq.heappop(self.due)[1]
        if self.free_from is not None and not self._goes_on():
            heapq.heappop(self.free_from)
        row = self.taken
        self.taken += 1
        session = int(self.requests.session_id[row])
        before = self.last_turn.get(session) if session >= 0 else None
        self.last_turn[session] = row
        if before is None:
            return row
        if before not in self.ended_s:
            self.turn_after[before] = row
            return None
        due_s = self.ended_s[before] + float(self.requests.think_s[row])
        if due_s <= now:
            return row
        heapq.heappush(self.due, (due_s, row))
        return None

    def ended(self, row: int, now: float) -> None:
        """Note that a request was answered or refused."""
        self.ended_s[row] = now
        turn = self.turn_after.pop(row, None)
        if turn is None and self.free_from is not None:
            heapq.heappush(self.free_from, now + self.think_s)
        if turn is not None:
            due_s = max(now + float(self.requests.think_s[turn]), float(self.requests.arrival_s[turn]))
            heapq.heappush(self.due, (due_s, turn))


class Deadlines:
    """When requests are given up, by their clients or by the queue."""

    def __init__(self, sequences: list[Sequence], ended_s: dict[int, float]) -> None:
        """Begin with none; ``ended_s`` will have the requests that have ended."""
        self.sequences, self.ended_s = sequences, ended_s
        self.heap: list[tuple[float, int, bool]] = []
        """When, which, and whether only if it never ran."""

    def add(self, row: int, now: float, timeout_s: float, queue_s: float) -> None:
        """Note those of a request that is sent now."""
        heapq.heappush(self.heap, (now + timeout_s, row, False))
        heapq.heappush(self.heap, (now + queue_s, row, True))

    def next_s(self) -> float:
        """Return when a request is given up next."""
        while self.heap:
            _, row, waiting = self.heap[0]
            if row not in self.ended_s and not (waiting and self.sequences[row].scheduled_s is not None):
                return self.heap[0][0]
            heapq.heappop(self.heap)
        return inf

    def pop(self) -> tuple[int, int]:
        """Return the request that is given up next, and its status."""
        _, row, waiting = heapq.heappop(self.heap)
        return row, WAITED if waiting else TIMED_OUT


@dataclass(frozen=True)
class Served:
    """What became of a load, and when each token of each request came."""

    outcome: Outcome
    token_s: list[list[float]]
    lives: list[Life]
    """Of replicas, where they come and go."""


@dataclass(frozen=True)
class Pool:
    """Equal replicas."""

    rules: Rules
    seconds: Seconds
    replicas: int = 1
    speed: float = 1.0
    per_node: int = 1
    """Replicas that share the ports of a node."""


@dataclass
class Replica:
    """An engine with its iteration under way."""

    number: int
    scheduler: Scheduler
    pool: Pool
    node: int
    batch: Batch = field(default_factory=Batch)
    ends_s: float = inf

    def arrive(self, sequence: Sequence) -> None:
        """Take a request."""
        self.scheduler.arrive(sequence, busy=bool(self.batch))

    def land(self, sequence: Sequence) -> None:
        """Take a request that another replica has begun."""
        self.scheduler.land(sequence, busy=bool(self.batch))

    def step(self, now: float) -> list[Sequence]:
        """End an iteration and form the next; return the sequences that ended."""
        ended = self.scheduler.finish(self.batch, now)
        self.batch = self.scheduler.schedule(now)
        return ended


def wake(group: list[Replica], now: float) -> None:
    """Let ranks that begin together go to work, unless they are under way."""
    for one in group:
        one.ends_s = now if one.ends_s == inf else one.ends_s


def step_together(group: list[Replica], now: float) -> list[tuple[Sequence, Replica]]:
    """End the iterations of ranks that begin together, and begin the next; return the sequences that ended, and where.

    All wait for the longest of them; ranks without work wait along.
    """
    ended = [(sequence, one) for one in group for sequence in one.step(now)]
    tokens = sum(one.batch.new_tokens(one.pool.rules) for one in group) / len(group)
    ends_s = max((now + _duration(one.batch, one.pool, tokens) for one in group if one.batch), default=inf)
    for one in group:
        one.ends_s = ends_s
    return ended


Row = tuple[float, float, int, int, int, int, int, int]
"""An iteration: start, end, replica, prompt tokens, decodes, running, waiting, tokens held."""


def serve(requests: Requests, rules: Rules, seconds: Seconds, **how: Any) -> Outcome:
    """Return what becomes of a load on one replica."""
    return serve_with_tokens(requests, [Pool(rules, seconds)], **how).outcome


class Fleet:
    """All replicas, and the requests between them."""

    def __init__(self, pools: list[Pool], router: str, transfer_s: Callable[[int], float]) -> None:
        """Begin with idle replicas."""
        self.router, self.transfer_s = ROUTERS[router], transfer_s
        self.replicas: list[Replica] = []
        self.groups: list[list[Replica]] = []
        """Ranks whose iterations begin together."""
        for pool in pools:
            first = len(self.replicas)
            for i in range(pool.replicas):
                scheduler, node = POLICIES[pool.rules.policy](pool.rules), first + i // pool.per_node * pool.per_node
                self.replicas.append(Replica(first + i, scheduler, pool, node))
                if i % pool.rules.lockstep == 0:
                    self.groups.append([])
                self.groups[-1].append(self.replicas[-1])
        for one in self.replicas:
            for number, memory in enumerate(one.scheduler.pool.behind):
                first = {"rank": one.number, "node": one.node, "all": 0}[memory.tier.shared]
                one.scheduler.pool.behind[number] = self.replicas[first].scheduler.pool.behind[number]
        self.entries = [one for one in self.replicas if one.pool.rules.role != "decode"]
        self.others = [one for one in self.replicas if one.pool.rules.role == "decode"]
        self.arrivals, self.landings = (
            Turns([one.scheduler for one in of], [one.pool.speed for one in of]) for of in (self.entries, self.others)
        )
        self.on_the_way: list[tuple[float, int]] = []
        """When keys and values come, of which requests."""
        self.ports_free = [0.0] * len(self.replicas)

    def renew(self, number: int, serves_from: float) -> None:
        """Put a new replica in the place of one that is gone."""
        one = self.replicas[number]
        one.scheduler, one.batch = POLICIES[one.pool.rules.policy](one.pool.rules), Batch()
        self.arrivals.fleet[number] = one.scheduler
        self.arrivals.credit[number] = 0.0
        self.arrivals.serves_from[number] = serves_from

    def next_s(self) -> float:
        """Return when the next iteration ends."""
        return min(one.ends_s for one in self.replicas)

    def next_landing_s(self) -> float:
        """Return when keys and values come next."""
        return self.on_the_way[0][0] if self.on_the_way else inf

    def arrive(self, sequence: Sequence, now: float) -> tuple[int, int]:
        """Take a request; return why it is refused, or `COMPLETED`, and its replica."""
        self.arrivals.now = now
        chosen = self.router(self.arrivals, sequence)
        decoder = self.others[0].scheduler if self.others else None
        status = refusal(sequence, self.entries[chosen].scheduler, decoder)
        if status == COMPLETED:
            self.arrivals.note(chosen)
            scheduler = self.entries[chosen].scheduler
            if len(scheduler.waiting) + len(scheduler.late) >= scheduler.rules.max_queued:
                return QUEUE_FULL, self.entries[chosen].number
            if self.others:
                sequence.further, sequence.output = sequence.output - 1, 1
            self.entries[chosen].arrive(sequence)
            self.entries[chosen].scheduler.pool.prefetch(sequence, now)
            self._wake(self.entries[chosen], now)
        return status, self.entries[chosen].number

    def land(self, sequences: list[Sequence], now: float) -> tuple[int, int]:
        """Let the next request land where it is decoded; return its row and its replica."""
        sequence = sequences[heapq.heappop(self.on_the_way)[1]]
        chosen = self.router(self.landings, sequence)
        self.landings.note(chosen)
        self.others[chosen].land(sequence)
        self._wake(self.others[chosen], now)
        return sequence.row, self.others[chosen].number

    def give_up(self, sequence: Sequence) -> None:
        """Forget a request, wherever it is."""
        for one in self.replicas:
            if one.scheduler.abort(sequence, one.batch):
                return
        self.on_the_way = [entry for entry in self.on_the_way if entry[1] != sequence.row]
        heapq.heapify(self.on_the_way)

    def _wake(self, one: Replica, now: float) -> None:
        wake(next(group for group in self.groups if one in group), now)

    def send(self, sequence: Sequence, one: Replica, now: float) -> Sequence:
        """Send a request whose prompt a replica has processed, behind what its node's ports send.

        Return it as it goes on: the replica may hold its blocks for another iteration.
        """
        self.ports_free[one.node] = max(now, self.ports_free[one.node]) + self.transfer_s(sequence.prompt)
        heapq.heappush(self.on_the_way, (self.ports_free[one.node], sequence.row))
        return replace(sequence, output=sequence.output + sequence.further, further=0, blocks=[], computed=0)


def serve_with_tokens(
    requests: Requests,
    pools: list[Pool],
    *,
    concurrency: int = 0,
    think_s: float = 0.0,
    router: str = "round-robin",
    transfer_s: Callable[[int], float] = lambda _: 0.0,
    scaling: Scaling | None = None,
    timeout_s: float = inf,
) -> Served:
    """Return what becomes of a load, with the times of all tokens.

    ``transfer_s`` are the seconds of a prompt's keys and values from a pool that processes prompts to one that decodes.
    """
    fleet, clients = Fleet(pools, router, transfer_s), Clients(requests, concurrency, think_s)
    sequences = [sequence_of(requests, row, 1 + pools[0].rules.drafted) for row in range(len(requests))]
    status, served_by = [COMPLETED] * len(requests), [-1] * len(requests)
    deadlines, queue_s = Deadlines(sequences, clients.ended_s), pools[0].rules.queue_s
    log: list[Row] = []
    scaler = None if scaling is None else Scaler(scaling, fleet, float(requests.arrival_s[0]))
    while (now := min(clients.next_s(), fleet.next_landing_s(), fleet.next_s(), deadlines.next_s())) < inf:
        if scaler is not None and scaler.next_s <= now:
            scaler.look(log)
        elif deadlines.next_s() == now:
            row, why = deadlines.pop()
            status[row] = why
            fleet.give_up(sequences[row])
            sequences[row].scheduled_s, sequences[row].token_s = None, []
            clients.ended(row, now)
        elif fleet.next_landing_s() == now:
            row, number = fleet.land(sequences, now)
            served_by[row] = number
        elif clients.next_s() == now:
            sent = clients.send(now)
            if sent is not None:
                sequences[sent].arrival_s = now
                status[sent], served_by[sent] = fleet.arrive(sequences[sent], now)
                if status[sent] != COMPLETED:
                    clients.ended(sent, now)
                else:
                    deadlines.add(sent, now, timeout_s, queue_s)
        else:
            _step(fleet, clients, sequences, log, now)
    for one in fleet.replicas:
        assert not one.scheduler.running
        assert not one.scheduler.queued
    outcome = _outcome(requests, sequences, status, served_by, log, pools)
    if scaler is not None:
        scaler.bury(log)
    lives = [] if scaler is None else scaler.lives
    return Served(outcome, [sequence.token_s for sequence in sequences], lives)


def _step(fleet: Fleet, clients: Clients, sequences: list[Sequence], log: list[Row], now: float) -> None:
    """End the iteration that ends now, and begin the next."""
    group = min(fleet.groups, key=lambda ranks: ranks[0].ends_s)
    ended = step_together(group, now)
    log += [_row(now, one) for one in group if one.batch]
    for sequence, one in ended:
        if sequence.further:
            sequences[sequence.row] = fleet.send(sequence, one, now)
        else:
            clients.ended(sequence.row, now)


def refusal(sequence: Sequence, scheduler: Scheduler, decoder: Scheduler | None) -> int:
    """Return why a request is refused when it arrives, or `COMPLETED`; a ``decoder`` generates its answer."""
    rules, pool = scheduler.rules, scheduler.pool
    if sequence.prompt + sequence.output > rules.context_tokens:
        return TOO_LONG
    whole = scheduler.whole(sequence)
    if decoder is not None:
        if decoder.pool.blocks_for(whole) + decoder.watermark > decoder.pool.total:
            return NO_ROOM
        whole = sequence.prompt
    if pool.blocks_for(whole) + scheduler.watermark > pool.total:
        return NO_ROOM
    if not rules.chunked and sequence.prompt > rules.token_budget // rules.stages:
        return OVER_BUDGET
    return NOT_ADMITTED if scheduler.taken + scheduler.queued >= rules.max_concurrent else COMPLETED


def _duration(batch: Batch, pool: Pool, mean_tokens: float) -> float:
    context = sum(sequence.computed for sequence in batch.decodes) + sum(batch.idle)
    prompts = [(new, sequence.computed - new) for sequence, new in batch.prompts]
    work_s = pool.seconds(len(batch.decodes) + len(batch.idle), context, prompts, mean_tokens)
    return max(work_s, batch.loading_s) if pool.rules.loads_along else work_s + batch.loading_s


def _row(now: float, one: Replica) -> Row:
    scheduler = one.scheduler
    held = (scheduler.pool.total - len(scheduler.pool.free)) * scheduler.rules.block_tokens
    tokens = sum(new for _, new in one.batch.prompts)
    return now, one.ends_s, one.number, tokens, len(one.batch.decodes), scheduler.taken, scheduler.queued, held


def _outcome(
    requests: Requests,
    sequences: list[Sequence],
    status: list[int],
    served_by: list[int],
    log: list[Row],
    pools: list[Pool],
) -> Outcome:
    def each(figures: list[float | None]) -> np.ndarray:
        return np.array([np.nan if figure is None else figure for figure in figures], float)

    columns = [np.array(column) for column in zip(*log, strict=True)] or [np.zeros(0)] * 8
    start_s, end_s, replica, prompt_tokens, decodes, running, waiting, held = columns
    gaps = np.concatenate([np.zeros(0), *(np.diff(sequence.token_s) for sequence in sequences)])
    edges = np.geomspace(1e-6, 1e4, 100)
    return Outcome(
        requests=replace(requests, arrival_s=np.array([sequence.arrival_s for sequence in sequences], float)),
        scheduled_s=each([sequence.scheduled_s for sequence in sequences]),
        first_token_s=each([sequence.token_s[0] if sequence.token_s else None for sequence in sequences]),
        last_token_s=each([sequence.token_s[-1] if sequence.token_s else None for sequence in sequences]),
        cached_tokens=np.array([sequence.cached for sequence in sequences], np.int64),
        preemptions=np.array([sequence.preemptions for sequence in sequences], np.int64),
        replica=np.array(served_by, np.int64),
        status=np.array(status, np.int64),
        course=lambda: Iterations(
            start_s=start_s,
            end_s=end_s,
            replica=replica,
            prompt_tokens=prompt_tokens,
            decodes=decodes,
            running=running,
            waiting=waiting,
            kv_tokens=held,
        ),
        gap_counts=np.histogram(gaps, edges)[0],
        gap_edges_s=edges,
        pools=tuple(
            PoolLimits(replicas=pool.replicas, kv_capacity_tokens=pool.rules.blocks * pool.rules.block_tokens)
            for pool in pools
        ),
    )
