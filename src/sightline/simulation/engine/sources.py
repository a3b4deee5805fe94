"""Where requests come from: a part of the load, conversations that go on, and clients that wait for answers."""

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from sightline.simulation.compiled import compiled, entry
from sightline.simulation.engine.lists import drop, push
from sightline.simulation.engine.state import NOTHING, ON_ITS_WAY, Slots, record
from sightline.simulation.load import Integers, Requests
from sightline.simulation.rows import bundle

# Counters of `Sources.counts`.
TAKEN: Final = 0
"""Requests of the part that were taken from it."""
NUMBERED: Final = 1
"""Requests of the parts before."""
FREE: Final = 2
"""Free slots."""
DUE: Final = 3
"""Entries of the heap of turns and requests to come."""
CREDITS: Final = 4
"""Entries of the heap of clients that may send."""
TURN: Final = 5
"""Requests routed so far."""
READ: Final = 6
"""Ended requests whose slots were freed."""
SESSIONS: Final = 7
"""Conversations that the table has room for; 0 until one was seen."""
LANDED: Final = 8
"""Requests routed so far to replicas that decode alone."""
DEADLINES: Final = 9
"""Entries of the heap of deadlines."""
COUNTS: Final = 10


REQUEST: Final = record(
    "prompt_tokens output_tokens prefix_id prefix_tokens session_id transcript priority", "arrival_s think_s"
)
Part: TypeAlias = Any
"""An array of `REQUEST`: a part of the load."""
WAIT: Final = record("free order slot", "key")
"""A stack of free slots, and a heap of turns, and of requests on their way between replicas, that will arrive: ``key``
is when, in seconds, ``order`` the number of the request."""
CREDIT: Final = record("order slot", "key")
"""An entry of a heap of clients: ``key`` is when one may send its next request, in seconds."""
SESSION: Final = record("key slot", "ended_s")
"""A row of the hash table of conversations: number + 1, slot of the last turn under way, when the last one ended."""


@bundle
class Sources(NamedTuple):
    """What is known of requests that did not arrive yet."""

    counts: Integers
    waits: Any
    """Of `WAIT`."""
    credits: Any
    """Of `CREDIT`, in a closed loop. Empty for an open one."""
    sessions: Any
    """Of `SESSION`."""
    deadlines: Any
    """Of `CREDIT`: ``key`` is when a request is given up, ``order`` twice its number, and one more where it is given up
    only if it still waits. Entries of requests that have ended stay until their time."""


def part_of(requests: Requests) -> Part:
    """Return the columns that the loop reads, as rows."""
    part = np.zeros(len(requests), REQUEST)
    for name in REQUEST.names or ():
        part[name] = getattr(requests, name)
    return part


def new_sources(concurrency: int, ramp_up_s: float = 0.0) -> Sources:
    """Return sources without slots; ``concurrency`` clients of a closed loop, who begin one by one, or none."""
    heaps = np.zeros(0, WAIT), np.zeros(concurrency, CREDIT), np.zeros(64, SESSION), np.zeros(0, CREDIT)
    sources = Sources(np.zeros(COUNTS, np.int64), *heaps)
    sources.counts[CREDITS] = concurrency
    sources.credits["key"] = np.linspace(0.0, ramp_up_s, concurrency, endpoint=False)
    return sources


def with_slots(sources: Sources, before: int, slots: int) -> Sources:
    """Return sources with room for more slots than ``before``."""
    waits, free = np.zeros(slots, WAIT), int(sources.counts[FREE])
    waits[:before] = sources.waits
    waits["free"][free : free + slots - before] = np.arange(before, slots)
    sources.counts[FREE] += slots - before
    deadlines = np.zeros(4 * slots, CREDIT)
    deadlines[: sources.deadlines.size] = sources.deadlines
    return sources._replace(waits=waits, deadlines=deadlines)


def with_sessions(sources: Sources, part: Part) -> Sources:
    """Return sources whose table has room for the conversations of a part."""
    if part["session_id"].max(initial=-1) < 0:
        return sources
    known = sources.sessions[sources.sessions["key"] != 0]
    needed = known.size + np.unique(part["session_id"]).size
    sources.counts[SESSIONS] = needed
    if 2 * needed <= sources.sessions.size:
        return sources
    larger = sources._replace(sessions=np.zeros(1 << (4 * needed).bit_length(), SESSION))
    for session in known:
        larger.sessions[session_at(larger, int(session["key"]) - 1)] = session
    return larger


@entry
def session_at(sources: Sources, session: int) -> int:
    """Return the row of a conversation in the hash table, or where it would be."""
    last = sources.sessions.size - 1
    at = (session * 0x1E3779B97F4A7C15 >> 20) & last
    while sources.sessions[at].key not in (0, session + 1):
        at = (at + 1) & last
    return at


@compiled
def push_due(sources: Sources, slots: Slots, time_s: float, slot: int) -> None:
    """Let a turn arrive at a time, or a request that another replica has begun."""
    push(sources.waits, sources.counts, DUE, time_s, slots[slot].request, slot)


