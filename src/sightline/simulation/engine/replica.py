"""A replica in time: iterations follow each other until it is idle.

Between the events that scheduling looks at - arrivals, ends, blocks that run out - every decode step is like the one
before, with one more cached token per sequence; such steps are neither scheduled nor do they touch any sequence. With
speculative decoding every step is scheduled, since sequences get different numbers of tokens in it.
"""

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.blocks import publish, view
from sightline.simulation.engine.handover import any_sent, send, take_in
from sightline.simulation.engine.lists import leave_waiting, next_end, pop_end
from sightline.simulation.engine.sequences import (
    begin_decoding,
    blocks_for,
    end,
    grow_each,
    next_blocks,
    pass_drafted,
    release_left,
    to_compute,
)
from sightline.simulation.engine.state import (
    ARRIVED,
    ATTENTION,
    BATCH_DECODES,
    BATCH_PROMPTS,
    BATCH_TOKENS,
    COMPUTED,
    CONTEXT,
    DECODE,
    DECODED,
    DECODING,
    ENDING,
    FIRST_SENT,
    FIRST_WAITING,
    FREE_BLOCKS,
    GHOST_CONTEXT,
    GHOSTS,
    ITERATIONS,
    JOINED,
    LEAVING,
    LOADING,
    NEXT,
    NOTHING,
    PARTIAL,
    READY,
    REPEATS,
    REQUESTS,
    RESUMPTIONS,
    RUNNING,
    SEEN,
    STARTED,
    STEPS,
    UNSERVED,
    WAITING,
    Facts,
    Records,
    Replica,
    Slots,
    note_gaps,
)
from sightline.simulation.outcome import COMPLETED, NO_ROOM, OVER_BUDGET
from sightline.simulation.policies.listed import STATIC, schedule
from sightline.simulation.times import PackedTimes, step_seconds


@compiled
def advance(
    rep: Replica,
    slots: Slots,
    facts: Facts,
    times: PackedTimes,
    until: float,
    number: int,
    records: Records,
    to_first_end: bool,
) -> bool:
    """Run iterations that end before ``until``, or until a request leaves; return False where the records are full."""
    ends = records.rows[REQUESTS]
    while rep.clocks[NEXT] < until:
        if records.log.size > 0 and records.rows[ITERATIONS] == records.log.size:
            return False
        if _repeats(rep, facts):
            _repeat(rep, facts, records)
        else:
            most = max(records.rows[REQUESTS], records.rows[RESUMPTIONS])
            if records.ended.size - most <= rep.counts[RUNNING]:
                return False
            _finish(rep, slots, facts, number, records)
            _schedule(rep, slots, facts, times)
            if rep.counts[BATCH_DECODES] + rep.counts[BATCH_PROMPTS] == 0 and rep.counts[WAITING] > 0:
                _refuse_first(rep, slots, facts, number, records)
                continue
        _start(rep, facts, rep.clocks[NEXT] + _seconds(rep, times, facts), number, records)
        if to_first_end and (records.rows[REQUESTS] > ends or rep.counts[FIRST_SENT] != NOTHING):
            return True
    return True


@compiled
def advance_together(
    fleet: Replica,
    first: int,
    slots: Slots,
    facts: Facts,
    times: PackedTimes,
    until: float,
    records: Records,
    to_first_end: bool,
) -> bool:
    """Run the iterations of ranks that wait for each other, from rank ``first`` on, as `advance` does those of one.

    Each schedules by itself; an iteration takes what that of the busiest takes, and idle ranks go along.
    """
    ends, behind = records.rows[REQUESTS], first + facts.lockstep
    places = facts.lockstep * (facts.max_sequences + 1)
    while fleet.clocks[first, NEXT] < until:
        if records.log.size > 0 and records.rows[ITERATIONS] + facts.lockstep > records.log.size:
            return False
        most = max(records.rows[REQUESTS], records.rows[RESUMPTIONS])
        if records.ended.size - most <= places:
            return False
        longest, idle = 0.0, True
        for r in range(first, behind):
            rep = view(fleet, r)
            if _repeats(rep, facts):
                _repeat(rep, facts, records)
            else:
                _finish(rep, slots, facts, r, records)
                _schedule(rep, slots, facts, times)
                if rep.counts[BATCH_DECODES] + rep.counts[BATCH_PROMPTS] == 0 and rep.counts[WAITING] > 0:
                    _refuse_first(rep, slots, facts, r, records)
                    idle = False
            seconds = _seconds(rep, times, facts)
            if seconds < np.inf:
                longest, idle = max(longest, seconds), False
        ends_s = np.inf if idle else fleet.clocks[first, NEXT] + longest
        for r in range(first, behind):
            _start(view(fleet, r), facts, ends_s, r, records)
        if to_first_end and (records.rows[REQUESTS] > ends or any_sent(fleet, first, behind)):
            return True
    return True


