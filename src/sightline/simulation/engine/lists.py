"""Linked lists and heaps in rows of arrays, and a replica's lists of slots: who waits, who runs, who ends when."""

from typing import Any

from sightline.simulation.compiled import compiled
from sightline.simulation.engine import state
from sightline.simulation.engine.state import Replica, Slots
from sightline.simulation.load import Integers


@compiled
def insert(rows: Any, counts: Integers, row: int, before: int, first: int) -> None:
    """Link a row in front of ``before``, or at the end; counter ``first`` and the next have the ends of the list."""
    preceding = counts[first + 1] if before == state.NOTHING else rows[before].preceding
    rows[row].preceding, rows[row].following = preceding, before
    if preceding == state.NOTHING:
        counts[first] = row
    else:
        rows[preceding].following = row
    if before == state.NOTHING:
        counts[first + 1] = row
    else:
        rows[before].preceding = row


@compiled
def remove(rows: Any, counts: Integers, row: int, first: int) -> None:
    """Take a row out of the list whose ends stand in counter ``first`` and the next."""
    before, behind = rows[row].preceding, rows[row].following
    if before == state.NOTHING:
        counts[first] = behind
    else:
        rows[before].following = behind
    if behind == state.NOTHING:
        counts[first + 1] = before
    else:
        rows[behind].preceding = before


@compiled
def _is_earlier(heap: Any, a: int, b: int) -> bool:
    if heap[a].key != heap[b].key:
        return heap[a].key < heap[b].key
    return heap[a].order < heap[b].order


@compiled
def _set(heap: Any, at: int, key: float, order: int, slot: int) -> None:
    heap[at].key, heap[at].order, heap[at].slot = key, order, slot


@compiled
def _swap(heap: Any, a: int, b: int) -> None:
    key, order, slot = heap[a].key, heap[a].order, heap[a].slot
    _set(heap, a, heap[b].key, heap[b].order, heap[b].slot)
    _set(heap, b, key, order, slot)


@compiled
def push(heap: Any, counts: Integers, size: int, key: float, order: int, slot: int) -> None:
    """Add an entry to a heap, of which counter ``size`` says how many there are: least key first, then least order."""
    at = counts[size]
    counts[size] += 1
    _set(heap, at, key, order, slot)
    _rise(heap, at)


@compiled
def drop(heap: Any, counts: Integers, size: int, at: int) -> None:
    """Take an entry out of a heap."""
    counts[size] -= 1
    last = counts[size]
    if at != last:
        _set(heap, at, heap[last].key, heap[last].order, heap[last].slot)
        _rise(heap, at)
        _sink(heap, at, last)


@compiled
def _rise(heap: Any, at: int) -> None:
    while at > 0 and _is_earlier(heap, at, (at - 1) >> 1):
        _swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@compiled
def _sink(heap: Any, at: int, size: int) -> None:
    while True:
        least = at
        for below in (2 * at + 1, 2 * at + 2):
            if below < size and _is_earlier(heap, below, least):
                least = below
        if least == at:
            return
        _swap(heap, at, least)
        at = least


@compiled
def waits_first(slots: Slots, slot: int, other: int) -> bool:
    """Return whether a request goes before another: by priority, then by arrival."""
    if slots[slot].priority != slots[other].priority:
        return slots[slot].priority < slots[other].priority
    if slots[slot].arrival_s != slots[other].arrival_s:
        return slots[slot].arrival_s < slots[other].arrival_s
    return slots[slot].request < slots[other].request


@compiled
def _count(rep: Replica, slots: Slots, slot: int, counter: int, more: int) -> None:
    rep.counts[counter] += more
    rep.counts[state.QUEUED_TOKENS] += more * (slots[slot].prompt + slots[slot].expected)