@compiled
def pop_due(sources: Sources) -> int:
    """Return the turn that arrives next, and forget it."""
    slot = sources.waits[0].slot
    drop(sources.waits, sources.counts, DUE, 0)
    return slot


@compiled
def forget_due(sources: Sources, slot: int) -> None:
    """Forget a request on its way."""
    for at in range(sources.counts[DUE]):
        if sources.waits[at].slot == slot:
            drop(sources.waits, sources.counts, DUE, at)
            return


@compiled
def push_deadline(sources: Sources, slots: Slots, time_s: float, slot: int, waiting: bool) -> None:
    """Let a request be given up at a time, or only if it is ``waiting`` then."""
    counts, deadlines = sources.counts, sources.deadlines
    if time_s == np.inf:
        return
    if counts[DEADLINES] == deadlines.size:
        counts[DEADLINES] = 0
        for i in range(deadlines.size):
            key, order, of = deadlines[i].key, deadlines[i].order, deadlines[i].slot
            if _stands(slots, order, of):
                push(deadlines, counts, DEADLINES, key, order, of)
    push(deadlines, counts, DEADLINES, time_s, 2 * slots[slot].request + waiting, slot)


@compiled
def _stands(slots: Slots, order: int, slot: int) -> bool:
    """Whether a deadline still means something: its request has not ended, and waits if it has to."""
    return slots[slot].request == order >> 1 and (order & 1 == 0 or slots[slot].scheduled_s < 0)


@compiled
def next_deadline(sources: Sources, slots: Slots) -> float:
    """Return when a request is given up next; infinite for never."""
    deadlines = sources.deadlines
    while sources.counts[DEADLINES] > 0:
        if _stands(slots, deadlines[0].order, deadlines[0].slot):
            return deadlines[0].key
        drop(deadlines, sources.counts, DEADLINES, 0)
    return np.inf


@compiled
def take_slot(sources: Sources, slots: Slots, part: Part) -> int:
    """Take the next request of the part into a slot."""
    counts = sources.counts
    i = counts[TAKEN]
    counts[TAKEN] += 1
    counts[FREE] -= 1
    slot = sources.waits[counts[FREE]].free
    slots[slot].request = counts[NUMBERED] + i
    slots[slot].arrival_s = part[i].arrival_s
    slots[slot].prompt, slots[slot].output = part[i].prompt_tokens, part[i].output_tokens
    slots[slot].prefix_id, slots[slot].prefix_tokens = part[i].prefix_id, part[i].prefix_tokens
    slots[slot].session_id, slots[slot].think_s = part[i].session_id, part[i].think_s
    slots[slot].transcript = part[i].transcript
    slots[slot].priority = part[i].priority
    slots[slot].scheduled_s = slots[slot].fetched_s = -1.0
    slots[slot].cached = slots[slot].preemptions = slots[slot].generated = slots[slot].computed = 0
    slots[slot].keyed = slots[slot].further = slots[slot].expected = 0
    slots[slot].prefilled_s = slots[slot].ready_s = np.nan
    slots[slot].prefilled_by = NOTHING
    slots[slot].place = slots[slot].done_at = slots[slot].next_turn = NOTHING
    slots[slot].stage = ON_ITS_WAY
    return slot


@compiled
def goes_on(sources: Sources, part: Part) -> bool:
    """Return whether the next request of the part waits for a turn under way, so that its client is at work already."""
    session = part[sources.counts[TAKEN]].session_id
    if session < 0:
        return False
    at = session_at(sources, session)
    return bool(sources.sessions[at].key != 0 and sources.sessions[at].slot != NOTHING)


@compiled
def held_for_turn(sources: Sources, slots: Slots, slot: int, now: float) -> bool:
    """Keep a turn back until the one before it has ended and its time has come; return whether it has to wait."""
    if slots[slot].session_id < 0:
        return False
    at = session_at(sources, slots[slot].session_id)
    known, before = sources.sessions[at].key != 0, sources.sessions[at].slot
    sources.sessions[at].key, sources.sessions[at].slot = slots[slot].session_id + 1, slot
    if not known:
        return False
    if before != NOTHING:
        slots[before].next_turn = slot
        return True
    due_s = sources.sessions[at].ended_s + slots[slot].think_s
    if due_s <= now:
        return False
    push_due(sources, slots, due_s, slot)
    return True


@compiled
def note_end(sources: Sources, slots: Slots, slot: int, now: float, think_s: float) -> None:
    """Free the slot of a request that ended; the next turn, else the next request of its client, may come."""
    turn = slots[slot].next_turn
    if turn != NOTHING:
        push_due(sources, slots, max(now + slots[turn].think_s, slots[turn].arrival_s), turn)
    elif sources.credits.size > 0:
        push(sources.credits, sources.counts, CREDITS, now + think_s, 0, NOTHING)
    if turn == NOTHING and slots[slot].session_id >= 0:
        at = session_at(sources, slots[slot].session_id)
        sources.sessions[at].slot, sources.sessions[at].ended_s = NOTHING, now
    slots[slot].request = NOTHING
    sources.waits[sources.counts[FREE]].free = slot
    sources.counts[FREE] += 1
