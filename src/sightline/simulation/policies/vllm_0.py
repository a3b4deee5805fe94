"""vLLM before v1: an iteration has whole prompts, or else every running sequence decodes.

Prompts go first, in order of arrival, and leave a share of the blocks free. A decoding sequence needs a free block at
its turn, whether or not its token begins one; where none is free, the sequence that arrived last is put off.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.sequences import (
    admit,
    blocks_for,
    coming_blocks,
    compute,
    grow,
    grow_one,
    put_off,
    to_compute,
)
from sightline.simulation.engine.state import (
    BATCH_DECODES,
    BATCH_PROMPTS,
    BATCH_TOKENS,
    DECODING,
    FIRST_RUNNING,
    FIRST_WAITING,
    FREE_BLOCKS,
    LAST_RUNNING,
    MANY,
    NOTHING,
    RUNNING,
    WAITING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    while rep.counts[WAITING] > 0 and rep.counts[RUNNING] < facts.max_sequences:
        slot = rep.counts[FIRST_WAITING]
        tokens = to_compute(slots, slot)
        if rep.counts[BATCH_TOKENS] + tokens > facts.token_budget and rep.counts[BATCH_PROMPTS] > 0:
            break
        if blocks_for(tokens, facts.block_tokens) + facts.watermark_blocks > rep.counts[FREE_BLOCKS]:
            break
        admit(rep, slots, slot, 0, facts, slots[slot].order)
        compute(rep, slots, slot, tokens, facts, times, now)
    if rep.counts[BATCH_PROMPTS] > 0:
        return 0
    settled = _give_blocks(rep, slots, facts)
    rep.counts[BATCH_DECODES] = rep.counts[DECODING]
    return MANY if settled else 0


@compiled
def _give_blocks(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Give decoding sequences the blocks of their coming tokens; return False where others had to be put off."""
    if coming_blocks(rep, slots, facts) < rep.counts[FREE_BLOCKS]:
        grow(rep, slots, facts)
        return True
    settled, slot = True, rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        while rep.counts[FREE_BLOCKS] == 0 and slots[slot].place != NOTHING:
            put_off(rep, slots, rep.counts[LAST_RUNNING], 0, facts, False)
            settled = False
        if slots[slot].place == NOTHING:
            return False
        grow_one(rep, slots, slot, facts)
        slot = slots[slot].following
    return settled
