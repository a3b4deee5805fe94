"""All replicas in time: requests arrive, are routed, and replicas run until the next one does.

Replicas stand pool by pool. Those that decode alone come last: what others send them arrives there like a request.
"""

from typing import Final, NamedTuple

import numpy as np

from sightline.simulation import outcome
from sightline.simulation.compiled import compiled, entry
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import hits, prefetch, view
from sightline.simulation.engine.lists import append_ready, append_waiting, drop, leave_ready, leave_waiting
from sightline.simulation.engine.records import REQUESTS, Records
from sightline.simulation.engine.replica import advance, advance_together, any_sent, transfer_all, write_down
from sightline.simulation.engine.sequences import abort, blocks_for, to_compute
from sightline.simulation.engine.sources import (
    CREDITS,
    DEADLINES,
    DUE,
    LANDED,
    READ,
    SESSIONS,
    TAKEN,
    TURN,
    Part,
    Sources,
    forget_due,
    goes_on,
    held_for_turn,
    next_deadline,
    note_end,
    pop_due,
    push_deadline,
    push_due,
    take_slot,
)
from sightline.simulation.engine.state import Facts, FactsOfPools, Replica, Slots
from sightline.simulation.load import Floats
from sightline.simulation.rows import bundle
from sightline.simulation.times import PackedTimes

_ROUND_ROBIN, _LEAST_LOAD, _PREFIX_AWARE, _WEIGHTED, _PRECISE = range(5)
ROUTERS: Final = {
    "round-robin": _ROUND_ROBIN,
    "least-load": _LEAST_LOAD,
    "prefix-aware": _PREFIX_AWARE,
    "weighted": _WEIGHTED,
    "precise-prefix": _PRECISE,
}
"""Numbers by the words of ``plan.router``."""
IMBALANCE: Final = (64, 1.5)
"""Requests, and ratio, by which the loads of replicas differ where SGLang's router stops looking at prefixes
(sgl-router: balance_abs_threshold, balance_rel_threshold)."""
CACHED_SHARE: Final = 0.3
"""Share of a prompt that has to be cached for it to count (sgl-router: cache_threshold)."""
WEIGHTS: Final = (2.0, 2.0, 3.0)
"""Of the queue, of the free cache, of the cached prefix: the scorers of the Kubernetes Gateway API inference extension
and llm-d, with the weights of their default configuration."""


@bundle
class Loop(NamedTuple):
    """All that a simulation reads and writes."""

    fleet: Replica
    slots: Slots
    sources: Sources
    facts: FactsOfPools
    """Of all pools, as `times` are."""
    times: PackedTimes
    records: Records
    part: Part
    transfers: Floats
    """Seconds by tokens of a prompt, from those that begin to those that decode."""
    entries: int
    """Replicas that requests arrive at; the others decode what these have begun."""
    timeout_s: float
    """Seconds from when a request is sent until its client gives up."""


@compiled
def _chosen(loop: Loop, slot: int, first: int, behind: int, router: int, turn: int, now: float) -> int:
    """The replica from ``first`` to before ``behind`` that a request goes to; at least one of them is there.

    ``turn`` counts the requests routed to these replicas before.
    """
    if behind - first == 1:
        return first
    best, share = _best(loop, slot, first, behind, router, turn, now)
    if router == _PREFIX_AWARE:
        # Unless loads are out of balance or it has little of the prompt.
        least, most = state.MANY, 0
        for r in range(first, behind):
            if _serves(loop.fleet, r, now):
                least, most = min(least, _requests(loop.fleet, r)), max(most, _requests(loop.fleet, r))
        if (most - least > IMBALANCE[0] and most > IMBALANCE[1] * least) or share < CACHED_SHARE:
            best, _ = _best(loop, slot, first, behind, _LEAST_LOAD, turn, now)
    if router == _PRECISE:
        own, prompt = loop.facts[loop.fleet.counts[best, state.POOL]], loop.slots[slot].prompt
        blocks, _ = hits(view(loop.fleet, best), loop.slots, slot, prompt, own)
        loop.slots[slot].expected = 0 if own.role == state.DECODE else prompt - blocks * own.block_tokens
    return best


