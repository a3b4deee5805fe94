"""A replica in time: iterations follow each other until it is idle; and what replicas send to others that decode.

Between the events that scheduling looks at - arrivals, ends, blocks that run out - every decode step is like the one
before, with one more cached token per sequence; such steps are neither scheduled nor do they touch any sequence. With
speculative decoding every step is scheduled, since sequences get different numbers of tokens in it.

Where other replicas decode than process prompts, a request whose prompt was processed leaves its replica. Its keys and
values cross the network, one request after the other on the ports of a node, and it joins the decoding sequences of
another replica once that has room for it.
"""

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine import state
from sightline.simulation.engine.blocks import publish, take, view
from sightline.simulation.engine.lists import insert, leave_ready, leave_waiting, next_end, pop_end, remove
from sightline.simulation.engine.policies import STATIC, schedule
from sightline.simulation.engine.records import (
    ITERATIONS,
    REQUESTS,
    RESUMPTIONS,
    Records,
    note_gaps,
    note_iteration,
)
from sightline.simulation.engine.sequences import (
    begin_decoding,
    blocks_for,
    coming_blocks,
    end,
    grow_each,
    join,
    new_tokens_of,
    next_blocks,
    pass_drafted,
    release_left,
    to_compute,
    whole_blocks,
)
from sightline.simulation.engine.sources import Sources, push_due
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.load import Floats
from sightline.simulation.outcome import COMPLETED, NO_ROOM, OVER_BUDGET
from sightline.simulation.times import CONTEXT_BITS, PackedTimes, place_on, shared_seconds, step_seconds


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
    while rep.clocks[state.NEXT] < until:
        if records.log.size > 0 and records.rows[ITERATIONS] == records.log.size:
            return False
        if _repeats(rep, facts):
            _repeat_until(rep, facts, times, until, number, records)
            continue
        most = max(records.rows[REQUESTS], records.rows[RESUMPTIONS])
        if records.ended.size - most <= rep.counts[state.RUNNING]:
            return False
        if _refuses(rep, slots, facts, times, number, records):
            continue
        _start(rep, facts, times, rep.clocks[state.NEXT] + _seconds(rep, times, facts, 0.0), number, records)
        if to_first_end and (records.rows[REQUESTS] > ends or rep.counts[state.FIRST_SENT] != state.NOTHING):
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
    while fleet.clocks[first, state.NEXT] < until:
        if records.log.size > 0 and records.rows[ITERATIONS] + facts.lockstep > records.log.size:
            return False
        most = max(records.rows[REQUESTS], records.rows[RESUMPTIONS])
        if records.ended.size - most <= places:
            return False
        refused = False
        for r in range(first, behind):
            rep = view(fleet, r)
            if _repeats(rep, facts):
                _repeat(rep, facts, records)
            elif _refuses(rep, slots, facts, times, r, records):
                refused = True
        longest = _longest(fleet, first, behind, facts, times)
        ends_s = fleet.clocks[first, state.NEXT] + longest if refused or longest > 0.0 else np.inf
        for r in range(first, behind):
            _start(view(fleet, r), facts, times, ends_s, r, records)
        if to_first_end and (records.rows[REQUESTS] > ends or any_sent(fleet, first, behind)):
            return True
    return True


@compiled
def _longest(fleet: Replica, first: int, behind: int, facts: Facts, times: PackedTimes) -> float:
    """Return the seconds of the busiest rank's iteration, 0 where all are idle.

    Experts see the tokens of all ranks, whoever has them: engines exchange no more than there are (vLLM 0.11
    ``AgRsAll2AllManager`` with sizes, SGLang 0.5 ``DpPaddingMode.SUM_LEN``). Left out: padding to the rank with most
    tokens, and pipelines, whose experts see those of the busiest everywhere.
    """
    tokens, longest = 0, 0.0
    for r in range(first, behind):
        tokens += _new_tokens(view(fleet, r), facts)
    shared_s = shared_seconds(times, tokens / facts.lockstep)
    for r in range(first, behind):
        rep = view(fleet, r)
        even_s = shared_s - shared_seconds(times, 1.0 * _new_tokens(rep, facts)) if facts.stages == 1 else 0.0
        seconds = _seconds(rep, times, facts, even_s)
        if seconds < np.inf:
            longest = max(longest, seconds)
    return longest


