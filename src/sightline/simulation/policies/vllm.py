"""vLLM's v1 scheduler: every iteration has a token budget that decoding sequences share with prompts.

Running sequences go first, in the order in which they were admitted; a prompt that the budget cuts is finished before
others begin. Where blocks run out, the sequence admitted last - or the least important one - is put off. Requests are
admitted while budget, sequences and blocks last, but not in an iteration that put others off.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.lists import first_seen, waits_first
from sightline.simulation.engine.sequences import (
    admit,
    blocks_for,
    coming_blocks,
    compute,
    decodes,
    grow,
    grow_one,
    needed_blocks,
    put_off,
    to_compute,
)
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    DECODING,
    FIRST_RUNNING,
    FREE_BLOCKS,
    LAST_RUNNING,
    MANY,
    NOTHING,
    PARTIAL,
    PROMPT,
    RUNNING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    settled = _give_blocks(rep, slots, facts)
    rep.counts[BATCH_DECODES] = rep.counts[DECODING]
    budget = facts.token_budget - rep.counts[DECODING] * facts.pass_tokens
    partial = rep.counts[PARTIAL]
    if partial != NOTHING and budget > 0:
        new = min(to_compute(slots, partial) - slots[partial].computed, budget)
        need = blocks_for(slots[partial].computed + new, facts.block_tokens)
        need -= blocks_for(slots[partial].computed, facts.block_tokens)
        while rep.counts[FREE_BLOCKS] < need and rep.counts[PARTIAL] == partial:
            settled = False
            victim = _least_important(rep, slots, facts)
            budget += decodes(slots, victim) * facts.pass_tokens
            put_off(rep, slots, victim, _granted(rep, slots, victim, facts), facts, False)
            rep.counts[BATCH_DECODES] = rep.counts[DECODING]
        if rep.counts[PARTIAL] == partial:
            compute(rep, slots, partial, new, facts, times, now)
            budget -= new
    if settled:
        _admit_waiting(rep, slots, facts, times, now, budget)
    return MANY if settled else 0


@compiled
def _admit_waiting(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Admit waiting requests while all limits allow, in order."""
    while budget > 0 and rep.counts[RUNNING] < facts.max_sequences:
        slot = first_seen(rep, slots)
        if slot == NOTHING:
            return
        tokens = to_compute(slots, slot)
        cached = unheld = 0
        if facts.prefix_cache:
            cached, unheld = hits(rep, slots, slot, tokens, facts.block_tokens)
        before = cached * facts.block_tokens
        new = min(tokens - before, budget)
        if new < tokens - before and not facts.chunked:
            return
        fitting = tokens if facts.reserves == PROMPT else before + new
        need = blocks_for(fitting, facts.block_tokens) - cached
        if need + unheld + facts.watermark_blocks > rep.counts[FREE_BLOCKS]:
            return
        admit(rep, slots, slot, cached, facts, rep.counts[ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        budget -= new


@compiled
def _granted(rep: Replica, slots: Slots, slot: int, facts: Facts) -> int:
    """Blocks that a sequence was given for its coming token, where it does not count its blocks itself."""
    return needed_blocks(rep, slots, slot, facts) if facts.pass_tokens == 1 else 0


@compiled
def _give_blocks(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Give decoding sequences the blocks of their coming tokens; return False where others had to be put off."""
    if coming_blocks(rep, slots, facts) <= rep.counts[FREE_BLOCKS]:
        grow(rep, slots, facts)
        return True
    slot = rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        behind = slots[slot].following
        need = needed_blocks(rep, slots, slot, facts)
        while rep.counts[FREE_BLOCKS] < need and slots[slot].place != NOTHING:
            victim = _least_important(rep, slots, facts)
            given = _granted(rep, slots, victim, facts) if slots[victim].order < slots[slot].order else 0
            put_off(rep, slots, victim, given, facts, False)
            if victim != slot:
                behind = slots[slot].following
        if slots[slot].place != NOTHING:
            grow_one(rep, slots, slot, facts)
        slot = behind
    return False


@compiled
def _least_important(rep: Replica, slots: Slots, facts: Facts) -> int:
    """The running sequence that is put off next."""
    last = rep.counts[LAST_RUNNING]
    if facts.by_priority:
        slot = slots[last].preceding
        while slot != NOTHING:
            if waits_first(slots, last, slot):
                last = slot
            slot = slots[slot].preceding
    return last
