"""Continuous batching of `transformers serve`: decoding sequences, unfinished prompts and waiting requests, in order.

Each takes its token, or as much of its prompt as the budget leaves, if there are blocks; else the next one is tried.
Few free blocks end the search for prompts. Sequences that got no block let the last of them be put off.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.sequences import (
    admit,
    blocks_for,
    coming_blocks,
    compute,
    decodes,
    grow,
    put_off,
    to_compute,
)
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    BATCH_PROMPTS,
    DECODING,
    ENDS,
    FIRST_RUNNING,
    FIRST_WAITING,
    FREE_BLOCKS,
    FULL,
    LAST_RUNNING,
    MANY,
    NOTHING,
    RUNNING,
    SEEN,
    UNFINISHED,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    counts = rep.counts
    if counts[FULL] and (counts[ENDS] > 0 or counts[RUNNING] == 0):
        counts[FULL] = 0
    counts[ENDS] = 0
    settled = _make_room(rep, slots, facts)
    grow(rep, slots, facts)
    counts[BATCH_DECODES] = counts[DECODING]
    _take_prompts(rep, slots, facts, times, now, facts.token_budget - counts[DECODING])
    return MANY if settled else 0


@compiled
def _make_room(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Put sequences off, the last first, until the others have room for a token each; return whether none had to be."""
    settled = True
    while coming_blocks(rep, slots, facts) > rep.counts[FREE_BLOCKS] and rep.counts[RUNNING] > 1:
        victim = rep.counts[LAST_RUNNING]
        put_off(rep, slots, victim, 0, facts, True)
        rep.counts[FULL] = 1
        rep.counts[ENDS] = 0
        settled = False
    return settled


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Go on with unfinished prompts, then admit waiting requests, while budget and blocks last."""
    slot = rep.counts[FIRST_RUNNING] if rep.counts[UNFINISHED] > 0 else NOTHING
    while slot != NOTHING and budget > 0:
        if slots[slot].computed < to_compute(slots, slot) and not decodes(slots, slot):
            new = min(to_compute(slots, slot) - slots[slot].computed, budget)
            if _fits(rep, slots[slot].computed, new, 0, facts):
                compute(rep, slots, slot, new, facts, times, now)
                budget -= new
        slot = slots[slot].following
    slot = NOTHING if rep.counts[FULL] else rep.counts[FIRST_WAITING]
    while slot != NOTHING and budget > 0 and rep.counts[RUNNING] < facts.max_sequences:
        behind = slots[slot].following
        if slots[slot].arrival_s > rep.clocks[SEEN]:
            return
        if rep.counts[FREE_BLOCKS] < facts.watermark_blocks and rep.counts[BATCH_DECODES] + rep.counts[BATCH_PROMPTS]:
            return
        cached = unheld = 0
        if facts.prefix_cache:
            cached, unheld = hits(rep, slots, slot, to_compute(slots, slot), facts.block_tokens)
        before = cached * facts.block_tokens
        new = min(to_compute(slots, slot) - before, budget)
        if _fits(rep, before, new, unheld, facts):
            admit(rep, slots, slot, cached, facts, rep.counts[ADMITTED])
            compute(rep, slots, slot, new, facts, times, now)
            budget -= new
        slot = behind


@compiled
def _fits(rep: Replica, before: int, new: int, unheld: int, facts: Facts) -> bool:
    """Whether there are blocks for a chunk of a prompt behind ``before`` tokens."""
    need = blocks_for(before + new, facts.block_tokens) - blocks_for(before, facts.block_tokens)
    return need + unheld <= rep.counts[FREE_BLOCKS]