@compiled
def _repeats(rep: Replica, facts: Facts) -> bool:
    """Whether the iteration under way is a decode step after which another one like it follows."""
    steps = rep.counts[state.STEPS] + 1
    return (
        rep.counts[state.REPEATS] > 0
        and rep.counts[state.JOINED] == 0
        and rep.counts[state.LEAVING] == 0
        and steps < next_end(rep)
        and next_blocks(rep, facts, steps) + facts.spare_blocks <= rep.counts[state.FREE_BLOCKS]
    )


@compiled
def _repeat(rep: Replica, facts: Facts, records: Records) -> None:
    """End the iteration under way, and form another one like it."""
    _show(rep, facts, rep.counts[state.DECODING])
    _decode_once(rep, records, rep.clocks[state.SHOWN], rep.counts[state.DECODING])
    grow_each(rep, facts)
    rep.counts[state.REPEATS] -= 1


@compiled
def _repeat_until(rep: Replica, facts: Facts, times: PackedTimes, until: float, number: int, records: Records) -> None:
    """Repeat the decode step under way as `_repeat` and `_start` do, while it may be and ends before ``until``.

    What stays as it is for all these steps is read and written once.
    """
    counts, clocks, logged, request_s = rep.counts, rep.clocks, records.log.size, times.figures.request_s
    decoding, sequences = counts[state.DECODING], counts[state.DECODING] + counts[state.GHOSTS]
    context, first = counts[state.CONTEXT] + counts[state.GHOST_CONTEXT], counts[state.STEPS]
    started_s, next_s, shown_s = clocks[state.STARTED], clocks[state.NEXT], clocks[state.SHOWN]
    decoded_s, front_s = clocks[state.DECODED], clocks[state.FRONT]
    held, iterations = facts.blocks - counts[state.FREE_BLOCKS], records.rows
    last = min(first + counts[state.REPEATS], next_end(rep) - 1)
    step, taken, room = first, 0, counts[state.FREE_BLOCKS] - facts.spare_blocks
    while next_s < until and step < last and (logged == 0 or iterations[ITERATIONS] < logged):
        need = next_blocks(rep, facts, step + 1)
        if taken + need > room:
            break
        taken += need
        step += 1
        shown_s = next_s
        if facts.role != state.PREFILL:
            shown_s = max(next_s, front_s)
            front_s = shown_s + facts.chunk_s * decoding
        note_gaps(records.gaps, shown_s - decoded_s, decoding)
        decoded_s, started_s = shown_s, next_s
        context += sequences
        next_s += round_seconds(times, facts, sequences, context, 0, 0, 0.0)
        note_iteration(records, counts, facts, request_s, number, started_s, next_s, 0, held + taken)
    steps = step - first
    take(rep, taken)
    if facts.reserves == state.ANSWER:
        counts[state.PROMISED] -= taken
    counts[state.STEPS] = step
    counts[state.UNSERVED] += steps
    counts[state.REPEATS] -= steps
    counts[state.CONTEXT] += steps * decoding
    counts[state.GHOST_CONTEXT] += steps * counts[state.GHOSTS]
    clocks[state.STARTED], clocks[state.NEXT], clocks[state.SHOWN] = started_s, next_s, shown_s
    clocks[state.DECODED], clocks[state.FRONT] = decoded_s, front_s


@compiled
def _new_tokens(rep: Replica, facts: Facts) -> int:
    """New tokens of the iteration that was scheduled."""
    counts, decodes = rep.counts, rep.counts[state.BATCH_DECODES]
    return counts[state.BATCH_TOKENS] + (decodes + counts[state.GHOSTS] * (decodes > 0)) * new_tokens_of(decodes, facts)


@compiled
def _seconds(rep: Replica, times: PackedTimes, facts: Facts, further_s: float) -> float:
    """Seconds of the iteration that was scheduled, with ``further_s`` of the device; infinite with nothing to do."""
    counts = rep.counts
    decodes, tokens, prompts = counts[state.BATCH_DECODES], counts[state.BATCH_TOKENS], counts[state.BATCH_PROMPTS]
    if decodes + prompts == 0:
        return np.inf
    sequences = context = 0
    if decodes > 0:
        sequences, context = decodes + counts[state.GHOSTS], counts[state.CONTEXT] + counts[state.GHOST_CONTEXT]
    attention_s, loading = rep.clocks[state.ATTENTION] + further_s, rep.clocks[state.LOADING]
    seconds = round_seconds(times, facts, sequences, context, tokens, prompts, attention_s)
    return max(seconds, loading) if facts.loads_along else seconds + loading