@compiled
def _best(loop: Loop, slot: int, first: int, behind: int, router: int, turn: int, now: float) -> "tuple[int, float]":
    """The replica with the highest score by a router, and the score; of several the first, or the next in turn."""
    fleet, n = loop.fleet, behind - first
    shortest, longest = np.inf, 0.0
    for r in range(first, behind):
        if router == _WEIGHTED and _serves(fleet, r, now):
            queue = _queue(fleet, loop.facts, r)
            shortest, longest = min(shortest, queue), max(longest, queue)
    begin = turn if router in (_LEAST_LOAD, _WEIGHTED, _PRECISE) else 0
    best, best_score = first, -np.inf
    for i in range(n):
        r = first + (begin + i) % n
        if _serves(fleet, r, now):
            score = _score(loop, slot, r, router, shortest, longest)
            if score > best_score:
                best, best_score = r, score
    return best, best_score


@compiled
def _score(loop: Loop, slot: int, r: int, router: int, shortest: float, longest: float) -> float:
    """How well a replica suits a request, by a router; queues are at least and at most so long.

    By load: the fewest requests for its speed, this one included. In turn: who lags most behind its share, the smooth
    weighted round robin of nginx, so that equal replicas take turns. By precise prefix: the fewest blocks to compute
    and to hold with this request, for its speed, what is cached there left out (Dynamo's KV router with KV events and
    its default weights, ``worker_logit`` of kv-router/src/scheduling/selector.rs at 01690d4, 2026).
    """
    fleet, own = loop.fleet, loop.facts[loop.fleet.counts[r, state.POOL]]
    if router == _ROUND_ROBIN:
        return fleet.clocks[r, state.CREDIT] + own.speed
    if router == _LEAST_LOAD:
        return -(_requests(fleet, r) + 1) / own.speed
    rep, slots = view(fleet, r), loop.slots
    blocks, free = hits(rep, slots, slot, slots[slot].prompt, own)
    if router == _PRECISE:
        tokens, partial = rep.counts[state.QUEUED_TOKENS], rep.counts[state.PARTIAL]
        if partial != state.NOTHING:
            tokens += to_compute(slots, partial) - slots[partial].computed
        held = own.blocks - rep.counts[state.FREE_BLOCKS] - (blocks - free)
        return -(tokens + 2 * slots[slot].prompt + (held - blocks) * own.block_tokens) / own.speed
    share = blocks * own.block_tokens / loop.slots[slot].prompt
    if router == _PREFIX_AWARE:
        return share
    queue = 1.0 if longest == shortest else (longest - _queue(fleet, loop.facts, r)) / (longest - shortest)
    score = WEIGHTS[0] * queue + WEIGHTS[1] * (fleet.counts[r, state.FREE_BLOCKS] / own.blocks)
    return score + WEIGHTS[2] * share


@compiled
def _serves(fleet: Replica, r: int, now: float) -> bool:
    """Whether requests are sent to a replica."""
    return fleet.clocks[r, state.SERVES_FROM] <= now


@compiled
def _requests(fleet: Replica, r: int) -> int:
    """Requests that a replica has."""
    waiting = fleet.counts[r, state.WAITING] + fleet.counts[r, state.READY] + fleet.counts[r, state.ENTERING]
    return fleet.counts[r, state.RUNNING] + waiting


@compiled
def _queue(fleet: Replica, facts: FactsOfPools, r: int) -> float:
    """Requests that wait for a replica, for its speed."""
    return (fleet.counts[r, state.WAITING] + fleet.counts[r, state.READY]) / facts[fleet.counts[r, state.POOL]].speed


@compiled
def _note_routed(loop: Loop, first: int, behind: int, chosen: int, now: float) -> None:
    """Let every replica of these come nearer to its turn, and the one that got a request wait for its next one."""
    fleet = loop.fleet
    for r in range(first, behind):
        if _serves(fleet, r, now):
            speed = loop.facts[fleet.counts[r, state.POOL]].speed
            fleet.clocks[r, state.CREDIT] += speed
            fleet.clocks[chosen, state.CREDIT] -= speed


# What `run` says when it returns.
SERVED: Final = 0
"""The part of the load is taken; of the last one all requests have ended."""
FULL_RECORDS: Final = 1
"""The records are to be emptied."""
PAUSED: Final = 2
"""The time has come at which the loop was to pause."""


