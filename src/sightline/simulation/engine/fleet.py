"""All replicas in time: requests arrive, are routed, and replicas run until the next one does.

Replicas stand pool by pool. Those that decode alone come last: what others send them arrives there like a request.
"""

from typing import Final

import numpy as np

from sightline.simulation.compiled import compiled, entry
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import hits, view
from sightline.simulation.engine.lists import append_ready, append_waiting, drop
from sightline.simulation.engine.replica import advance, advance_together, any_sent, transfer_all, write_down
from sightline.simulation.engine.sequences import blocks_for
from sightline.simulation.engine.sources import (
    CREDITS,
    DUE,
    LANDED,
    READ,
    SESSIONS,
    TAKEN,
    TURN,
    Part,
    Sources,
    held_for_turn,
    note_end,
    pop_due,
    take_slot,
)
from sightline.simulation.engine.state import Facts, FactsOfPools, Records, Replica, Slots
from sightline.simulation.load import Floats
from sightline.simulation.outcome import NO_ROOM, NOT_ADMITTED, OVER_BUDGET, TOO_LONG
from sightline.simulation.times import PackedTimes

ROUTERS: Final = {"round-robin": 0, "least-load": 1, "prefix-aware": 2, "weighted": 3}
"""Numbers by the words of ``plan.router``."""
_ROUND_ROBIN, _LEAST_LOAD, _PREFIX_AWARE = 0, 1, 2
IMBALANCE: Final = (64, 1.5)
"""Requests, and ratio, by which the loads of replicas differ where SGLang's router stops looking at prefixes
(sgl-router: balance_abs_threshold, balance_rel_threshold)."""
CACHED_SHARE: Final = 0.3
"""Share of a prompt that has to be cached for it to count (sgl-router: cache_threshold)."""
WEIGHTS: Final = (2.0, 2.0, 3.0)
"""Of the queue, of the free cache, of the cached prefix: the scorers of the Kubernetes Gateway API inference extension
and llm-d, with the weights of their default configuration."""


@compiled
def route(
    fleet: Replica,
    slots: Slots,
    slot: int,
    facts: FactsOfPools,
    first: int,
    behind: int,
    router: int,
    turn: int,
    now: float,
) -> int:
    """Return the replica from ``first`` to before ``behind`` that a request goes to; at least one of them is there.

    ``facts`` are those of all pools; ``turn`` counts the requests routed to these replicas before.
    """
    if behind - first == 1:
        return first
    if router == _ROUND_ROBIN:
        return _in_turn(fleet, facts, first, behind, now)
    if router == _LEAST_LOAD:
        return _least_loaded(fleet, facts, first, behind, turn, now)
    if router == _PREFIX_AWARE:
        return _by_prefix(fleet, slots, slot, facts, first, behind, turn, now)
    return _by_score(fleet, slots, slot, facts, first, behind, turn, now)


@compiled
def _serves(fleet: Replica, r: int, now: float) -> bool:
    """Whether requests are sent to a replica."""
    return fleet.clocks[r, state.SERVES_FROM] <= now


@compiled
def note_routed(fleet: Replica, facts: FactsOfPools, first: int, behind: int, chosen: int, now: float) -> None:
    """Let every replica of these come nearer to its turn, and the one that got a request wait for its next one."""
    for r in range(first, behind):
        if not _serves(fleet, r, now):
            continue
        speed = facts[fleet.counts[r, state.POOL]].speed
        fleet.clocks[r, state.CREDIT] += speed
        fleet.clocks[chosen, state.CREDIT] -= speed


@compiled
def _in_turn(fleet: Replica, facts: FactsOfPools, first: int, behind: int, now: float) -> int:
    """The replica that lags most behind its share: the smooth weighted round robin of nginx.

    Equal replicas take turns.
    """
    best, most = first, -np.inf
    for r in range(first, behind):
        if not _serves(fleet, r, now):
            continue
        credit = fleet.clocks[r, state.CREDIT] + facts[fleet.counts[r, state.POOL]].speed
        if credit > most:
            best, most = r, credit
    return best


@compiled
def _requests(fleet: Replica, r: int) -> int:
    """Requests that a replica has."""
    return fleet.counts[r, state.RUNNING] + fleet.counts[r, state.WAITING] + fleet.counts[r, state.READY]


