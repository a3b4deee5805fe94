"""What happens to a sequence: it is admitted, its prompt is processed, it decodes, it is put off, it ends."""

from typing import Final

from sightline.simulation.compiled import compiled, entry
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import give_up, hold_cached, mixed, publish, publish_blocks, take
from sightline.simulation.engine.lists import (
    append_running,
    append_seen,
    cancel_end,
    leave_running,
    leave_waiting,
    prepend_waiting,
    push_end,
)
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.times import PackedTimes, prompt_attention_seconds

_SEED_BITS: Final = 40
"""Bits of a request's number."""
_FRACTION: Final = (1 << 53) - 1
"""Bits of a hash that become a share."""


@entry
def accepted_drafts(seed: int, request: int, token: int, drafted: int, acceptance: float) -> int:
    """Return how many of the tokens drafted for a request are accepted in the pass that yields its ``token``."""
    share = (mixed((seed << _SEED_BITS) ^ request, token) & _FRACTION) / (_FRACTION + 1.0)
    accepted, passed = 0, acceptance
    while accepted < drafted and share < passed:
        accepted += 1
        passed *= acceptance
    return accepted


@compiled
def tokens_of_pass(slots: Slots, slot: int, generated: int, facts: Facts, pass_tokens: int) -> int:
    """Return the tokens that a decode pass yields behind ``generated`` ones: one, accepted drafts, none too many."""
    accepted = accepted_drafts(facts.seed, slots[slot].request, generated, pass_tokens - 1, facts.acceptance)
    return min(1 + accepted, slots[slot].output - generated)


@compiled
def new_tokens_of(decodes: int, facts: Facts) -> int:
    """Return the tokens that a pass computes of each of so many decoding sequences."""
    return facts.pass_tokens if decodes <= facts.drafts_up_to else 1


@compiled
def passes_to_come(slots: Slots, slot: int, facts: Facts) -> int:
    """Return the decode passes until a sequence has its last token; no fewer where not all of them have drafts."""
    generated = slots[slot].generated
    if facts.pass_tokens == 1 or facts.drafts_up_to < state.MANY:
        return slots[slot].output - generated
    passes = 0
    while generated < slots[slot].output:
        generated += tokens_of_pass(slots, slot, generated, facts, facts.pass_tokens)
        passes += 1
    return passes


