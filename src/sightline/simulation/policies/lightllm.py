"""LightLLM: whole prompts run alone while the estimated peak of all sequences fits in the cache.

Every sequence's length is known from its longest answer, so that the peak is exact where answers are as long as they
may be, and nothing is ever put off.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.sequences import admit, cached_of, compute, grow, tokens_of
from sightline.simulation.engine.state import (
    ADMITTED,
    BATCH_DECODES,
    BATCH_PROMPTS,
    DECODING,
    FIRST_RUNNING,
    FIRST_WAITING,
    MANY,
    NOTHING,
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
    if counts[WAITING] > 0 and (counts[RUNNING] == 0 or counts[UNSERVED] >= facts.wait_steps):
        _take_prompts(rep, slots, facts, times, now)
    if counts[BATCH_PROMPTS] > 0:
        return 0
    grow(rep, slots, facts)
    counts[BATCH_DECODES] = counts[DECODING]
    return MANY if counts[WAITING] == 0 else 0


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> None:
    """Admit waiting requests in order, whole, while budget, sequences and the estimated peak allow."""
    left = facts.token_budget
    running = _note_lengths(rep, slots, facts)
    while rep.counts[WAITING] > 0 and rep.counts[RUNNING] < facts.max_sequences:
        slot = rep.counts[FIRST_WAITING]
        if slots[slot].arrival_s > rep.clocks[SEEN] or slots[slot].prompt > left:
            return
        _note_length(rep, running, slots[slot].prompt, slots[slot].output - 1)
        running += 1
        if _peak(rep, running) > facts.blocks * facts.block_tokens:
            return
        cached = 0
        if facts.prefix_cache:
            cached, _ = hits(rep, slots, slot, slots[slot].prompt, facts.block_tokens)
        admit(rep, slots, slot, cached, facts, rep.counts[ADMITTED])
        compute(rep, slots, slot, slots[slot].prompt - cached * facts.block_tokens, facts, times, now)
        left -= slots[slot].prompt


@compiled
def _note_lengths(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Note tokens so far and tokens to come of the running sequences; return how many these are."""
    i, slot = 0, rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        to_come = slots[slot].output - tokens_of(rep, slots, slot, facts)
        _note_length(rep, i, cached_of(rep, slots, slot, facts), to_come)
        i, slot = i + 1, slots[slot].following
    return i


@compiled
def _note_length(rep: Replica, noted: int, tokens: int, to_come: int) -> None:
    """Note a sequence among others, of which those with the most tokens to come stand first."""
    at = noted
    while at > 0 and rep.stacks[at - 1].to_come < to_come:
        rep.stacks[at].tokens, rep.stacks[at].to_come = rep.stacks[at - 1].tokens, rep.stacks[at - 1].to_come
        at -= 1
    rep.stacks[at].tokens, rep.stacks[at].to_come = tokens, to_come


@compiled
def _peak(rep: Replica, noted: int) -> int:
    """The most tokens that sequences ever have together, from what each has and what each will yet have.

    When the one that ends as the i-th from last ends, i sequences are left, which have each grown by as much.
    """
    most = so_far = 0
    for i in range(noted):
        so_far += rep.stacks[i].tokens
        most = max(most, so_far + (i + 1) * rep.stacks[i].to_come)
    return most
