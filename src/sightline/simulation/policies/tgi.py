"""Text Generation Inference: a request takes blocks for its prompt and its longest answer at once.

With chunks (3.0 on) an iteration has all decoding sequences and as much of prompts as the budget leaves. Before,
prompts ran whole and alone; while others run they are looked at after a number of decode steps, or when many wait.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.sequences import admit, compute, to_compute, whole_blocks
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    BATCH_PROMPTS,
    DECODING,
    FIRST_WAITING,
    FREE_BLOCKS,
    FULL,
    MANY,
    NOTHING,
    PARTIAL,
    RUNNING,
    SEEN,
    UNSERVED,
    WAITING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    counts = rep.counts
    if facts.chunked:
        counts[BATCH_DECODES] = counts[DECODING]
        budget = facts.token_budget - counts[DECODING] * facts.pass_tokens
        partial = counts[PARTIAL]
        if partial != NOTHING and budget > 0:
            new = min(to_compute(slots, partial) - slots[partial].computed, budget)
            compute(rep, slots, partial, new, facts, times, now)
            budget -= new
        _take_prompts(rep, slots, facts, times, now, budget)
        return MANY
    due = counts[UNSERVED] + 1 >= facts.wait_steps
    running, looks = counts[RUNNING], not (counts[FULL] and counts[DECODING] > 0)
    if looks and (running == 0 or due or _fitting(rep, slots, facts) >= max(_wanted(rep, facts), 1)):
        _take_prompts(rep, slots, facts, times, now, facts.token_budget)
    # After prompts that came between, the others decode before prompts are looked at again.
    counts[FULL] = counts[BATCH_PROMPTS] > 0 and running > 0
    if counts[BATCH_PROMPTS] > 0:
        return 0
    counts[BATCH_DECODES] = counts[DECODING]
    return MANY if (due and looks) or counts[WAITING] == 0 else 0


@compiled
def _wanted(rep: Replica, facts: Facts) -> int:
    """Waiting requests that end the wait for the next look."""
    return int(facts.waiting_share * rep.counts[RUNNING])


@compiled
def _fitting(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Waiting requests that could be taken now, in order."""
    fitting = tokens = 0
    free, slot = rep.counts[FREE_BLOCKS], rep.counts[FIRST_WAITING]
    while slot != NOTHING and rep.counts[RUNNING] + fitting < facts.max_sequences:
        tokens += slots[slot].prompt
        free -= whole_blocks(slots, slot, facts)
        if tokens > facts.token_budget or free < 0:
            break
        fitting += 1
        slot = slots[slot].following
    return fitting


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Admit waiting requests in order while budget, sequences and blocks last."""
    while rep.counts[WAITING] > 0 and budget > 0 and rep.counts[RUNNING] < facts.max_sequences:
        slot = rep.counts[FIRST_WAITING]
        cached = unheld = 0
        if facts.prefix_cache:
            cached, unheld = hits(rep, slots, slot, slots[slot].prompt, facts.block_tokens)
        rest = slots[slot].prompt - cached * facts.block_tokens
        need = whole_blocks(slots, slot, facts) - cached + unheld
        unseen = slots[slot].arrival_s > rep.clocks[SEEN]
        if unseen or need > rep.counts[FREE_BLOCKS] or (rest > budget and not facts.chunked):
            return
        new = min(rest, budget)
        admit(rep, slots, slot, cached, facts, rep.counts[ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        budget -= new
