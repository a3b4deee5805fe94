"""A replica's lists of slots: who waits, who runs, and when the running ones end."""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.state import (
    FIRST_READY,
    FIRST_RUNNING,
    FIRST_SENT,
    FIRST_WAITING,
    HEAP,
    LAST_READY,
    LAST_RUNNING,
    LAST_SENT,
    LAST_WAITING,
    MANY,
    NOTHING,
    READY,
    SEEN,
    WAITING,
    Replica,
    Slots,
)

_ORDERS = 1 << 31
"""More sequences than a replica admits in a simulation: orders entries of the heap that end in one step."""


@compiled
def _insert(slots: Slots, rep: Replica, slot: int, before: int, first: int, last: int) -> None:
    """Link a slot in front of ``before``, or at the end of the list whose ends stand in two counters."""
    preceding = rep.counts[last] if before == NOTHING else slots[before].preceding
    slots[slot].preceding, slots[slot].following = preceding, before
    if preceding == NOTHING:
        rep.counts[first] = slot
    else:
        slots[preceding].following = slot
    if before == NOTHING:
        rep.counts[last] = slot
    else:
        slots[before].preceding = slot


@compiled
def _remove(slots: Slots, rep: Replica, slot: int, first: int, last: int) -> None:
    before, behind = slots[slot].preceding, slots[slot].following
    if before == NOTHING:
        rep.counts[first] = behind
    else:
        slots[before].following = behind
    if behind == NOTHING:
        rep.counts[last] = before
    else:
        slots[behind].preceding = before


@compiled
def waits_first(slots: Slots, slot: int, other: int) -> bool:
    """Return whether a request goes before another: by priority, then by arrival."""
    if slots[slot].priority != slots[other].priority:
        return slots[slot].priority < slots[other].priority
    if slots[slot].arrival_s != slots[other].arrival_s:
        return slots[slot].arrival_s < slots[other].arrival_s
    return slots[slot].request < slots[other].request