@entry
def run(loop: Loop, router: int, think_s: float, last: bool, pause_s: float) -> int:
    """Serve a part of the load, to the end of all requests where it is the ``last``.

    Return why the loop ended: unless `SERVED`, the same part goes on. It pauses before anything happens at ``pause_s``
    or later, if any request is left by then.
    """
    fleet, sources, records, entries, part = loop.fleet, loop.sources, loop.records, loop.entries, loop.part
    while True:
        _free_slots(loop, think_s)
        if sources.counts[TAKEN] == part.size and not last:
            return SERVED
        deadline_s = next_deadline(sources, loop.slots)
        from_outside_s = min(_next_of_part(sources, part), _next_due(sources), deadline_s)
        until = min(from_outside_s, pause_s)
        if not _advance_all(loop, until):
            _free_slots(loop, think_s)
            return FULL_RECORDS
        sent = (
            transfer_all(fleet, loop.slots, sources, loop.transfers, entries) if entries < fleet.counts.shape[0] else 0
        )
        if records.rows[REQUESTS] > sources.counts[READ] or sent > 0:
            continue
        if until == np.inf:
            return SERVED
        if until == pause_s:
            left = min(from_outside_s, fleet.clocks[_earliest(fleet), state.NEXT])
            return PAUSED if left < np.inf else SERVED
        if records.rows[REQUESTS] == records.ended.size:
            return FULL_RECORDS
        if until != deadline_s:
            _arrive(loop, part, router, until)
        elif next_deadline(sources, loop.slots) == until:
            _give_up(loop, until)


@compiled
def _free_slots(loop: Loop, think_s: float) -> None:
    """Free the slots of requests that ended since.

    The loop's times are those at which its requests were sent, ``request_s`` before the engine saw them.
    """
    sources, slots, records = loop.sources, loop.slots, loop.records
    for i in range(sources.counts[READ], records.rows[REQUESTS]):
        slot, r = records.ended[i].slot, records.ended[i].replica
        pool = 0 if r == state.NOTHING else loop.fleet.counts[r, state.POOL]
        # Its last token may have come while it stood in the front end behind others.
        if records.ended[i].status == outcome.COMPLETED and slots[slot].token_s > _given_up_s(loop, slot, r):
            records.ended[i].status, slots[slot].token_s = outcome.TIMED_OUT, _given_up_s(loop, slot, r)
            records.ended[i].scheduled_s = records.ended[i].first_s = records.ended[i].last_s = np.nan
        note_end(sources, slots, slot, slots[slot].token_s + loop.times.figures[pool].request_s, think_s)
    sources.counts[READ] = records.rows[REQUESTS]


@compiled
def _given_up_s(loop: Loop, slot: int, r: int) -> float:
    """When the client of a request gives up, as the engine of a replica sees it."""
    after_s = loop.timeout_s - loop.times.figures[loop.fleet.counts[r, state.POOL]].request_s
    return loop.slots[slot].arrival_s + max(after_s, 0.0)


@compiled
def _next_of_part(sources: Sources, part: Part) -> float:
    """When the next request of the part is sent; never where a closed loop has no client for it."""
    taken = sources.counts[TAKEN]
    if taken == part.size:
        return np.inf
    if sources.credits.size == 0 or goes_on(sources, part):
        return part[taken].arrival_s
    return max(part[taken].arrival_s, sources.credits[0].key) if sources.counts[CREDITS] > 0 else np.inf


@compiled
def _next_due(sources: Sources) -> float:
    return sources.waits[0].key if sources.counts[DUE] > 0 else np.inf


@compiled
def _earliest(fleet: Replica) -> int:
    """The first replica that schedules next."""
    first = 0
    for r in range(1, fleet.counts.shape[0]):
        if fleet.clocks[r, state.NEXT] < fleet.clocks[first, state.NEXT]:
            first = r
    return first