@compiled
def _least_loaded(fleet: Replica, facts: FactsOfPools, first: int, behind: int, turn: int, now: float) -> int:
    """The replica that has the fewest requests for its speed, this one included; of several the next in turn."""
    n = behind - first
    best, least = first, -1.0
    for i in range(n):
        r = first + (turn + i) % n
        if not _serves(fleet, r, now):
            continue
        load = (_requests(fleet, r) + 1) / facts[fleet.counts[r, state.POOL]].speed
        if least < 0.0 or load < least:
            best, least = r, load
    return best


@compiled
def _cached_share(fleet: Replica, slots: Slots, slot: int, facts: FactsOfPools, r: int) -> float:
    """Share of the prompt that a replica has in its cache."""
    own = facts[fleet.counts[r, state.POOL]]
    blocks, _ = hits(view(fleet, r), slots, slot, slots[slot].prompt, own)
    return blocks * own.block_tokens / slots[slot].prompt


@compiled
def _by_prefix(
    fleet: Replica, slots: Slots, slot: int, facts: FactsOfPools, first: int, behind: int, turn: int, now: float
) -> int:
    """The replica that has most of the prompt cached, unless loads are out of balance or it has little."""
    least, most = state.MANY, 0
    best, best_share = first, -1.0
    for r in range(first, behind):
        if not _serves(fleet, r, now):
            continue
        least, most = min(least, _requests(fleet, r)), max(most, _requests(fleet, r))
        share = _cached_share(fleet, slots, slot, facts, r)
        if share > best_share:
            best, best_share = r, share
    if (most - least > IMBALANCE[0] and most > IMBALANCE[1] * least) or best_share < CACHED_SHARE:
        return _least_loaded(fleet, facts, first, behind, turn, now)
    return best


@compiled
def _queue(fleet: Replica, facts: FactsOfPools, r: int) -> float:
    """Requests that wait for a replica, for its speed."""
    return (fleet.counts[r, state.WAITING] + fleet.counts[r, state.READY]) / facts[fleet.counts[r, state.POOL]].speed


@compiled
def _by_score(
    fleet: Replica, slots: Slots, slot: int, facts: FactsOfPools, first: int, behind: int, turn: int, now: float
) -> int:
    """The replica with the highest weighted score; of several the next in turn."""
    n = behind - first
    shortest, longest = np.inf, 0.0
    for r in range(first, behind):
        if _serves(fleet, r, now):
            shortest, longest = min(shortest, _queue(fleet, facts, r)), max(longest, _queue(fleet, facts, r))
    best, best_score = first, -1.0
    for i in range(n):
        r = first + (turn + i) % n
        if not _serves(fleet, r, now):
            continue
        queue = 1.0 if longest == shortest else (longest - _queue(fleet, facts, r)) / (longest - shortest)
        room = fleet.counts[r, state.FREE_BLOCKS] / facts[fleet.counts[r, state.POOL]].blocks
        score = WEIGHTS[0] * queue + WEIGHTS[1] * room
        score += WEIGHTS[2] * _cached_share(fleet, slots, slot, facts, r)
        if score > best_score:
            best, best_score = r, score
    return best


# What `run` says when it returns.
SERVED: Final = 0
"""The part of the load is taken; of the last one all requests have ended."""
FULL_RECORDS: Final = 1
"""The records are to be emptied."""
PAUSED: Final = 2
"""The time has come at which the loop was to pause."""


@entry
def run(
    fleet: Replica,
    slots: Slots,
    sources: Sources,
    part: Part,
    facts: FactsOfPools,
    times: PackedTimes,
    transfers: Floats,
    router: int,
    think_s: float,
    records: Records,
    last: bool,
    pause_s: float,
) -> int:
    """Serve a part of the load, to the end of all requests where it is the ``last``.

    ``facts`` and ``times`` are those of all pools. Return why the loop ended: unless `SERVED`, the same part goes on.
    It pauses before anything happens at ``pause_s`` or later, if any request is left by then.
    """
    entries = _entries(fleet, facts)
    while True:
        sources.counts[READ] = _free_slots(fleet, sources, slots, records, times, think_s)
        if sources.counts[TAKEN] == part.size and not last:
            return SERVED
        until = min(_next_of_part(sources, part), _next_due(sources), pause_s)
        if not _advance_all(fleet, slots, sources, facts, times, until, records, entries):
            sources.counts[READ] = _free_slots(fleet, sources, slots, records, times, think_s)
            return FULL_RECORDS
        sent = transfer_all(fleet, slots, sources, transfers, entries) if entries < fleet.counts.shape[0] else 0
        if records.rows[state.REQUESTS] > sources.counts[READ] or sent > 0:
            continue
        if until == np.inf:
            return SERVED
        if until == pause_s:
            return PAUSED if _is_left(fleet, sources, part) else SERVED
        if records.rows[state.REQUESTS] == records.ended.size:
            return FULL_RECORDS
        _arrive(fleet, slots, sources, part, facts, router, until, records, entries)


