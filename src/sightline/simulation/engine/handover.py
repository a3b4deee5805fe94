"""From replicas that process prompts to replicas that decode: what is sent, and what is taken in.

A request whose prompt was processed leaves its replica. Its keys and values cross the network, one request after the
other on the ports of a node, and it joins the decoding sequences of another replica once that has room for it.
"""

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import view
from sightline.simulation.engine.lists import append_sent, leave_ready, leave_sent
from sightline.simulation.engine.sequences import begin_decoding, blocks_for, coming_blocks, join, whole_blocks
from sightline.simulation.engine.sources import Sources, push_due
from sightline.simulation.engine.state import (
    ADMITTED,
    ANSWER,
    FIRST_READY,
    FIRST_SENT,
    FREE_BLOCKS,
    NOTHING,
    PORT,
    PORT_FREE,
    PROMISED,
    RUNNING,
    SEEN,
    WAITING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.load import Floats
from sightline.simulation.times import CONTEXT_BITS, place_on


@compiled
def send(rep: Replica, slots: Slots, slot: int, number: int) -> None:
    """Let a request whose prompt a replica has processed go on elsewhere; the replica keeps nothing of it."""
    slots[slot].prefilled_by, slots[slot].prefilled_s = number, slots[slot].token_s
    slots[slot].output += slots[slot].further
    slots[slot].further = 0
    append_sent(rep, slots, slot)


@compiled
def any_sent(fleet: Replica, first: int, behind: int) -> bool:
    """Return whether any replica from ``first`` to before ``behind`` has something that is to be sent."""
    r = first
    while r < behind and fleet.counts[r, FIRST_SENT] == NOTHING:
        r += 1
    return r < behind


@compiled
def transfer_all(fleet: Replica, slots: Slots, sources: Sources, transfers: Floats, prefilling: int) -> int:
    """Send what the first ``prefilling`` replicas have processed, in order of time; return how many requests.

    ``transfers`` are seconds by prompt tokens. All that was processed until now is known.
    """
    sent = 0
    while True:
        first, earliest = NOTHING, np.inf
        for r in range(prefilling):
            slot = fleet.counts[r, FIRST_SENT]
            if slot != NOTHING and slots[slot].token_s < earliest:
                first, earliest = r, slots[slot].token_s
        if first == NOTHING:
            return sent
        slot = leave_sent(view(fleet, first), slots)
        port = fleet.counts[first, PORT]
        begin_s = max(earliest, fleet.clocks[port, PORT_FREE])
        fleet.clocks[port, PORT_FREE] = begin_s + transfer_seconds(transfers, slots[slot].prompt)
        slots[slot].ready_s = fleet.clocks[port, PORT_FREE]
        push_due(sources, slots, slots[slot].ready_s, slot)
        sent += 1


@compiled
def transfer_seconds(transfers: Floats, tokens: int) -> float:
    """Return the seconds that the keys and values of a prompt take."""
    at, share = place_on(CONTEXT_BITS, transfers.size, 1.0 * tokens)
    seconds: float = transfers[at] + share * (transfers[at + 1] - transfers[at])
    return seconds


@compiled
def take_in(rep: Replica, slots: Slots, facts: Facts, now: float) -> None:
    """Let requests decode whose keys and values are there, in order, while places and blocks last.

    Those that were put off go before them: their tokens are computed here once more.
    """
    while rep.counts[WAITING] == 0 and rep.counts[RUNNING] < facts.max_sequences:
        slot = rep.counts[FIRST_READY]
        if slot == NOTHING or slots[slot].ready_s > rep.clocks[SEEN] or not _has_room(rep, slots, slot, facts):
            return
        leave_ready(rep, slots)
        if facts.computes_last:
            slots[slot].generated = 0
        else:
            slots[slot].first_s = slots[slot].token_s = now
        slots[slot].computed = slots[slot].prompt - facts.computes_last
        join(rep, slots, slot, facts, rep.counts[ADMITTED])
        begin_decoding(rep, slots, slot, facts)


@compiled
def _has_room(rep: Replica, slots: Slots, slot: int, facts: Facts) -> bool:
    """Whether free blocks hold a prompt and its next token, next to what running sequences are to have."""
    free, block = rep.counts[FREE_BLOCKS], facts.block_tokens
    if facts.reserves == ANSWER:
        return whole_blocks(slots, slot, facts) + rep.counts[PROMISED] <= free
    kept = blocks_for(facts.decode_tokens * rep.counts[RUNNING], block)
    kept = max(kept, coming_blocks(rep, slots, facts))
    need = blocks_for(slots[slot].prompt + max(facts.decode_tokens, 1), block)
    # With nothing running a request has the cache to itself.
    if rep.counts[RUNNING] == 0:
        need = min(need, whole_blocks(slots, slot, facts))
    return need + kept + facts.watermark_blocks <= free