@compiled
def append_waiting(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request wait behind the others, or behind those of its priority."""
    before = state.NOTHING
    if by_priority:
        behind = rep.counts[state.LAST_WAITING]
        while behind != state.NOTHING and waits_first(slots, slot, behind):
            before, behind = behind, slots[behind].preceding
    _wait(rep, slots, slot, before)


@compiled
def _wait(rep: Replica, slots: Slots, slot: int, before: int) -> None:
    """Let a request wait in front of another, or behind all."""
    insert(slots, rep.counts, slot, before, state.FIRST_WAITING)
    _count(rep, slots, slot, state.WAITING, 1)
    slots[slot].stage = state.QUEUED


@compiled
def append_seen(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request that was put off wait behind those that the scheduling under way sees."""
    if by_priority:
        append_waiting(rep, slots, slot, by_priority)
        return
    before, behind = state.NOTHING, rep.counts[state.LAST_WAITING]
    while behind != state.NOTHING and slots[behind].arrival_s > rep.clocks[state.SEEN]:
        before, behind = behind, slots[behind].preceding
    _wait(rep, slots, slot, before)


@compiled
def first_seen(rep: Replica, slots: Slots) -> int:
    """Return the first waiting request that the scheduling under way sees, or `NOTHING`."""
    slot = rep.counts[state.FIRST_WAITING]
    while slot != state.NOTHING and slots[slot].arrival_s > rep.clocks[state.SEEN]:
        slot = slots[slot].following
    return slot


@compiled
def sort_by_found(rep: Replica, slots: Slots) -> None:
    """Bring waiting requests of which more blocks were found before the others; equal ones stay as they are."""
    slot = rep.counts[state.FIRST_WAITING]
    while slot != state.NOTHING:
        behind, before = slots[slot].following, slot
        while (
            slots[before].preceding != state.NOTHING and slots[slots[before].preceding].computed < slots[slot].computed
        ):
            before = slots[before].preceding
        if before != slot:
            remove(slots, rep.counts, slot, state.FIRST_WAITING)
            insert(slots, rep.counts, slot, before, state.FIRST_WAITING)
        slot = behind


@compiled
def prepend_waiting(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request that was put off wait before the others, or before those of its priority."""
    before = rep.counts[state.FIRST_WAITING]
    if by_priority:
        while before != state.NOTHING and waits_first(slots, before, slot):
            before = slots[before].following
    _wait(rep, slots, slot, before)


@compiled
def leave_waiting(rep: Replica, slots: Slots, slot: int) -> None:
    """Take a request out of the waiting ones."""
    remove(slots, rep.counts, slot, state.FIRST_WAITING)
    _count(rep, slots, slot, state.WAITING, -1)


@compiled
def append_running(rep: Replica, slots: Slots, slot: int) -> None:
    """Let a sequence run behind those of smaller order."""
    before, behind = state.NOTHING, rep.counts[state.LAST_RUNNING]
    while behind != state.NOTHING and slots[behind].order > slots[slot].order:
        before, behind = behind, slots[behind].preceding
    insert(slots, rep.counts, slot, before, state.FIRST_RUNNING)


@compiled
def leave_running(rep: Replica, slots: Slots, slot: int) -> None:
    """Take a sequence out of the running ones."""
    remove(slots, rep.counts, slot, state.FIRST_RUNNING)


@compiled
def append_ready(rep: Replica, slots: Slots, slot: int) -> None:
    """Let a request whose keys and values came wait for room to decode."""
    insert(slots, rep.counts, slot, state.NOTHING, state.FIRST_READY)
    _count(rep, slots, slot, state.READY, 1)
    slots[slot].stage = state.TO_DECODE


@compiled
def leave_ready(rep: Replica, slots: Slots, slot: int) -> None:
    """Take one of these requests out of the waiting ones."""
    remove(slots, rep.counts, slot, state.FIRST_READY)
    _count(rep, slots, slot, state.READY, -1)


@compiled
def next_end(rep: Replica) -> int:
    """Return the decode step in which the next sequence ends; a huge one where none decodes."""
    return rep.stacks[0].key if rep.counts[state.HEAP] > 0 else state.MANY


@compiled
def push_end(rep: Replica, slots: Slots, slot: int) -> None:
    """Note when a decoding sequence ends; of several in one step the one that was admitted first ends first."""
    push(rep.stacks, rep.counts, state.HEAP, slots[slot].done_at, slots[slot].order, slot)


@compiled
def pop_end(rep: Replica) -> int:
    """Return the sequence that ends next, and forget it."""
    slot = rep.stacks[0].slot
    drop(rep.stacks, rep.counts, state.HEAP, 0)
    return slot


@compiled
def cancel_end(rep: Replica, slot: int) -> None:
    """Forget when a sequence ends, because it is put off."""
    for at in range(rep.counts[state.HEAP]):
        if rep.stacks[at].slot == slot:
            drop(rep.stacks, rep.counts, state.HEAP, at)
            return