@compiled
def _entries(fleet: Replica, facts: FactsOfPools) -> int:
    """Replicas that requests arrive at; the others decode what these have begun."""
    others = facts[facts.size - 1]
    return fleet.counts.shape[0] - (others.replicas if others.role == state.DECODE else 0)


@compiled
def _free_slots(
    fleet: Replica, sources: Sources, slots: Slots, records: Records, times: PackedTimes, think_s: float
) -> int:
    """Free the slots of requests that ended since; return how many records were read.

    The loop's times are those at which its requests were sent, ``request_s`` before the engine saw them.
    """
    for i in range(sources.counts[READ], records.rows[state.REQUESTS]):
        slot, r = records.ended[i].slot, records.ended[i].replica
        pool = 0 if r == state.NOTHING else fleet.counts[r, state.POOL]
        note_end(sources, slots, slot, slots[slot].token_s + times.figures[pool].request_s, think_s)
    return records.rows[state.REQUESTS]


@compiled
def _next_of_part(sources: Sources, part: Part) -> float:
    """When the next request of the part is sent; never where a closed loop has no client for it."""
    taken = sources.counts[TAKEN]
    if taken == part.size:
        return np.inf
    if sources.credits.size == 0:
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
def _is_left(fleet: Replica, sources: Sources, part: Part) -> bool:
    """Whether any request is under way or comes later."""
    return min(_next_of_part(sources, part), _next_due(sources), fleet.clocks[_earliest(fleet), state.NEXT]) < np.inf


@compiled
def _advance_all(
    fleet: Replica,
    slots: Slots,
    sources: Sources,
    facts: FactsOfPools,
    times: PackedTimes,
    until: float,
    records: Records,
    entries: int,
) -> bool:
    """Run all replicas until a time, or, where an end may cause an arrival, to the first end.

    Where replicas send what others decode, these wait until all that was sent by then is known.
    """
    answered = sources.credits.size > 0 or sources.counts[SESSIONS] > 0
    if not answered:
        if not _advance_each(fleet, 0, entries, slots, facts, times, until, records):
            return False
        if entries < fleet.counts.shape[0] and any_sent(fleet, 0, entries):
            return True
        return _advance_each(fleet, entries, fleet.counts.shape[0], slots, facts, times, until, records)
    while True:
        first = _earliest(fleet)
        second = np.inf
        for r in range(fleet.counts.shape[0]):
            if fleet.counts[r, state.HEAD] != first:
                second = min(second, fleet.clocks[r, state.NEXT])
        if fleet.clocks[first, state.NEXT] >= until:
            return True
        ends = records.rows[state.REQUESTS]
        horizon = min(until, max(second, np.nextafter(fleet.clocks[first, state.NEXT], np.inf)))
        if not _advance(fleet, first, slots, facts, times, horizon, records, answered):
            return False
        if records.rows[state.REQUESTS] > ends or _has_sent(fleet, first, facts):
            return True


@compiled
def _advance_each(
    fleet: Replica,
    first: int,
    behind: int,
    slots: Slots,
    facts: FactsOfPools,
    times: PackedTimes,
    until: float,
    records: Records,
) -> bool:
    """Run replicas until a time, one after the other."""
    for r in range(first, behind):
        if fleet.clocks[r, state.NEXT] >= until or fleet.counts[r, state.HEAD] != r:
            continue
        if not _advance(fleet, r, slots, facts, times, until, records, False):
            return False
    return True


@compiled
def _has_sent(fleet: Replica, head: int, facts: FactsOfPools) -> bool:
    """Whether ranks that wait for each other have anything to be sent."""
    behind = head + facts[fleet.counts[head, state.POOL]].lockstep
    return any_sent(fleet, head, behind)