@compiled
def blocks_for(tokens: int, block_tokens: int) -> int:
    """Return the blocks that hold so many tokens."""
    return -(-tokens // block_tokens)


@compiled
def to_compute(slots: Slots, slot: int) -> int:
    """Return the tokens of a sequence that its prefill computes: its prompt, and what it had generated before."""
    return slots[slot].prompt + slots[slot].generated


@compiled
def whole_blocks(slots: Slots, slot: int, facts: Facts) -> int:
    """Return the blocks that a sequence has in the end; its last token is never fed in, but drafted ones may be."""
    return blocks_for(slots[slot].prompt + slots[slot].output - 2 + facts.pass_slots, facts.block_tokens)


@compiled
def _held(slots: Slots, slot: int, cached: int, facts: Facts) -> int:
    """The blocks that a sequence holds with so many tokens in the cache."""
    if facts.takes_all:
        return whole_blocks(slots, slot, facts)
    if facts.pass_tokens > 1 and decodes(slots, slot):
        return slots[slot].held
    return blocks_for(cached, facts.block_tokens)


@compiled
def admit(rep: Replica, slots: Slots, slot: int, cached_blocks: int, facts: Facts, order: int) -> None:
    """Let a waiting request run in its ``order`` among the others, holding what the prefix cache has of it."""
    leave_waiting(rep, slots, slot)
    _run(rep, slots, slot, order)
    hold_cached(rep, slots, slot, cached_blocks, facts.block_tokens)
    slots[slot].computed = cached_blocks * facts.block_tokens
    if facts.takes_all:
        take(rep, whole_blocks(slots, slot, facts) - cached_blocks)
    elif facts.reserves == state.ANSWER:
        rep.counts[state.PROMISED] += whole_blocks(slots, slot, facts) - cached_blocks
    if slots[slot].preemptions == 0:
        slots[slot].cached = slots[slot].computed


@compiled
def _run(rep: Replica, slots: Slots, slot: int, order: int) -> None:
    """Give a sequence a place among the running ones."""
    slots[slot].order = order
    slots[slot].stage = state.RUNS
    append_running(rep, slots, slot)
    rep.counts[state.RUNNING] += 1
    rep.counts[state.ADMITTED] += 1
    rep.counts[state.PLACES] -= 1
    slots[slot].place = rep.stacks[rep.counts[state.PLACES]].place


@compiled
def join(rep: Replica, slots: Slots, slot: int, facts: Facts, order: int) -> None:
    """Let a request run whose ``computed`` tokens come into the cache from another replica."""
    _run(rep, slots, slot, order)
    blocks = blocks_for(slots[slot].computed, facts.block_tokens)
    take(rep, blocks)
    if facts.reserves == state.ANSWER:
        rep.counts[state.PROMISED] += whole_blocks(slots, slot, facts) - blocks
    slots[slot].keyed = 0


@compiled
def compute(rep: Replica, slots: Slots, slot: int, new: int, facts: Facts, times: PackedTimes, now: float) -> None:
    """Take ``new`` tokens of a sequence's prompt into the iteration that is being scheduled."""
    computed, block = slots[slot].computed, facts.block_tokens
    if not facts.takes_all:
        need = blocks_for(computed + new, block) - blocks_for(computed, block)
        take(rep, need)
        if facts.reserves == state.ANSWER:
            rep.counts[state.PROMISED] -= need
    if slots[slot].scheduled_s < 0:
        slots[slot].scheduled_s = now
    rep.counts[state.BATCH_TOKENS] += new
    rep.counts[state.BATCH_PROMPTS] += 1
    rep.clocks[state.ATTENTION] += prompt_attention_seconds(times, new, computed)
    slots[slot].computed = computed + new
    if facts.prefix_cache and facts.published == state.SCHEDULED:
        publish(rep, slots, slot, computed + new, block)
    _note_progress(rep, slots, slot)


@compiled
def next_blocks(rep: Replica, facts: Facts, steps: int) -> int:
    """Return the blocks that decoding sequences need after so many decode steps, where each yields one token."""
    return rep.phases[-steps % facts.block_tokens]


@compiled
def coming_blocks(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Return the blocks that decoding sequences need for their coming tokens."""
    if facts.pass_tokens == 1:
        return next_blocks(rep, facts, rep.counts[state.STEPS])
    need, slot = 0, rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING and not facts.takes_all:
        need += needed_blocks(rep, slots, slot, facts)
        slot = slots[slot].following
    return need


@compiled
def grow_each(rep: Replica, facts: Facts) -> None:
    """Give all decoding sequences the blocks of their coming token, where that is one each."""
    need = next_blocks(rep, facts, rep.counts[state.STEPS])
    take(rep, need)
    if facts.reserves == state.ANSWER:
        rep.counts[state.PROMISED] -= need


@compiled
def grow(rep: Replica, slots: Slots, facts: Facts) -> None:
    """Give all decoding sequences the blocks of their coming tokens."""
    if facts.pass_tokens == 1:
        grow_each(rep, facts)
        return
    free, slot = rep.counts[state.FREE_BLOCKS], rep.counts[state.FIRST_RUNNING]
    while slot != state.NOTHING and not facts.takes_all:
        grow_one(rep, slots, slot, facts)
        slot = slots[slot].following
    if facts.reserves == state.ANSWER:
        rep.counts[state.PROMISED] -= free - rep.counts[state.FREE_BLOCKS]


@compiled
def needed_blocks(rep: Replica, slots: Slots, slot: int, facts: Facts) -> int:
    """Return the blocks that a running sequence needs for its coming tokens; none before it decodes."""
    if not decodes(slots, slot):
        return 0
    cached = cached_of(rep, slots, slot, facts)
    if facts.pass_tokens > 1:
        return max(blocks_for(cached + facts.pass_slots, facts.block_tokens) - slots[slot].held, 0)
    return int(cached % facts.block_tokens == 0)


@compiled
def grow_one(rep: Replica, slots: Slots, slot: int, facts: Facts) -> None:
    """Give a decoding sequence the blocks of its coming tokens."""
    need = needed_blocks(rep, slots, slot, facts)
    take(rep, need)
    if facts.pass_tokens > 1:
        slots[slot].held += need


@compiled
def pass_drafted(rep: Replica, slots: Slots, facts: Facts) -> int:
    """Give every decoding sequence the tokens of a pass that verifies drafted ones; return how many these are."""
    tokens, slot, ends_at = 0, rep.counts[state.FIRST_RUNNING], rep.counts[state.STEPS] + 1
    pass_tokens = new_tokens_of(rep.counts[state.BATCH_DECODES], facts)
    while slot != state.NOTHING:
        if decodes(slots, slot):
            new = tokens_of_pass(slots, slot, slots[slot].generated + slots[slot].decoded, facts, pass_tokens)
            slots[slot].decoded += new
            tokens += new
            whole = slots[slot].generated + slots[slot].decoded == slots[slot].output
            if whole and slots[slot].done_at > ends_at:
                cancel_end(rep, slot)
                slots[slot].done_at = ends_at
                push_end(rep, slots, slot)
        slot = slots[slot].following
    return tokens


@compiled
def _note_progress(rep: Replica, slots: Slots, slot: int) -> None:
    """Note whether the iteration that is being scheduled finishes a sequence's prompt."""
    begun = slots[slot].done_at == state.UNFINISHED_PROMPT
    if slots[slot].computed == to_compute(slots, slot):
        rep.stacks[rep.counts[state.ENDING]].ending = slot
        rep.counts[state.ENDING] += 1
        if begun:
            _forget_partial(rep, slots, slot)
    elif not begun:
        slots[slot].done_at = state.UNFINISHED_PROMPT
        rep.counts[state.UNFINISHED] += 1
        rep.counts[state.PARTIAL] = slot


@compiled
def _forget_partial(rep: Replica, slots: Slots, slot: int) -> None:
    """Note that a sequence's prompt is not processed in part any more."""
    slots[slot].done_at = state.NOTHING
    rep.counts[state.UNFINISHED] -= 1
    if rep.counts[state.PARTIAL] == slot:
        rep.counts[state.PARTIAL] = state.NOTHING


@compiled
def begin_decoding(rep: Replica, slots: Slots, slot: int, facts: Facts) -> None:
    """Let a sequence that has a token get the further ones, one in each decode step."""
    steps = rep.counts[state.STEPS]
    slots[slot].done_at = steps + passes_to_come(slots, slot, facts)
    slots[slot].decoded, slots[slot].held = 0, blocks_for(slots[slot].computed, facts.block_tokens)
    rep.counts[state.DECODING] += 1
    rep.counts[state.CONTEXT] += slots[slot].computed
    if not facts.takes_all and facts.pass_tokens == 1:
        rep.phases[(slots[slot].computed - steps) % facts.block_tokens] += 1
    rep.stacks[rep.counts[state.JOINED]].joined = slot
    rep.counts[state.JOINED] += 1
    push_end(rep, slots, slot)


@compiled
def decodes(slots: Slots, slot: int) -> bool:
    """Return whether a sequence has its first token."""
    return slots[slot].done_at >= 0


@compiled
def tokens_of(rep: Replica, slots: Slots, slot: int, facts: Facts) -> int:
    """Return the tokens that a running sequence has generated."""
    if not decodes(slots, slot):
        return slots[slot].generated
    if facts.pass_tokens > 1:
        return slots[slot].generated + slots[slot].decoded
    return slots[slot].output - (slots[slot].done_at - rep.counts[state.STEPS])


@compiled
def cached_of(rep: Replica, slots: Slots, slot: int, facts: Facts) -> int:
    """Return the tokens of a running sequence that are in the cache; the last one that it generated is not."""
    if not decodes(slots, slot):
        return slots[slot].computed
    return slots[slot].prompt + tokens_of(rep, slots, slot, facts) - 1


@compiled
def _leave_decoding(rep: Replica, slots: Slots, slot: int, facts: Facts) -> bool:
    """Take a sequence out of the decoding ones; return whether it never took part in a decode step."""
    cached = cached_of(rep, slots, slot, facts)
    rep.counts[state.DECODING] -= 1
    rep.counts[state.CONTEXT] -= cached
    if not facts.takes_all and facts.pass_tokens == 1:
        rep.phases[(cached - rep.counts[state.STEPS]) % facts.block_tokens] -= 1
    for i in range(rep.counts[state.JOINED]):
        if rep.stacks[i].joined == slot:
            rep.counts[state.JOINED] -= 1
            rep.stacks[i].joined = rep.stacks[rep.counts[state.JOINED]].joined
            return True
    return False


@compiled
def _release(rep: Replica, place: int, keyed: int, full: int, blocks: int) -> None:
    """Free a sequence's place and blocks."""
    give_up(rep, place, keyed, full, blocks)
    rep.counts[state.RUNNING] -= 1
    rep.stacks[rep.counts[state.PLACES]].place = place
    rep.counts[state.PLACES] += 1


@compiled
def put_off(rep: Replica, slots: Slots, slot: int, granted: int, facts: Facts, to_end: bool) -> None:
    """Free the cache of a running sequence, which waits again and will compute all of its tokens once more.

    It waits before the others, or at the end of the queue. ``granted`` counts a block for the coming token that it was
    given already, where it does not count its blocks itself.
    """
    slots[slot].preemptions += 1
    _stop(rep, slots, slot, granted, facts)
    if to_end:
        append_seen(rep, slots, slot, facts.by_priority)
    else:
        prepend_waiting(rep, slots, slot, facts.by_priority)


@compiled
def abort(rep: Replica, slots: Slots, slot: int, facts: Facts) -> None:
    """Free the cache of a running sequence that nobody waits for; the iteration under way goes on without its token."""
    granted = 0
    if facts.pass_tokens == 1 and not facts.takes_all and rep.counts[state.BATCH_DECODES] > 0:
        granted = needed_blocks(rep, slots, slot, facts)
    left = 0
    for i in range(rep.counts[state.ENDING]):
        rep.stacks[left].ending = rep.stacks[i].ending
        left += rep.stacks[i].ending != slot
    rep.counts[state.ENDING] = left
    if facts.reserves == state.ANSWER and not facts.takes_all:
        held = granted + _held(slots, slot, cached_of(rep, slots, slot, facts), facts)
        rep.counts[state.PROMISED] -= whole_blocks(slots, slot, facts) - held
    _stop(rep, slots, slot, granted, facts)


@compiled
def _stop(rep: Replica, slots: Slots, slot: int, granted: int, facts: Facts) -> None:
    """Free the cache of a running sequence, which keeps the tokens that it has generated."""
    cached, generated = cached_of(rep, slots, slot, facts), tokens_of(rep, slots, slot, facts)
    findable, blocks = cached, _held(slots, slot, cached, facts)
    if decodes(slots, slot):
        if facts.reserves == state.ESTIMATE:
            findable = to_compute(slots, slot) - 1
        if not _leave_decoding(rep, slots, slot, facts):
            slots[slot].token_s = rep.clocks[state.DECODED]
        cancel_end(rep, slot)
        slots[slot].done_at = state.NOTHING
    elif slots[slot].done_at == state.UNFINISHED_PROMPT:
        _forget_partial(rep, slots, slot)
    if facts.prefix_cache and facts.published != state.ENDED:
        publish_blocks(rep, slots, slot, findable // facts.block_tokens, facts.block_tokens)
    leave_running(rep, slots, slot)
    _release(rep, slots[slot].place, slots[slot].keyed, slots[slot].keyed, blocks + granted)
    rep.counts[state.ENDS] += 1
    slots[slot].place, slots[slot].keyed, slots[slot].computed = state.NOTHING, 0, 0
    slots[slot].generated = generated


@compiled
def end(rep: Replica, slots: Slots, slot: int, facts: Facts) -> None:
    """Let a sequence that has its last token leave; where iterations are scheduled ahead, it holds its blocks on."""
    cached = slots[slot].prompt + slots[slot].output - 1
    if decodes(slots, slot):
        _leave_decoding(rep, slots, slot, facts)
    full = 0
    if facts.prefix_cache:
        findable = cached if facts.keeps_answers else slots[slot].prompt
        publish(rep, slots, slot, findable, facts.block_tokens)
        full = findable // facts.block_tokens
    leave_running(rep, slots, slot)
    rep.counts[state.ENDS] += 1
    place, keyed, blocks = slots[slot].place, slots[slot].keyed, _held(slots, slot, cached, facts)
    if facts.reserves == state.ANSWER and not facts.takes_all:
        rep.counts[state.PROMISED] -= whole_blocks(slots, slot, facts) - blocks
    if facts.ahead:
        left = rep.stacks[rep.counts[state.LEAVING]]
        left.left_place, left.left_keyed, left.left_full, left.left_blocks = place, keyed, full, blocks
        rep.counts[state.LEAVING] += 1
    else:
        _release(rep, place, keyed, full, blocks)


@compiled
def release_left(rep: Replica) -> None:
    """Free what sequences that ended before still hold."""
    for i in range(rep.counts[state.LEAVING]):
        left = rep.stacks[i]
        _release(rep, left.left_place, left.left_keyed, left.left_full, left.left_blocks)
    rep.counts[state.LEAVING] = 0