@compiled
def round_seconds(
    times: PackedTimes, facts: Facts, decodes: int, context_sum: int, new_tokens: int, prompts: int, attention_s: float
) -> float:
    """Return the seconds of an iteration; of a pipeline, of a round in which each micro-batch passes all stages once.

    Decoding sequences are spread evenly over as many micro-batches as stages; prompts fill one after the other up to
    its share of the budget. Micro-batches follow each other in order, so that a round takes what the heaviest does.
    """
    n = blocks_for(decodes, facts.stages)
    context = context_sum * n // decodes if decodes > 0 else 0
    if prompts == 0:
        return step_seconds(times, n, context, 0, 0, attention_s)
    room = max(facts.token_budget // facts.stages - n * facts.pass_tokens, 1)
    taken = min(max(blocks_for(new_tokens, room), 1), facts.stages)
    tokens, parts = blocks_for(new_tokens, taken), blocks_for(prompts, taken)
    return step_seconds(times, n, context, tokens, parts, attention_s / taken)


@compiled
def _start(rep: Replica, facts: Facts, times: PackedTimes, ends_s: float, number: int, records: Records) -> None:
    """Let the iteration that was scheduled begin."""
    counts, now = rep.counts, rep.clocks[state.NEXT]
    rep.clocks[state.STARTED], rep.clocks[state.NEXT] = now, ends_s
    if counts[state.BATCH_DECODES] + counts[state.BATCH_PROMPTS] > 0:
        tokens, held = counts[state.BATCH_TOKENS], facts.blocks - counts[state.FREE_BLOCKS]
        note_iteration(records, counts, facts, times.figures.request_s, number, now, ends_s, tokens, held)


@compiled
def _show(rep: Replica, facts: Facts, sequences: int) -> None:
    """Hand the tokens of the iteration that ends now to the front end, which streams those before them first.

    Chunks are merged where a client's is not taken yet, but the process takes its tasks in turn, so that it comes to
    each before the next tokens are there.
    """
    clocks = rep.clocks
    clocks[state.SHOWN] = clocks[state.NEXT]
    if facts.role != state.PREFILL:
        clocks[state.SHOWN] = max(clocks[state.NEXT], clocks[state.FRONT])
        clocks[state.FRONT] = clocks[state.SHOWN] + facts.chunk_s * sequences


@compiled
def _decode_once(rep: Replica, records: Records, now: float, tokens: int) -> None:
    """Give the decoding sequences the tokens of the iteration that ends now: one each, or all that they accept."""
    counts = rep.counts
    counts[state.STEPS] += 1
    counts[state.UNSERVED] += 1
    counts[state.CONTEXT] += tokens
    counts[state.GHOST_CONTEXT] += counts[state.GHOSTS]
    note_gaps(records.gaps, now - rep.clocks[state.DECODED], counts[state.DECODING] - counts[state.JOINED])
    rep.clocks[state.DECODED] = now


@compiled
def _finish(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """End the iteration under way: sequences get their tokens, prompts their first."""
    release_left(rep)
    decoding = rep.counts[state.DECODING] if rep.counts[state.BATCH_DECODES] > 0 else 0
    _show(rep, facts, decoding + rep.counts[state.ENDING])
    if decoding > 0:
        _finish_decodes(rep, slots, facts, number, records)
    if facts.prefix_cache and facts.published == state.COMPUTED:
        _publish_computed(rep, slots, facts)
    _finish_prompts(rep, slots, facts, number, records, decoding)


@compiled
def _finish_decodes(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records) -> None:
    """Give decoding sequences their tokens; those that have all of them leave."""
    counts, now = rep.counts, rep.clocks[state.SHOWN]
    for i in range(counts[state.JOINED]):
        slot = rep.stacks[i].joined
        if slots[slot].generated == 0:
            # All of its prompt but the last token was processed elsewhere.
            slots[slot].first_s = now
        else:
            note_gaps(records.gaps, now - slots[slot].token_s, 1)
    tokens = pass_drafted(rep, slots, facts) if facts.pass_tokens > 1 else counts[state.DECODING]
    _decode_once(rep, records, now, tokens)
    counts[state.JOINED] = 0
    while next_end(rep) == counts[state.STEPS]:
        slot = pop_end(rep)
        end(rep, slots, slot, facts)
        write_down(slots, slot, now, COMPLETED, number, records)
        if facts.policy == STATIC:
            counts[state.GHOSTS] += 1
            counts[state.GHOST_CONTEXT] += slots[slot].prompt + slots[slot].output - 1
    if counts[state.DECODING] == 0:
        counts[state.GHOSTS] = counts[state.GHOST_CONTEXT] = 0


@compiled
def _finish_prompts(rep: Replica, slots: Slots, facts: Facts, number: int, records: Records, decoding: int) -> None:
    """Give sequences whose prompts were processed their next token: they decode, leave, or go on elsewhere.

    They stand last in the iteration, so that the front end streams their tokens after those of ``decoding`` sequences.
    """
    counts, now = rep.counts, rep.clocks[state.SHOWN] + facts.chunk_s * decoding
    for i in range(counts[state.ENDING]):
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
    for i in range(rep.counts[state.ENDING]):
        slot = rep.stacks[i].ending
        publish(rep, slots, slot, slots[slot].computed, facts.block_tokens)
    partial = rep.counts[state.PARTIAL]
    if partial != state.NOTHING:
        publish(rep, slots, partial, slots[partial].computed, facts.block_tokens)


@compiled
def _schedule(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes) -> None:
    """Form the next iteration.

    Where iterations are scheduled ahead, requests that arrived while the last one ran are not seen yet, unless there
    is nothing else to do. After everything was put off, what waits has the cache to itself.
    """
    counts, now = rep.counts, rep.clocks[state.NEXT]
    busy = counts[state.BATCH_DECODES] + counts[state.BATCH_PROMPTS] > 0
    rep.clocks[state.SEEN] = rep.clocks[state.STARTED] if facts.ahead and busy else now
    repeats = _formed(rep, slots, facts, times)
    if counts[state.BATCH_DECODES] + counts[state.BATCH_PROMPTS] == 0:
        release_left(rep)
        rep.clocks[state.SEEN] = now
        repeats = _formed(rep, slots, facts, times)
    unseen = counts[state.WAITING] + counts[state.READY] > 0 and rep.clocks[state.ARRIVED] > rep.clocks[state.SEEN]
    alike = counts[state.BATCH_DECODES] > 0 and counts[state.BATCH_PROMPTS] == 0 and facts.pass_tokens == 1
    counts[state.REPEATS] = repeats if alike and not unseen else 0
    if counts[state.BATCH_PROMPTS] > 0:
        counts[state.UNSERVED] = 0


@compiled
def _formed(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes) -> int:
    """Form the next iteration by the policy; return how often it may be repeated."""
    counts = rep.counts
    counts[state.BATCH_DECODES] = counts[state.BATCH_TOKENS] = counts[state.BATCH_PROMPTS] = counts[state.ENDING] = 0
    rep.clocks[state.ATTENTION] = rep.clocks[state.LOADING] = 0.0
    if facts.role == state.DECODE:
        take_in(rep, slots, facts, rep.clocks[state.NEXT])
    return schedule(rep, slots, facts, times, rep.clocks[state.NEXT])


@compiled
def _refuses(rep: Replica, slots: Slots, facts: Facts, times: PackedTimes, number: int, records: Records) -> bool:
    """End the iteration and form the next; return whether it is empty, the first in the queue being refused.

    Not even an idle replica can serve that one. One that was put off has its answer so far to compute again, which may
    be more than an iteration takes whole.
    """
    _finish(rep, slots, facts, number, records)
    _schedule(rep, slots, facts, times)
    slot = rep.counts[state.FIRST_WAITING]
    if rep.counts[state.BATCH_DECODES] + rep.counts[state.BATCH_PROMPTS] > 0 or slot == state.NOTHING:
        return False
    whole = not facts.chunked and to_compute(slots, slot) > facts.token_budget // facts.stages
    leave_waiting(rep, slots, slot)
    write_down(slots, slot, rep.clocks[state.NEXT], OVER_BUDGET if whole else NO_ROOM, number, records)
    return True


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


@compiled
def send(rep: Replica, slots: Slots, slot: int, number: int) -> None:
    """Let a request whose prompt a replica has processed go on elsewhere; the replica keeps nothing of it."""
    slots[slot].prefilled_by, slots[slot].prefilled_s = number, slots[slot].token_s
    slots[slot].output += slots[slot].further
    slots[slot].further, slots[slot].stage = 0, state.ON_ITS_WAY
    insert(slots, rep.counts, slot, state.NOTHING, state.FIRST_SENT)


@compiled
def any_sent(fleet: Replica, first: int, behind: int) -> bool:
    """Return whether any replica from ``first`` to before ``behind`` has something that is to be sent."""
    r = first
    while r < behind and fleet.counts[r, state.FIRST_SENT] == state.NOTHING:
        r += 1
    return r < behind


@compiled
def transfer_all(fleet: Replica, slots: Slots, sources: Sources, transfers: Floats, prefilling: int) -> int:
    """Send what the first ``prefilling`` replicas have processed, in order of time; return how many requests.

    ``transfers`` are seconds by prompt tokens. All that was processed until now is known.
    """
    sent = 0
    while True:
        first, earliest = state.NOTHING, np.inf
        for r in range(prefilling):
            slot = fleet.counts[r, state.FIRST_SENT]
            if slot != state.NOTHING and slots[slot].token_s < earliest:
                first, earliest = r, slots[slot].token_s
        if first == state.NOTHING:
            return sent
        slot = fleet.counts[first, state.FIRST_SENT]
        remove(slots, fleet.counts[first], slot, state.FIRST_SENT)
        port = fleet.counts[first, state.PORT]
        begin_s = max(earliest, fleet.clocks[port, state.PORT_FREE])
        fleet.clocks[port, state.PORT_FREE] = begin_s + transfer_seconds(transfers, slots[slot].prompt)
        slots[slot].ready_s = fleet.clocks[port, state.PORT_FREE]
        push_due(sources, slots, slots[slot].ready_s, slot)
        sent += 1


@compiled
def transfer_seconds(transfers: Floats, tokens: int) -> float:
    """Return the seconds that the keys and values of a prompt take."""
    at, share = place_on(CONTEXT_BITS, transfers.size, 1.0 * tokens)
    seconds: float = transfers[at] + share * (transfers[at + 1] - transfers[at])
    return seconds


@compiled
def take_in(rep: Replica, slots: Slots, facts: Facts, now: float) -> None:
    """Let requests decode whose keys and values are there, in order, while places and blocks last.

    Those that were put off go before them: their tokens are computed here once more.
    """
    while rep.counts[state.WAITING] == 0 and rep.counts[state.RUNNING] < facts.max_sequences:
        slot = rep.counts[state.FIRST_READY]
        if (
            slot == state.NOTHING
            or slots[slot].ready_s > rep.clocks[state.SEEN]
            or not _has_room(rep, slots, slot, facts)
        ):
            return
        leave_ready(rep, slots, slot)
        if facts.computes_last:
            slots[slot].generated = 0
        else:
            slots[slot].first_s = slots[slot].token_s = now
        slots[slot].computed = slots[slot].prompt - facts.computes_last
        join(rep, slots, slot, facts, rep.counts[state.ADMITTED])
        begin_decoding(rep, slots, slot, facts)


@compiled
def _has_room(rep: Replica, slots: Slots, slot: int, facts: Facts) -> bool:
    """Whether free blocks hold a prompt and its next token, next to what running sequences are to have."""
    free, block = rep.counts[state.FREE_BLOCKS], facts.block_tokens
    if facts.reserves == state.ANSWER:
        return whole_blocks(slots, slot, facts) + rep.counts[state.PROMISED] <= free
    kept = blocks_for(facts.decode_tokens * rep.counts[state.RUNNING], block)
    kept = max(kept, coming_blocks(rep, slots, facts))
    need = blocks_for(slots[slot].prompt + max(facts.decode_tokens, 1), block)
    # With nothing running a request has the cache to itself.
    if rep.counts[state.RUNNING] == 0:
        need = min(need, whole_blocks(slots, slot, facts))
    return need + kept + facts.watermark_blocks <= free
