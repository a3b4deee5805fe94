"""Which of some replicas a request goes to, by what the router sees when it comes.

Replicas that are unlike count by their speed: one that answers twice as many requests in a time may have twice as many.
Those that have not started yet, or that only finish what they have, are passed over.
"""

from typing import Final

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits, view
from sightline.simulation.engine.state import (
    CREDIT,
    FREE_BLOCKS,
    MANY,
    POOL,
    READY,
    RUNNING,
    SERVES_FROM,
    WAITING,
    FactsOfPools,
    Replica,
    Slots,
)

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
    return fleet.clocks[r, SERVES_FROM] <= now


@compiled
def note_routed(fleet: Replica, facts: FactsOfPools, first: int, behind: int, chosen: int, now: float) -> None:
    """Let every replica of these come nearer to its turn, and the one that got a request wait for its next one."""
    for r in range(first, behind):
        if not _serves(fleet, r, now):
            continue
        speed = facts[fleet.counts[r, POOL]].speed
        fleet.clocks[r, CREDIT] += speed
        fleet.clocks[chosen, CREDIT] -= speed


@compiled
def _in_turn(fleet: Replica, facts: FactsOfPools, first: int, behind: int, now: float) -> int:
    """The replica that lags most behind its share: the smooth weighted round robin of nginx.

    Equal replicas take turns.
    """
    best, most = first, -np.inf
    for r in range(first, behind):
        if not _serves(fleet, r, now):
            continue
        credit = fleet.clocks[r, CREDIT] + facts[fleet.counts[r, POOL]].speed
        if credit > most:
            best, most = r, credit
    return best


@compiled
def _requests(fleet: Replica, r: int) -> int:
    """Requests that a replica has."""
    return fleet.counts[r, RUNNING] + fleet.counts[r, WAITING] + fleet.counts[r, READY]


@compiled
def _least_loaded(fleet: Replica, facts: FactsOfPools, first: int, behind: int, turn: int, now: float) -> int:
    """The replica that has the fewest requests for its speed, this one included; of several the next in turn."""
    n = behind - first
    best, least = first, -1.0
    for i in range(n):
        r = first + (turn + i) % n
        if not _serves(fleet, r, now):
            continue
        load = (_requests(fleet, r) + 1) / facts[fleet.counts[r, POOL]].speed
        if least < 0.0 or load < least:
            best, least = r, load
    return best


@compiled
def _cached_share(fleet: Replica, slots: Slots, slot: int, facts: FactsOfPools, r: int) -> float:
    """Share of the prompt that a replica has in its cache."""
    own = facts[fleet.counts[r, POOL]]
    if own.prefix_cache == 0:
        return 0.0
    blocks, _ = hits(view(fleet, r), slots, slot, slots[slot].prompt, own.block_tokens)
    return blocks * own.block_tokens / slots[slot].prompt


@compiled
def _by_prefix(
    fleet: Replica, slots: Slots, slot: int, facts: FactsOfPools, first: int, behind: int, turn: int, now: float
) -> int:
    """The replica that has most of the prompt cached, unless loads are out of balance or it has little."""
    least, most = MANY, 0
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
    return (fleet.counts[r, WAITING] + fleet.counts[r, READY]) / facts[fleet.counts[r, POOL]].speed


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
        room = fleet.counts[r, FREE_BLOCKS] / facts[fleet.counts[r, POOL]].blocks
        score = WEIGHTS[0] * queue + WEIGHTS[1] * room
        score += WEIGHTS[2] * _cached_share(fleet, slots, slot, facts, r)
        if score > best_score:
            best, best_score = r, score
    return best