@compiled
def _repeats(rep: Replica, facts: Facts) -> bool:
    """Whether the iteration under way is a decode step after which another one like it follows."""
    steps = rep.counts[STEPS] + 1
    return (
        rep.counts[REPEATS] > 0
        and rep.counts[JOINED] == 0
        and rep.counts[LEAVING] == 0
        and steps < next_end(rep)
        and next_blocks(rep, facts, steps) + facts.spare_blocks <= rep.counts[FREE_BLOCKS]
    )


@compiled
def _repeat(rep: Replica, facts: Facts, records: Records) -> None:
    """End the iteration under way, and form another one like it."""
    _decode_once(rep, records, rep.clocks[NEXT], rep.counts[DECODING])
    grow_each(rep, facts)
    rep.counts[REPEATS] -= 1


@compiled
def _seconds(rep: Replica, times: PackedTimes, facts: Facts) -> float:
    """Seconds of the iteration that was scheduled; infinite where there is nothing to do."""
    counts = rep.counts
    decodes, tokens, prompts = counts[BATCH_DECODES], counts[BATCH_TOKENS], counts[BATCH_PROMPTS]
    if decodes + prompts == 0:
        return np.inf
    sequences = context = 0
    if decodes > 0:
        sequences, context = decodes + counts[GHOSTS], counts[CONTEXT] + counts[GHOST_CONTEXT]
    if facts.stages > 1:
        seconds = round_seconds(times, facts, sequences, context, tokens, prompts, rep.clocks[ATTENTION])
    else:
        seconds = step_seconds(times, sequences, context, tokens, prompts, rep.clocks[ATTENTION])
    loading = rep.clocks[LOADING]
    return max(seconds, loading) if facts.loads_along else seconds + loading