@compiled
def _advance_all(loop: Loop, until: float) -> bool:
    """Run all replicas until a time, or, where an end may cause an arrival, to the first end.

    Where replicas send what others decode, these wait until all that was sent by then is known.
    """
    fleet, entries, n = loop.fleet, loop.entries, loop.fleet.counts.shape[0]
    answered = loop.sources.credits.size > 0 or loop.sources.counts[SESSIONS] > 0
    if not answered and not _share_stores(fleet):
        if not _advance_each(loop, 0, entries, until):
            return False
        if entries < n and any_sent(fleet, 0, entries):
            return True
        return _advance_each(loop, entries, n, until)
    while True:
        first = _earliest(fleet)
        second = np.inf
        for r in range(n):
            if fleet.counts[r, state.HEAD] != first:
                second = min(second, fleet.clocks[r, state.NEXT])
        if fleet.clocks[first, state.NEXT] >= until:
            return True
        ends = loop.records.rows[REQUESTS]
        horizon = min(until, max(second, np.nextafter(fleet.clocks[first, state.NEXT], np.inf)))
        if not _advance(loop, first, horizon, answered):
            return False
        behind = first + loop.facts[fleet.counts[first, state.POOL]].lockstep
        if loop.records.rows[REQUESTS] > ends or any_sent(fleet, first, behind):
            return True


@compiled
def _share_stores(fleet: Replica) -> bool:
    """Whether replicas have stores together, so that what one does next depends on what others did before."""
    tiers = (fleet.counts.shape[1] - state.COUNTS) // state.TIER_COUNTS
    return fleet.stores.size < fleet.counts.shape[0] * tiers


@compiled
def _advance_each(loop: Loop, first: int, behind: int, until: float) -> bool:
    """Run replicas until a time, one after the other."""
    for r in range(first, behind):
        if loop.fleet.clocks[r, state.NEXT] >= until or loop.fleet.counts[r, state.HEAD] != r:
            continue
        if not _advance(loop, r, until, False):
            return False
    return True


@compiled
def _advance(loop: Loop, r: int, until: float, to_first_end: bool) -> bool:
    """Run a replica, or the ranks from this one on that wait for each other."""
    fleet, slots, records = loop.fleet, loop.slots, loop.records
    pool = fleet.counts[r, state.POOL]
    own, times = loop.facts[pool], PackedTimes(loop.times.rows, loop.times.cells, loop.times.figures[pool])
    if own.lockstep == 1:
        return advance(view(fleet, r), slots, own, times, until, r, records, to_first_end)
    return advance_together(fleet, r, slots, own, times, until, records, to_first_end)


@compiled
def _arrive(loop: Loop, part: Part, router: int, now: float) -> None:
    """Let the next request arrive, whose time has come."""
    fleet, slots, sources, facts = loop.fleet, loop.slots, loop.sources, loop.facts
    if _next_due(sources) == now:
        slot = pop_due(sources)
        if slots[slot].prefilled_by != state.NOTHING:
            _land(loop, slot, router, now)
            return
        if slots[slot].place != state.NOTHING:
            _queue_in(loop, slot, slots[slot].place, now)
            return
    else:
        if sources.credits.size > 0 and not goes_on(sources, part):
            drop(sources.credits, sources.counts, CREDITS, 0)
        slot = take_slot(sources, slots, part)
        if held_for_turn(sources, slots, slot, now):
            return
    slots[slot].arrival_s = now
    r = _chosen(loop, slot, 0, loop.entries, router, sources.counts[TURN], now)
    own = facts[fleet.counts[r, state.POOL]]
    status = _refused(slots, slot, own, facts[facts.size - 1])
    if status == 0 and _requests(fleet, r) >= own.max_concurrent:
        status = outcome.NOT_ADMITTED
    if status != 0:
        write_down(slots, slot, now, status, state.NOTHING, loop.records)
        return
    if own.role == state.PREFILL:
        slots[slot].further, slots[slot].output = slots[slot].output - 1, 1
    slots[slot].at, slots[slot].order = r, sources.counts[TURN]
    push_deadline(sources, slots, _given_up_s(loop, slot, r), slot, False)
    sources.counts[TURN] += 1
    _note_routed(loop, 0, loop.entries, r, now)
    looked_s = own.request_s + own.request_token_s * slots[slot].prompt
    fleet.clocks[r, state.FRONT] = front_s = max(fleet.clocks[r, state.FRONT] + looked_s, now)
    if front_s == now:
        _queue_in(loop, slot, r, now)
    else:
        slots[slot].place = r
        fleet.counts[r, state.ENTERING] += 1
        push_due(sources, slots, front_s, slot)


