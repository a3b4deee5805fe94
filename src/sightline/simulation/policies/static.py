"""Static batching: the first waiting requests that fit together run until the last of them is done.

Those that are done earlier stay in the batch; their work goes on and is thrown away. Nobody joins.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.sequences import admit, compute, whole_blocks
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    BATCH_PROMPTS,
    DECODING,
    FIRST_WAITING,
    FREE_BLOCKS,
    MANY,
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
    counts = rep.counts
    if counts[RUNNING] == 0:
        while counts[WAITING] > 0 and counts[RUNNING] < facts.max_sequences:
            slot = counts[FIRST_WAITING]
            if whole_blocks(slots, slot, facts) > counts[FREE_BLOCKS]:
                break
            admit(rep, slots, slot, 0, facts, counts[ADMITTED])
            compute(rep, slots, slot, slots[slot].prompt, facts, times, now)
    counts[BATCH_DECODES] = counts[DECODING] if counts[BATCH_PROMPTS] == 0 else 0
    return MANY
