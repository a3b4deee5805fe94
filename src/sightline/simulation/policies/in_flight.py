"""In-flight batching with a promise: TensorRT-LLM's GUARANTEED_NO_EVICT, and Orca.

A request is admitted if blocks for its prompt and its longest answer fit beside what the running sequences may still
take. An iteration has all decoding sequences, and prompts while their tokens fit in the budget.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.sequences import admit, compute, grow, to_compute, whole_blocks
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    BATCH_TOKENS,
    DECODING,
    FIRST_WAITING,
    FREE_BLOCKS,
    MANY,
    NOTHING,
    PARTIAL,
    PROMISED,
    RUNNING,
    SEEN,
    WAITING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    counts, block = rep.counts, facts.block_tokens
    grow(rep, slots, facts)
    counts[BATCH_DECODES] = counts[DECODING]
    budget = facts.token_budget - counts[DECODING] * facts.pass_tokens
    partial = counts[PARTIAL]
    if partial != NOTHING and budget > 0:
        new = _chunk(to_compute(slots, partial) - slots[partial].computed, budget, facts)
        if new > 0:
            compute(rep, slots, partial, new, facts, times, now)
            budget -= new
    while counts[WAITING] > 0 and budget > 0 and counts[RUNNING] < facts.max_sequences:
        slot = counts[FIRST_WAITING]
        cached = unheld = 0
        if facts.prefix_cache:
            cached, unheld = hits(rep, slots, slot, slots[slot].prompt, block)
        rest = slots[slot].prompt - cached * block
        new = _chunk(rest, budget, facts)
        want = whole_blocks(slots, slot, facts) - cached + unheld
        unseen = slots[slot].arrival_s > rep.clocks[SEEN]
        if unseen or want + counts[PROMISED] > counts[FREE_BLOCKS] or new == 0:
            break
        admit(rep, slots, slot, cached, facts, counts[ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        budget -= new
    return MANY if counts[BATCH_TOKENS] == 0 else 0


@compiled
def _chunk(rest: int, budget: int, facts: Facts) -> int:
    """The tokens of a prompt that an iteration takes: all, or whole blocks where prompts are cut, or none."""
    if rest <= budget:
        return rest
    return budget // facts.block_tokens * facts.block_tokens if facts.chunked else 0