@compiled
def _queue_in(loop: Loop, slot: int, r: int, now: float) -> None:
    """Let a request wait in a replica's queue, once the server's process has done as much for all that were there.

    The process takes its tasks in turn, and a request again and again gives way to the others. What it takes for one
    alone is among what passes before the queue in any case (``request_s`` of the times), and done when it is here.
    """
    fleet, slots = loop.fleet, loop.slots
    if slots[slot].place != state.NOTHING:
        if np.isnan(slots[slot].ready_s) and fleet.clocks[r, state.FRONT] > now:
            slots[slot].ready_s = fleet.clocks[r, state.FRONT]
            push_due(loop.sources, slots, slots[slot].ready_s, slot)
            return
        fleet.counts[r, state.ENTERING] -= 1
        slots[slot].place, slots[slot].ready_s = state.NOTHING, np.nan
    own = loop.facts[fleet.counts[r, state.POOL]]
    if fleet.counts[r, state.WAITING] >= own.max_queued:
        write_down(slots, slot, now, outcome.QUEUE_FULL, state.NOTHING, loop.records)
        return
    push_deadline(loop.sources, slots, now + own.queue_s, slot, True)
    append_waiting(view(fleet, r), slots, slot, own.by_priority)
    prefetch(view(fleet, r), slots, slot, own.block_tokens, now)
    _wake(fleet, r, own, now)


@compiled
def _land(loop: Loop, slot: int, router: int, now: float) -> None:
    """Let a request wait to decode, whose keys and values have come."""
    fleet, sources, n = loop.fleet, loop.sources, loop.fleet.counts.shape[0]
    r = _chosen(loop, slot, loop.entries, n, router, sources.counts[LANDED], now)
    sources.counts[LANDED] += 1
    _note_routed(loop, loop.entries, n, r, now)
    loop.slots[slot].at = r
    append_ready(view(fleet, r), loop.slots, slot)
    _wake(fleet, r, loop.facts[fleet.counts[r, state.POOL]], now)


@compiled
def _give_up(loop: Loop, now: float) -> None:
    """End the request whose deadline has come, wherever it is; its replica goes on without it from its next iteration.

    Servers look at what was aborted between iterations (vLLM 0.11, v1/engine/core.py; SGLang 0.5, scheduler.py).
    """
    fleet, slots, sources = loop.fleet, loop.slots, loop.sources
    slot, waits = sources.deadlines[0].slot, sources.deadlines[0].order & 1
    drop(sources.deadlines, sources.counts, DEADLINES, 0)
    r, stage = slots[slot].at, slots[slot].stage
    rep = view(fleet, r)
    if stage == state.ON_ITS_WAY:
        forget_due(sources, slot)
        fleet.counts[r, state.ENTERING] -= slots[slot].prefilled_by == state.NOTHING
    elif stage == state.QUEUED:
        leave_waiting(rep, slots, slot)
    elif stage == state.TO_DECODE:
        leave_ready(rep, slots, slot)
    else:
        abort(rep, slots, slot, loop.facts[fleet.counts[r, state.POOL]])
    fleet.counts[r, state.REPEATS] = 0
    write_down(slots, slot, now, outcome.WAITED if waits else outcome.TIMED_OUT, r, loop.records)


@compiled
def _wake(fleet: Replica, r: int, facts: Facts, now: float) -> None:
    """Let a replica look at what came; one that is idle goes to work, with the ranks that wait for it."""
    fleet.counts[r, state.REPEATS], fleet.clocks[r, state.ARRIVED] = 0, now
    if fleet.clocks[r, state.NEXT] == np.inf:
        head = fleet.counts[r, state.HEAD]
        for rank in range(head, head + facts.lockstep):
            fleet.clocks[rank, state.NEXT] = now


@compiled
def _refused(slots: Slots, slot: int, facts: Facts, others: Facts) -> int:
    """Why a request can never be served; 0 where it can.

    ``others`` are the facts of the last pool, which decodes what replicas that only process prompts begin.
    """
    tokens = slots[slot].prompt + slots[slot].output
    if tokens > facts.context_tokens:
        return outcome.TOO_LONG
    most = tokens - 2
    if facts.role == state.PREFILL:
        if blocks_for(most + others.pass_slots, others.block_tokens) + others.watermark_blocks > others.blocks:
            return outcome.NO_ROOM
        most = slots[slot].prompt - 1
    if blocks_for(most + facts.pass_slots, facts.block_tokens) + facts.watermark_blocks > facts.blocks:
        return outcome.NO_ROOM
    return outcome.OVER_BUDGET if not facts.chunked and slots[slot].prompt > facts.token_budget // facts.stages else 0