@compiled
def _advance(
    fleet: Replica,
    r: int,
    slots: Slots,
    facts: FactsOfPools,
    times: PackedTimes,
    until: float,
    records: Records,
    to_first_end: bool,
) -> bool:
    """Run a replica, or the ranks from this one on that wait for each other."""
    pool = fleet.counts[r, state.POOL]
    own, own_times = facts[pool], PackedTimes(times.rows, times.cells, times.figures[pool])
    if own.lockstep == 1:
        return advance(view(fleet, r), slots, own, own_times, until, r, records, to_first_end)
    return advance_together(fleet, r, slots, own, own_times, until, records, to_first_end)


@compiled
def _arrive(
    fleet: Replica,
    slots: Slots,
    sources: Sources,
    part: Part,
    facts: FactsOfPools,
    router: int,
    now: float,
    records: Records,
    entries: int,
) -> None:
    """Let the next request arrive, whose time has come."""
    if _next_due(sources) == now:
        slot = pop_due(sources)
        if slots[slot].prefilled_by != state.NOTHING:
            _land(fleet, slots, slot, sources, facts, router, now, entries)
            return
    else:
        if sources.credits.size > 0:
            drop(sources.credits, sources.counts, CREDITS, 0)
        slot = take_slot(sources, slots, part)
        if held_for_turn(sources, slots, slot, now):
            return
    slots[slot].arrival_s = now
    r = route(fleet, slots, slot, facts, 0, entries, router, sources.counts[TURN], now)
    own = facts[fleet.counts[r, state.POOL]]
    status = _refused(slots, slot, own, facts[facts.size - 1])
    if status == 0 and fleet.counts[r, state.WAITING] + fleet.counts[r, state.RUNNING] >= own.max_concurrent:
        status = NOT_ADMITTED
    if status != 0:
        write_down(slots, slot, now, status, state.NOTHING, records)
        return
    if own.role == state.PREFILL:
        slots[slot].further, slots[slot].output = slots[slot].output - 1, 1
    slots[slot].order = sources.counts[TURN]
    sources.counts[TURN] += 1
    note_routed(fleet, facts, 0, entries, r, now)
    append_waiting(view(fleet, r), slots, slot, own.by_priority)
    _wake(fleet, r, own, now)


@compiled
def _land(
    fleet: Replica,
    slots: Slots,
    slot: int,
    sources: Sources,
    facts: FactsOfPools,
    router: int,
    now: float,
    entries: int,
) -> None:
    """Let a request wait to decode, whose keys and values have come."""
    n = fleet.counts.shape[0]
    r = route(fleet, slots, slot, facts, entries, n, router, sources.counts[LANDED], now)
    sources.counts[LANDED] += 1
    note_routed(fleet, facts, entries, n, r, now)
    append_ready(view(fleet, r), slots, slot)
    _wake(fleet, r, facts[fleet.counts[r, state.POOL]], now)


@compiled
def _wake(fleet: Replica, r: int, facts: Facts, now: float) -> None:
    """Let a replica look at what came; one that is idle goes to work, with the ranks that wait for it."""
    fleet.counts[r, state.REPEATS], fleet.clocks[r, state.ARRIVED] = 0, now
    if fleet.clocks[r, state.NEXT] == np.inf:
        head = fleet.counts[r, state.HEAD]
        fleet.clocks[head : head + facts.lockstep, state.NEXT] = now


@compiled
def _refused(slots: Slots, slot: int, facts: Facts, others: Facts) -> int:
    """Why a request can never be served; 0 where it can.

    ``others`` are the facts of the last pool, which decodes what replicas that only process prompts begin.
    """
    tokens = slots[slot].prompt + slots[slot].output
    if tokens > facts.context_tokens:
        return TOO_LONG
    most = tokens - 2
    if facts.role == state.PREFILL:
        if blocks_for(most + others.pass_slots, others.block_tokens) + others.watermark_blocks > others.blocks:
            return NO_ROOM
        most = slots[slot].prompt - 1
    if blocks_for(most + facts.pass_slots, facts.block_tokens) + facts.watermark_blocks > facts.blocks:
        return NO_ROOM
    return OVER_BUDGET if not facts.chunked and slots[slot].prompt > facts.token_budget // facts.stages else 0
