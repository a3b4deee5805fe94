"""SGLang: an iteration has chunks of prompts, or else every running sequence decodes.

A request is admitted if its prompt and its answer fit beside a share of what running sequences may still generate. The
share falls while nothing has to be put off and rises when it was too low. Once a request does not fit, no other is
tried until a sequence has ended.
"""

from typing import Final

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import hits
from sightline.simulation.engine.lists import first_seen, sort_by_found
from sightline.simulation.engine.sequences import (
    admit,
    blocks_for,
    coming_blocks,
    compute,
    decodes,
    grow,
    put_off,
    to_compute,
    tokens_of,
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
    MANY,
    NOTHING,
    PARTIAL,
    RUNNING,
    SEEN,
    SHARE,
    SHARED_STEP,
    STEPS,
    WAITING,
    Facts,
    Replica,
    Slots,
)
from sightline.simulation.times import PackedTimes

LONGEST_ANSWER: Final = 4096
"""Tokens of an answer that admission counts at most (``CLIP_MAX_NEW_TOKENS``)."""
LOOKED_THROUGH: Final = 128
"""Waiting requests up to which those with the longest cached prefix go first."""
RETRACT_STEPS: Final = 20
"""Decode steps for which room is wanted after sequences were put off."""


@compiled
def schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> int:
    """Form an iteration; return how often it may be repeated if nothing ends, arrives or runs out."""
    counts = rep.counts
    if counts[RUNNING] == 0:
        counts[FULL] = counts[ENDS] = 0
        if counts[WAITING] == 0:
            _set_share(rep, facts.answer_share, counts[STEPS])
    if counts[PARTIAL] != NOTHING or not counts[FULL]:
        _take_prompts(rep, slots, facts, times, now)
    if counts[BATCH_PROMPTS] > 0:
        return 0
    settled = counts[ENDS] == 0
    if counts[ENDS] > 0:
        counts[FULL] = counts[ENDS] = 0
    if counts[DECODING] > 0:
        settled = _make_room(rep, slots, facts) and settled
        grow(rep, slots, facts)
    counts[BATCH_DECODES] = counts[DECODING]
    return MANY if settled and counts[PARTIAL] == NOTHING else 0


@compiled
def _take_prompts(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, now: float) -> None:
    """Take chunks of prompts into the iteration: of the unfinished one first, then of waiting requests in order."""
    chunk, prefill = facts.token_budget, facts.prefill_tokens
    room = rep.counts[FREE_BLOCKS] * facts.block_tokens - _share(rep, facts) * _to_come(rep, slots, facts)
    partial = rep.counts[PARTIAL]
    if partial != NOTHING:
        rest = to_compute(slots, partial) - slots[partial].computed
        new = _cut(rest, min(chunk, int(room)), facts)
        if new > 0:
            compute(rep, slots, partial, new, facts, times, now)
            taken = _pages(new, facts)
            chunk, prefill = chunk - taken, prefill - taken
            room -= taken + facts.block_tokens + (_answer(slots, partial) if new == rest else 0)
    _sort_waiting(rep, slots, facts)
    while chunk > 0 and room > 0 and rep.counts[PARTIAL] == NOTHING:
        slot = first_seen(rep, slots)
        if slot == NOTHING:
            return
        if rep.counts[RUNNING] >= facts.max_sequences:
            rep.counts[FULL] = 1
            return
        cached = unheld = 0
        if facts.prefix_cache:
            cached, unheld = hits(rep, slots, slot, to_compute(slots, slot), facts.block_tokens)
        extend = to_compute(slots, slot) - cached * facts.block_tokens
        room -= unheld * facts.block_tokens
        if rep.counts[RUNNING] > 0 and extend + _answer(slots, slot) + facts.block_tokens >= room:
            rep.counts[FULL] = 1
            return
        if rep.counts[BATCH_PROMPTS] > 0 and _pages(extend, facts) >= prefill:
            return
        new = _cut(extend, chunk, facts)
        if new == 0:
            return
        admit(rep, slots, slot, cached, facts, rep.counts[ADMITTED])
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
    if not (facts.longest_prefix and facts.prefix_cache) or rep.counts[WAITING] > LOOKED_THROUGH:
        return
    slot = rep.counts[FIRST_WAITING]
    while slot != NOTHING:
        found = 0
        if slots[slot].arrival_s <= rep.clocks[SEEN]:
            found, _ = hits(rep, slots, slot, to_compute(slots, slot), facts.block_tokens)
        slots[slot].computed = found
        slot = slots[slot].following
    sort_by_found(rep, slots)


@compiled
def _answer(slots: Slots, slot: int) -> int:
    """Tokens that a sequence may still generate, as admission counts them."""
    return min(slots[slot].output - slots[slot].generated, LONGEST_ANSWER)


@compiled
def _to_come(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Tokens that the decoding sequences may still generate, as admission counts them."""
    total, slot = 0, rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        if decodes(slots, slot):
            total += min(slots[slot].output - tokens_of(rep, slots, slot, facts), LONGEST_ANSWER)
        slot = slots[slot].following
    return total


@compiled
def _set_share(rep: Replica, share: float, step: int) -> None:
    """Expect a share of answers that falls from a decode step on."""
    rep.clocks[SHARE], rep.counts[SHARED_STEP] = share, step


@compiled
def _share(rep: Replica, facts: Facts) -> float:
    """The share of answers that room is kept for: it falls with every decode step."""
    step = (facts.answer_share - facts.least_answer_share) / facts.answer_share_steps
    fallen = rep.clocks[SHARE] - step * max(rep.counts[STEPS] - rep.counts[SHARED_STEP], 0)
    return max(fallen, facts.least_answer_share)


@compiled
def _make_room(rep: Replica, slots: Slots, facts: Facts) -> bool:
    """Put sequences off until the others have room for a token each; return whether none had to be."""
    if coming_blocks(rep, slots, facts) <= rep.counts[FREE_BLOCKS]:
        return True
    while coming_blocks(rep, slots, facts) > rep.counts[FREE_BLOCKS] and rep.counts[DECODING] > 0:
        put_off(rep, slots, _shortest_answer(rep, slots, facts), 0, facts, True)
    rep.counts[FULL] = rep.counts[ENDS] = 0
    generated = to_come = 0
    slot = rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        if decodes(slots, slot):
            generated += tokens_of(rep, slots, slot, facts)
            to_come += slots[slot].output
        slot = slots[slot].following
    share = min(1.0, (generated + RETRACT_STEPS * rep.counts[DECODING]) / (to_come + 1))
    _set_share(rep, share, rep.counts[STEPS] + 1)
    return False


@compiled
def _shortest_answer(rep: Replica, slots: Slots, facts: Facts) -> int:
    """The decoding sequence with the fewest tokens; of several the one with the longest prompt, then the last."""
    best, slot = NOTHING, rep.counts[FIRST_RUNNING]
    while slot != NOTHING:
        if decodes(slots, slot):
            if best == NOTHING:
                best = slot
            fewer = tokens_of(rep, slots, slot, facts) - tokens_of(rep, slots, best, facts)
            if fewer < 0 or (fewer == 0 and slots[slot].prompt >= slots[best].prompt):
                best = slot
        slot = slots[slot].following
    return best