@compiled
def append_waiting(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request wait behind the others, or behind those of its priority."""
    before = NOTHING
    if by_priority:
        behind = rep.counts[LAST_WAITING]
        while behind != NOTHING and waits_first(slots, slot, behind):
            before, behind = behind, slots[behind].preceding
    _insert(slots, rep, slot, before, FIRST_WAITING, LAST_WAITING)
    rep.counts[WAITING] += 1


@compiled
def append_seen(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request that was put off wait behind those that the scheduling under way sees."""
    if by_priority:
        append_waiting(rep, slots, slot, by_priority)
        return
    before, behind = NOTHING, rep.counts[LAST_WAITING]
    while behind != NOTHING and slots[behind].arrival_s > rep.clocks[SEEN]:
        before, behind = behind, slots[behind].preceding
    _insert(slots, rep, slot, before, FIRST_WAITING, LAST_WAITING)
    rep.counts[WAITING] += 1


@compiled
def first_seen(rep: Replica, slots: Slots) -> int:
    """Return the first waiting request that the scheduling under way sees, or `NOTHING`."""
    slot = rep.counts[FIRST_WAITING]
    while slot != NOTHING and slots[slot].arrival_s > rep.clocks[SEEN]:
        slot = slots[slot].following
    return slot


@compiled
def sort_by_found(rep: Replica, slots: Slots) -> None:
    """Bring waiting requests of which more blocks were found before the others; equal ones stay as they are."""
    slot = rep.counts[FIRST_WAITING]
    while slot != NOTHING:
        behind, before = slots[slot].following, slot
        while slots[before].preceding != NOTHING and slots[slots[before].preceding].computed < slots[slot].computed:
            before = slots[before].preceding
        if before != slot:
            _remove(slots, rep, slot, FIRST_WAITING, LAST_WAITING)
            _insert(slots, rep, slot, before, FIRST_WAITING, LAST_WAITING)
        slot = behind


@compiled
def prepend_waiting(rep: Replica, slots: Slots, slot: int, by_priority: bool) -> None:
    """Let a request that was put off wait before the others, or before those of its priority."""
    before = rep.counts[FIRST_WAITING]
    if by_priority:
        while before != NOTHING and waits_first(slots, before, slot):
            before = slots[before].following
    _insert(slots, rep, slot, before, FIRST_WAITING, LAST_WAITING)
    rep.counts[WAITING] += 1


@compiled
def leave_waiting(rep: Replica, slots: Slots, slot: int) -> None:
    """Take a request out of the waiting ones."""
    _remove(slots, rep, slot, FIRST_WAITING, LAST_WAITING)
    rep.counts[WAITING] -= 1


@compiled
def append_running(rep: Replica, slots: Slots, slot: int) -> None:
    """Let a sequence run behind those of smaller order."""
    before, behind = NOTHING, rep.counts[LAST_RUNNING]
    while behind != NOTHING and slots[behind].order > slots[slot].order:
        before, behind = behind, slots[behind].preceding
    _insert(slots, rep, slot, before, FIRST_RUNNING, LAST_RUNNING)


@compiled
def leave_running(rep: Replica, slots: Slots, slot: int) -> None:
    """Take a sequence out of the running ones."""
    _remove(slots, rep, slot, FIRST_RUNNING, LAST_RUNNING)


@compiled
def append_sent(rep: Replica, slots: Slots, slot: int) -> None:
    """Let a request whose prompt was processed wait for its keys and values to be sent."""
    _insert(slots, rep, slot, NOTHING, FIRST_SENT, LAST_SENT)


@compiled
def leave_sent(rep: Replica, slots: Slots) -> int:
    """Return the first of these requests, and forget it."""
    slot = rep.counts[FIRST_SENT]
    _remove(slots, rep, slot, FIRST_SENT, LAST_SENT)
    return slot


@compiled
def append_ready(rep: Replica, slots: Slots, slot: int) -> None:
    """Let a request whose keys and values came wait for room to decode."""
    _insert(slots, rep, slot, NOTHING, FIRST_READY, LAST_READY)
    rep.counts[READY] += 1


@compiled
def leave_ready(rep: Replica, slots: Slots) -> None:
    """Take the first of these requests out of the waiting ones."""
    _remove(slots, rep, rep.counts[FIRST_READY], FIRST_READY, LAST_READY)
    rep.counts[READY] -= 1


@compiled
def next_end(rep: Replica) -> int:
    """Return the decode step in which the next sequence ends; a huge one where none decodes."""
    return rep.stacks[0].heap_key // _ORDERS if rep.counts[HEAP] > 0 else MANY


@compiled
def push_end(rep: Replica, slots: Slots, slot: int) -> None:
    """Note when a decoding sequence ends."""
    at = rep.counts[HEAP]
    rep.counts[HEAP] += 1
    rep.stacks[at].heap_key, rep.stacks[at].heap_slot = slots[slot].done_at * _ORDERS + slots[slot].order, slot
    _rise(rep, at)


@compiled
def pop_end(rep: Replica) -> int:
    """Return the sequence that ends next, and forget it."""
    slot = rep.stacks[0].heap_slot
    _drop(rep, 0)
    return slot


@compiled
def cancel_end(rep: Replica, slot: int) -> None:
    """Forget when a sequence ends, because it is put off."""
    for at in range(rep.counts[HEAP]):
        if rep.stacks[at].heap_slot == slot:
            _drop(rep, at)
            return


@compiled
def _drop(rep: Replica, at: int) -> None:
    """Take an entry out of the heap."""
    rep.counts[HEAP] -= 1
    last = rep.counts[HEAP]
    if at != last:
        rep.stacks[at].heap_key, rep.stacks[at].heap_slot = rep.stacks[last].heap_key, rep.stacks[last].heap_slot
        _rise(rep, at)
        _sink(rep, at)


@compiled
def _rise(rep: Replica, at: int) -> None:
    while at > 0 and rep.stacks[(at - 1) >> 1].heap_key > rep.stacks[at].heap_key:
        above = (at - 1) >> 1
        _swap(rep, at, above)
        at = above


@compiled
def _sink(rep: Replica, at: int) -> None:
    n = rep.counts[HEAP]
    while True:
        least, left = at, 2 * at + 1
        if left < n and rep.stacks[left].heap_key < rep.stacks[least].heap_key:
            least = left
        if left + 1 < n and rep.stacks[left + 1].heap_key < rep.stacks[least].heap_key:
            least = left + 1
        if least == at:
            return
        _swap(rep, at, least)
        at = least


@compiled
def _swap(rep: Replica, a: int, b: int) -> None:
    rep.stacks[a].heap_key, rep.stacks[b].heap_key = rep.stacks[b].heap_key, rep.stacks[a].heap_key
    rep.stacks[a].heap_slot, rep.stacks[b].heap_slot = rep.stacks[b].heap_slot, rep.stacks[a].heap_slot
