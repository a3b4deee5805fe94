"""Schedulers that take blocks as sequences grow, and put sequences off where blocks run out.

Each forms an iteration and returns how often it may be repeated if nothing ends, arrives or runs out.
"""

from typing import Final

from sightline.simulation.compiled import compiled
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.lists import first_seen, sort_by_found, waits_first
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
    tokens_of,
)
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.times import PackedTimes


@compiled
def schedule_vllm(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """VLLM's v1 scheduler: every iteration has a token budget that decoding sequences share with prompts.

    Running sequences go first, in the order in which they were admitted; a prompt that the budget cuts is finished
    before others begin. Where blocks run out, the sequence admitted last - or the least important one - is put off.
    Requests are admitted while budget, sequences and blocks last, but not in an iteration that put others off.
    """
    settled = _give_blocks(rep, slots, facts)
    rep.counts[state.BATCH_DECODES] = rep.counts[state.DECODING]
    budget = facts.token_budget - rep.counts[state.DECODING] * facts.pass_tokens
    partial = rep.counts[state.PARTIAL]
    if partial != state.NOTHING and budget > 0:
        new = min(to_compute(slots, partial) - slots[partial].computed, budget)
        need = blocks_for(slots[partial].computed + new, facts.block_tokens)
        need -= blocks_for(slots[partial].computed, facts.block_tokens)
        while rep.counts[state.FREE_BLOCKS] < need and rep.counts[state.PARTIAL] == partial:
            settled = False
            victim = _least_important(rep, slots, facts)
            budget += decodes(slots, victim) * facts.pass_tokens
            put_off(rep, slots, victim, _granted(rep, slots, victim, facts), facts, False)
            rep.counts[state.BATCH_DECODES] = rep.counts[state.DECODING]
        if rep.counts[state.PARTIAL] == partial:
            compute(rep, slots, partial, new, facts, times, now)
            budget -= new
    if settled:
        _admit_waiting(rep, slots, facts, times, now, budget)
    return state.MANY if settled else 0


@compiled
def _admit_waiting(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Admit waiting requests while all limits allow, in order."""
    while budget > 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        slot = first_seen(rep, slots)
        if slot == state.NOTHING:
            return
        tokens = to_compute(slots, slot)
        cached, unheld = hits(rep, slots, slot, tokens, facts)
        before = cached * facts.block_tokens
        new = min(tokens - before, budget)
        if new < tokens - before and not facts.chunked:
            return
        fitting = tokens if facts.reserves == state.PROMPT else before + new
        need = blocks_for(fitting, facts.block_tokens) - cached
        if need + unheld + facts.watermark_blocks > rep.counts[state.FREE_BLOCKS]:
            return
        admit(rep, slots, slot, cached, facts, rep.counts[state.ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        budget -= new


@compiled
def _granted(rep: Replica, slots: Slots, slot: int, facts: Facts) -> int:
    """Blocks that a sequence was given for its coming token, where it does not count its blocks itself."""
    return needed_blocks(rep, slots, slot, facts) if facts.pass_tokens == 1 else 0


@compiled
def _give_blocks(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Give decoding sequences the blocks of their coming tokens; return False where others had to be put off."""
    if coming_blocks(rep, slots, facts) <= rep.counts[state.FREE_BLOCKS]:
        grow(rep, slots, facts)
        return True
    slot = rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        behind = slots[slot].following
        need = needed_blocks(rep, slots, slot, facts)
        while rep.counts[state.FREE_BLOCKS] < need and slots[slot].place != state.NOTHING:
            victim = _least_important(rep, slots, facts)
            given = _granted(rep, slots, victim, facts) if slots[victim].order < slots[slot].order else 0
            put_off(rep, slots, victim, given, facts, False)
            if victim != slot:
                behind = slots[slot].following
        if slots[slot].place != state.NOTHING:
            grow_one(rep, slots, slot, facts)
        slot = behind
    return False


@compiled
def _least_important(rep: Replica, slots: Slots, facts: Facts) -> int:
    """The running sequence that is put off next."""
    last = rep.counts[state.LAST_RUNNING]
    if facts.by_priority:
        slot = slots[last].preceding
        while slot != state.NOTHING:
            if waits_first(slots, last, slot):
                last = slot
            slot = slots[slot].preceding
    return last


@compiled
def schedule_vllm_0(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """VLLM before v1: an iteration has whole prompts, or else every running sequence decodes.

    Prompts go first, in order of arrival, and leave a share of the blocks free. A decoding sequence needs a free block
    at its turn, whether or not its token begins one; where none is free, the sequence that arrived last is put off.
    """
    while rep.counts[state.WAITING] > 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        slot = rep.counts[state.FIRST_WAITING]
        tokens = to_compute(slots, slot)
        if rep.counts[state.BATCH_TOKENS] + tokens > facts.token_budget and rep.counts[state.BATCH_PROMPTS] > 0:
            break
        if blocks_for(tokens, facts.block_tokens) + facts.watermark_blocks > rep.counts[state.FREE_BLOCKS]:
            break
        admit(rep, slots, slot, 0, facts, slots[slot].order)
        compute(rep, slots, slot, tokens, facts, times, now)
    if rep.counts[state.BATCH_PROMPTS] > 0:
        return 0
    settled = _give_spare_blocks(rep, slots, facts)
    rep.counts[state.BATCH_DECODES] = rep.counts[state.DECODING]
    return state.MANY if settled else 0


@compiled
def _give_spare_blocks(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Give decoding sequences the blocks of their coming tokens; return False where others had to be put off."""
    if coming_blocks(rep, slots, facts) < rep.counts[state.FREE_BLOCKS]:
        grow(rep, slots, facts)
        return True
    settled, slot = True, rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        while rep.counts[state.FREE_BLOCKS] == 0 and slots[slot].place != state.NOTHING:
            put_off(rep, slots, rep.counts[state.LAST_RUNNING], 0, facts, False)
            settled = False
        if slots[slot].place == state.NOTHING:
            return False
        grow_one(rep, slots, slot, facts)
        slot = slots[slot].following
    return settled


LONGEST_ANSWER: Final = 4096
"""Tokens of an answer that admission counts at most (``CLIP_MAX_NEW_TOKENS``)."""
LOOKED_THROUGH: Final = 128
"""Waiting requests up to which those with the longest cached prefix go first."""
RETRACT_STEPS: Final = 20
"""Decode steps for which room is wanted after sequences were put off."""


@compiled
def schedule_sglang(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """SGLang: an iteration has chunks of prompts, or else every running sequence decodes.

    A request is admitted if its prompt and its answer fit beside a share of what running sequences may still generate.
    The share falls while nothing has to be put off and rises when it was too low. Once a request does not fit, no other
    is tried until a sequence has ended.
    """
    counts = rep.counts
    if counts[state.RUNNING] == 0:
        counts[state.FULL] = counts[state.ENDS] = 0
        if counts[state.WAITING] == 0:
            _set_share(rep, facts.answer_share, counts[state.STEPS])
    if counts[state.PARTIAL] != state.NOTHING or not counts[state.FULL]:
        _take_prompts(rep, slots, facts, times, now)
    if counts[state.BATCH_PROMPTS] > 0:
        return 0
    settled = counts[state.ENDS] == 0
    if counts[state.ENDS] > 0:
        counts[state.FULL] = counts[state.ENDS] = 0
    if counts[state.DECODING] > 0:
        settled = _make_room(rep, slots, facts) and settled
        grow(rep, slots, facts)
    counts[state.BATCH_DECODES] = counts[state.DECODING]
    return state.MANY if settled and counts[state.PARTIAL] == state.NOTHING else 0


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> None:
    """Take chunks of prompts into the iteration: of the unfinished one first, then of waiting requests in order."""
    chunk, prefill = facts.token_budget, facts.prefill_tokens
    room = rep.counts[state.FREE_BLOCKS] * facts.block_tokens - _share(rep, facts) * _to_come(rep, slots, facts)
    partial = rep.counts[state.PARTIAL]
    if partial != state.NOTHING:
        rest = to_compute(slots, partial) - slots[partial].computed
        new = _cut(rest, min(chunk, int(room)), facts)
        if new > 0:
            compute(rep, slots, partial, new, facts, times, now)
            taken = _pages(new, facts)
            chunk, prefill = chunk - taken, prefill - taken
            room -= taken + facts.block_tokens + (_answer(slots, partial) if new == rest else 0)
    _sort_waiting(rep, slots, facts)
    while chunk > 0 and room > 0 and rep.counts[state.PARTIAL] == state.NOTHING:
        slot = first_seen(rep, slots)
        if slot == state.NOTHING:
            return
        if rep.counts[state.RUNNING] >= facts.max_sequences:
            rep.counts[state.FULL] = 1
            return
        cached, unheld = hits(rep, slots, slot, to_compute(slots, slot), facts)
        extend = to_compute(slots, slot) - cached * facts.block_tokens
        room -= unheld * facts.block_tokens
        if rep.counts[state.RUNNING] > 0 and extend + _answer(slots, slot) + facts.block_tokens >= room:
            rep.counts[state.FULL] = 1
            return
        if rep.counts[state.BATCH_PROMPTS] > 0 and _pages(extend, facts) >= prefill:
            return
        new = _cut(extend, chunk, facts)
        if new == 0:
            return
        admit(rep, slots, slot, cached, facts, rep.counts[state.ADMITTED])
        compute(rep, slots, slot, new, facts, times, now)
        taken = _pages(new, facts)
        chunk, prefill = chunk - taken, prefill - taken
        room -= taken + facts.block_tokens + (_answer(slots, slot) if new == extend else 0)


@compiled
def _pages(tokens: int, facts: Facts) -> int:
    """Slots of the pages that hold so many tokens."""
    return blocks_for(tokens, facts.block_tokens) * facts.block_tokens


@compiled
def _cut(tokens: int, most: int, facts: Facts) -> int:
    """As many of a prompt's tokens as fit, whole pages where it is cut."""
    return tokens if _pages(tokens, facts) <= most else max(most, 0) // facts.block_tokens * facts.block_tokens


@compiled
def _sort_waiting(rep: Replica, slots: Slots, facts: Facts) -> None:
    """Let waiting requests with the longest cached prefix go first, if the order asks for it and not too many wait."""
    if not (facts.longest_prefix and facts.prefix_cache) or rep.counts[state.WAITING] > LOOKED_THROUGH:
        return
    slot = rep.counts[state.FIRST_WAITING]
    while slot != state.NOTHING:
        cached = 0
        if slots[slot].arrival_s <= rep.clocks[state.SEEN]:
            cached, _ = hits(rep, slots, slot, to_compute(slots, slot), facts)
        slots[slot].computed = cached
        slot = slots[slot].following
    sort_by_found(rep, slots)


@compiled
def _answer(slots: Slots, slot: int) -> int:
    """Tokens that a sequence may still generate, as admission counts them."""
    return min(slots[slot].output - slots[slot].generated, LONGEST_ANSWER)


@compiled
def _to_come(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Tokens that the decoding sequences may still generate, as admission counts them."""
    total, slot = 0, rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        if decodes(slots, slot):
            total += min(slots[slot].output - tokens_of(rep, slots, slot, facts), LONGEST_ANSWER)
        slot = slots[slot].following
    return total


@compiled
def _set_share(rep: Replica, share: float, step: int) -> None:
    """Expect a share of answers that falls from a decode step on."""
    rep.clocks[state.SHARE], rep.counts[state.SHARED_STEP] = share, step


@compiled
def _share(rep: Replica, facts: Facts) -> float:
    """The share of answers that room is kept for: it falls with every decode step."""
    step = (facts.answer_share - facts.least_answer_share) / facts.answer_share_steps
    fallen = rep.clocks[state.SHARE] - step * max(rep.counts[state.STEPS] - rep.counts[state.SHARED_STEP], 0)
    return max(fallen, facts.least_answer_share)


@compiled
def _make_room(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Put sequences off until the others have room for a token each; return whether none had to be."""
    if coming_blocks(rep, slots, facts) <= rep.counts[state.FREE_BLOCKS]:
        return True
    while coming_blocks(rep, slots, facts) > rep.counts[state.FREE_BLOCKS] and rep.counts[state.DECODING] > 0:
        put_off(rep, slots, _shortest_answer(rep, slots, facts), 0, facts, True)
    rep.counts[state.FULL] = rep.counts[state.ENDS] = 0
    generated = to_come = 0
    slot = rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        if decodes(slots, slot):
            generated += tokens_of(rep, slots, slot, facts)
            to_come += slots[slot].output
        slot = slots[slot].following
    share = min(1.0, (generated + RETRACT_STEPS * rep.counts[state.DECODING]) / (to_come + 1))
    _set_share(rep, share, rep.counts[state.STEPS] + 1)
    return False


@compiled
def _shortest_answer(rep: Replica, slots: Slots, facts: Facts) -> int:
    """The decoding sequence with the fewest tokens; of several the one with the longest prompt, then the last."""
    best, slot = state.NOTHING, rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING:
        if decodes(slots, slot):
            if best == state.NOTHING:
                best = slot
            fewer = tokens_of(rep, slots, slot, facts) - tokens_of(rep, slots, best, facts)
            if fewer < 0 or (fewer == 0 and slots[slot].prompt >= slots[best].prompt):
                best = slot
        slot = slots[slot].following
    return best


@compiled
def schedule_transformers(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Continuous batching of `transformers serve`: decoding sequences, then unfinished prompts, then waiting requests.

    Each takes its token, or as much of its prompt as the budget leaves, if there are blocks; else the next one is
    tried. Few free blocks end the search for prompts. Sequences that got no block let the last of them be put off.
    """
    counts = rep.counts
    if counts[state.FULL] and (counts[state.ENDS] > 0 or counts[state.RUNNING] == 0):
        counts[state.FULL] = 0
    counts[state.ENDS] = 0
    settled = _put_last_off(rep, slots, facts)
    grow(rep, slots, facts)
    counts[state.BATCH_DECODES] = counts[state.DECODING]
    _go_on_with_prompts(rep, slots, facts, times, now, facts.token_budget - counts[state.DECODING])
    return state.MANY if settled else 0


@compiled
def _put_last_off(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Put sequences off, the last first, until the others have room for a token each; return whether none had to be."""
    settled = True
    while coming_blocks(rep, slots, facts) > rep.counts[state.FREE_BLOCKS] and rep.counts[state.RUNNING] > 1:
        victim = rep.counts[state.LAST_RUNNING]
        put_off(rep, slots, victim, 0, facts, True)
        rep.counts[state.FULL] = 1
        rep.counts[state.ENDS] = 0
        settled = False
    return settled


@compiled
def _go_on_with_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float, budget: int) -> None:
    """Go on with unfinished prompts, then admit waiting requests, while budget and blocks last."""
    slot = rep.counts[state.FIRST_RUNNING] if rep.counts[state.UNFINISHED] > 0 else state.NOTHING
    while slot != state.NOTHING and budget > 0:
        if slots[slot].computed < to_compute(slots, slot) and not decodes(slots, slot):
            new = min(to_compute(slots, slot) - slots[slot].computed, budget)
            if _fits(rep, slots[slot].computed, new, 0, facts):
                compute(rep, slots, slot, new, facts, times, now)
                budget -= new
        slot = slots[slot].following
    slot = state.NOTHING if rep.counts[state.FULL] else rep.counts[state.FIRST_WAITING]
    while slot != state.NOTHING and budget > 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        behind = slots[slot].following
        if slots[slot].arrival_s > rep.clocks[state.SEEN]:
            return
        if (
            rep.counts[state.FREE_BLOCKS] < facts.watermark_blocks
            and rep.counts[state.BATCH_DECODES] + rep.counts[state.BATCH_PROMPTS]
        ):
            return
        cached, unheld = hits(rep, slots, slot, to_compute(slots, slot), facts)
        before = cached * facts.block_tokens
        new = min(to_compute(slots, slot) - before, budget)
        if _fits(rep, before, new, unheld, facts):
            admit(rep, slots, slot, cached, facts, rep.counts[state.ADMITTED])
            compute(rep, slots, slot, new, facts, times, now)
            budget -= new
        slot = behind


@compiled
def _fits(rep: Replica, before: int, new: int, unheld: int, facts: Facts) -> bool:
    """Whether there are blocks for a chunk of a prompt behind ``before`` tokens."""
    need = blocks_for(before + new, facts.block_tokens) - blocks_for(before, facts.block_tokens)
    return need + unheld <= rep.counts[state.FREE_BLOCKS]