@compiled
def round_seconds(
    times: PackedTimes, facts: Facts, decodes: int, context_sum: int, new_tokens: int, prompts: int, attention_s: float
) -> float:
    """Return the seconds of a pipeline's round, in which each of its micro-batches passes all stages once.

    Decoding sequences are spread evenly over as many micro-batches as stages; prompts fill one after the other up to
    its share of the budget. Micro-batches follow each other in order, so that a round takes what the heaviest does.
    """
    n = blocks_for(decodes, facts.stages)
    context = context_sum * n // decodes if decodes > 0 else 0
    if prompts == 0:
        return step_seconds(times, n, context, 0, 0, 0.0)
    room = max(facts.token_budget // facts.stages - n * facts.pass_tokens, 1)
    taken = min(max(blocks_for(new_tokens, room), 1), facts.stages)
    tokens, parts = blocks_for(new_tokens, taken), blocks_for(prompts, taken)
    return step_seconds(times, n, context, tokens, parts, attention_s / taken)


@compiled
def _start(rep: Replica, facts: Facts, ends_s: float, number: int, records: Records) -> None:
    """Let the iteration that was scheduled begin."""
    counts, now = rep.counts, rep.clocks[NEXT]
    rep.clocks[STARTED], rep.clocks[NEXT] = now, ends_s
    if records.log.size > 0 and counts[BATCH_DECODES] + counts[BATCH_PROMPTS] > 0:
        row = records.log[records.rows[ITERATIONS]]
        row.start_s, row.end_s, row.replica = now, ends_s, number
        row.prompt_tokens, row.decodes = counts[BATCH_TOKENS], counts[BATCH_DECODES]
        row.running, row.waiting = counts[RUNNING], counts[WAITING] + counts[READY]
        row.kv_blocks = facts.blocks - counts[FREE_BLOCKS]
        records.rows[ITERATIONS] += 1


@compiled
def _decode_once(rep: Replica, records: Records, now: float, tokens: int) -> None:
    """Give the decoding sequences the tokens of the iteration that ends now: one each, or all that they accept."""
    counts = rep.counts
    counts[STEPS] += 1
    counts[UNSERVED] += 1
    counts[CONTEXT] += tokens
    counts[GHOST_CONTEXT] += counts[GHOSTS]
    note_gaps(records.gaps, now - rep.clocks[DECODED], counts[DECODING] - counts[JOINED])
    rep.clocks[DECODED] = now


@compiled
def _finish(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """End the iteration under way: sequences get their tokens, prompts their first."""
    release_left(rep)
    if rep.counts[BATCH_DECODES] > 0:
        _finish_decodes(rep, slots, facts, number, records)
    if facts.prefix_cache and facts.published == COMPUTED:
        _publish_computed(rep, slots, facts)
    _finish_prompts(rep, slots, facts, number, records)


@compiled
def _finish_decodes(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """Give decoding sequences their tokens; those that have all of them leave."""
    counts, now = rep.counts, rep.clocks[NEXT]
    for i in range(counts[JOINED]):
        slot = rep.stacks[i].joined
        if slots[slot].generated == 0:
            # All of its prompt but the last token was processed elsewhere.
            slots[slot].first_s = now
        else:
            note_gaps(records.gaps, now - slots[slot].token_s, 1)
    tokens = pass_drafted(rep, slots, facts) if facts.pass_tokens > 1 else counts[DECODING]
    _decode_once(rep, records, now, tokens)
    counts[JOINED] = 0
    while next_end(rep) == counts[STEPS]:
        slot = pop_end(rep)
        end(rep, slots, slot, facts)
        write_down(slots, slot, now, COMPLETED, number, records)
        if facts.policy == STATIC:
            counts[GHOSTS] += 1
            counts[GHOST_CONTEXT] += slots[slot].prompt + slots[slot].output - 1
    if counts[DECODING] == 0:
        counts[GHOSTS] = counts[GHOST_CONTEXT] = 0


@compiled
def _finish_prompts(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """Give sequences whose prompts were processed their next token: they decode, leave, or go on elsewhere."""
    counts, now = rep.counts, rep.clocks[NEXT]
    for i in range(counts[ENDING]):
        slot = rep.stacks[i].ending
        if slots[slot].generated == 0:
            slots[slot].first_s = now
        else:
            _note_resumption(slots, slot, now, number, records)
        slots[slot].token_s = now
        slots[slot].generated += 1
        if slots[slot].generated < slots[slot].output:
            begin_decoding(rep, slots, slot, facts)
            continue
        end(rep, slots, slot, facts)
        if slots[slot].further > 0:
            send(rep, slots, slot, number)
        else:
            write_down(slots, slot, now, COMPLETED, number, records)


@compiled
def _note_resumption(slots: Slots, slot: int, now: float, number: int, records: Records) -> None:
    """Note the next token of a request that had been put off."""
    note_gaps(records.gaps, now - slots[slot].token_s, 1)
    row = records.resumed[records.rows[RESUMPTIONS]]
    row.request, row.replica = slots[slot].request, number
    row.from_s, row.to_s = slots[slot].token_s, now
    records.rows[RESUMPTIONS] += 1


@compiled
def _publish_computed(rep: Replica, slots: Slots, facts: Facts) -> None:
    """Let others find the prompts that the iteration computed, whole or in part."""
    for i in range(rep.counts[ENDING]):
        slot = rep.stacks[i].ending
        publish(rep, slots, slot, slots[slot].computed, facts.block_tokens)
    partial = rep.counts[PARTIAL]
    if partial != NOTHING:
        publish(rep, slots, partial, slots[partial].computed, facts.block_tokens)


@compiled
def _schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes) -> None:
    """Form the next iteration.

    Where iterations are scheduled ahead, requests that arrived while the last one ran are not seen yet, unless there
    is nothing else to do. After everything was put off, what waits has the cache to itself.
    """
    counts, now = rep.counts, rep.clocks[NEXT]
    busy = counts[BATCH_DECODES] + counts[BATCH_PROMPTS] > 0
    rep.clocks[SEEN] = rep.clocks[STARTED] if facts.ahead and busy else now
    repeats = _formed(rep, slots, facts, times)
    if counts[BATCH_DECODES] + counts[BATCH_PROMPTS] == 0:
        release_left(rep)
        rep.clocks[SEEN] = now
        repeats = _formed(rep, slots, facts, times)
    unseen = counts[WAITING] + counts[READY] > 0 and rep.clocks[ARRIVED] > rep.clocks[SEEN]
    alike = counts[BATCH_PROMPTS] == 0 and facts.pass_tokens == 1
    counts[REPEATS] = repeats if alike and not unseen else 0
    if counts[BATCH_PROMPTS] > 0:
        counts[UNSERVED] = 0


@compiled
def _formed(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes) -> int:
    """Form the next iteration by the policy; return how often it may be repeated."""
    counts = rep.counts
    counts[BATCH_DECODES] = counts[BATCH_TOKENS] = counts[BATCH_PROMPTS] = counts[ENDING] = 0
    rep.clocks[ATTENTION] = rep.clocks[LOADING] = 0.0
    if facts.role == DECODE:
        take_in(rep, slots, facts, rep.clocks[NEXT])
    return schedule(rep, slots, facts, times, rep.clocks[NEXT])


@compiled
def _refuse_first(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """Refuse the first in the queue, which not even an idle replica can serve.

    One that was put off has its answer so far to compute again, which may be more than an iteration takes whole.
    """
    slot = rep.counts[FIRST_WAITING]
    whole = not facts.chunked and to_compute(slots, slot) > facts.token_budget // facts.stages
    leave_waiting(rep, slots, slot)
    write_down(slots, slot, rep.clocks[NEXT], OVER_BUDGET if whole else NO_ROOM, number, records)


@compiled
def write_down(slots: Slots, slot: int, now: float, status: int, number: int, records: Records) -> None:
    """Write down what became of a request; its slot is free again once that was read."""
    row = records.ended[records.rows[REQUESTS]]
    served = status == COMPLETED
    row.request, row.arrival_s = slots[slot].request, slots[slot].arrival_s
    row.scheduled_s = slots[slot].scheduled_s if served else np.nan
    row.first_s = slots[slot].first_s if served else np.nan
    row.last_s = now if served else np.nan
    row.prefilled_s, row.ready_s = slots[slot].prefilled_s, slots[slot].ready_s
    row.cached, row.preemptions = slots[slot].cached, slots[slot].preemptions
    row.prefilled_by = slots[slot].prefilled_by
    row.replica, row.status = number, status
    row.slot, slots[slot].token_s = slot, now
    records.rows[REQUESTS] += 1
