"""The paged cache of a replica, with the prefix cache in it.

Free blocks stand in a queue in the order in which they were given up, least recently used first. A block keeps its
content until it is taken again, and is found by its key until then (vLLM's automatic prefix caching). Blocks that no
other request can find are alike, so that a sequence only counts them. What is taken goes to the tiers behind the
device, if there are any.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.contents import block_key, enter, forget, found
from sightline.simulation.engine.state import (
    FIRST_FREE,
    FREE_BLOCKS,
    NOTHING,
    POOLED,
    UNSHARED,
    Replica,
    Slots,
)
from sightline.simulation.engine.tiers import append, has_tiers, keep, load, unlink


@compiled
def _take_out(rep: Replica, block: int) -> None:
    """Take a block out of the queue of free ones."""
    unlink(rep, block, FIRST_FREE)
    rep.counts[FREE_BLOCKS] -= 1


@compiled
def _give_back(rep: Replica, block: int) -> None:
    """Append a block to the queue of free ones."""
    append(rep, block, FIRST_FREE)
    rep.counts[FREE_BLOCKS] += 1


@compiled
def _evict(rep: Replica, block: int) -> None:
    """Let a block's content not be found on the device any more; it goes to the tiers behind it."""
    key = rep.blocks[block].key
    if key == UNSHARED:
        rep.blocks[block].key = 0
    else:
        forget(rep, block)
    if has_tiers(rep):
        keep(rep, key)


@compiled
def take(rep: Replica, blocks: int) -> None:
    """Take the first of the free blocks for a sequence; what they had in them is forgotten."""
    for _ in range(blocks):
        block = rep.counts[FIRST_FREE]
        _take_out(rep, block)
        if rep.blocks[block].key != 0:
            _evict(rep, block)
        rep.blocks[rep.counts[POOLED]].pooled = block
        rep.counts[POOLED] += 1


@compiled
def hits(rep: Replica, slots: Slots, slot: int, tokens: int, block_tokens: int) -> "tuple[int, int]":
    """Return how many leading blocks of a sequence of ``tokens`` are cached, and how many free ones they take.

    These are the ones that nobody holds, and those to which keys and values are loaded from a tier. At least one token
    is always computed.
    """
    cached = free = 0
    if slots[slot].prefix_id < 0 and slots[slot].session_id < 0 and slots[slot].preemptions == 0:
        return cached, free
    for i in range((tokens - 1) // block_tokens):
        block = found(rep, block_key(slots, slot, i, block_tokens))
        if block == NOTHING:
            break
        cached += 1
        free += rep.blocks[block].holders <= 0
    return cached, free


@compiled
def hold_cached(rep: Replica, slots: Slots, slot: int, blocks: int, block_tokens: int) -> None:
    """Let a sequence hold its leading ``blocks``, which are cached; those in tiers are loaded for the iteration."""
    row = rep.table[slots[slot].place]
    lacking = False
    for i in range(blocks):
        block = found(rep, block_key(slots, slot, i, block_tokens))
        row[i] = block
        if rep.blocks[block].holders < 0:
            lacking = True
            continue
        if rep.blocks[block].holders == 0:
            _take_out(rep, block)
        rep.blocks[block].holders += 1
    if lacking:
        load(rep, row, blocks, slots[slot].preemptions == 0)
        _make_room(rep, slots, slot, blocks, block_tokens)
    slots[slot].keyed = blocks


@compiled
def _make_room(rep: Replica, slots: Slots, slot: int, blocks: int, block_tokens: int) -> None:
    """Let a sequence hold free blocks in place of those of its leading ``blocks`` that are in tiers."""
    row = rep.table[slots[slot].place]
    for i in range(blocks):
        if row[i] != NOTHING:
            continue
        block = rep.counts[FIRST_FREE]
        _take_out(rep, block)
        if rep.blocks[block].key != 0:
            _evict(rep, block)
        enter(rep, block_key(slots, slot, i, block_tokens), block)
        rep.blocks[block].holders = 1
        row[i] = block


@compiled
def publish(rep: Replica, slots: Slots, slot: int, tokens: int, block_tokens: int) -> None:
    """Let others find the full blocks of a sequence's first ``tokens``, as far as any could share them."""
    last = tokens // block_tokens
    # Tiers know what a request that was put off has in them.
    if slots[slot].session_id < 0 and (slots[slot].preemptions == 0 or not has_tiers(rep)):
        shared = slots[slot].prefix_tokens // block_tokens if slots[slot].prefix_id >= 0 else 0
        last = min(last, shared)
    _publish_blocks(rep, slots, slot, last, block_tokens)


@compiled
def publish_all(rep: Replica, slots: Slots, slot: int, tokens: int, block_tokens: int) -> None:
    """Let a sequence that is put off find all of its full blocks again."""
    _publish_blocks(rep, slots, slot, tokens // block_tokens, block_tokens)


@compiled
def _publish_blocks(rep: Replica, slots: Slots, slot: int, last: int, block_tokens: int) -> None:
    row = rep.table[slots[slot].place]
    for i in range(slots[slot].keyed, last):
        rep.counts[POOLED] -= 1
        block = rep.blocks[rep.counts[POOLED]].pooled
        enter(rep, block_key(slots, slot, i, block_tokens), block)
        rep.blocks[block].holders = 1
        row[i] = block
    slots[slot].keyed = max(slots[slot].keyed, last)


@compiled
def give_up(rep: Replica, place: int, keyed: int, full: int, blocks: int) -> None:
    """Free the ``blocks`` that a place's sequence holds, its last one first; its leading ``keyed`` ones have keys.

    Of the others those before ``full`` have keys and values that tiers keep, though nobody will ask for them.
    """
    kept = full if has_tiers(rep) else 0
    for i in range(blocks - 1, keyed - 1, -1):
        rep.counts[POOLED] -= 1
        block = rep.blocks[rep.counts[POOLED]].pooled
        if i < kept:
            rep.blocks[block].key = UNSHARED
        _give_back(rep, block)
    row = rep.table[place]
    for i in range(keyed - 1, -1, -1):
        block = row[i]
        rep.blocks[block].holders -= 1
        if rep.blocks[block].holders == 0:
            _give_back(rep, block)


@compiled
def view(fleet: Replica, r: int) -> Replica:
    """Return one replica of a fleet; what is written to it is written to the fleet."""
    f = fleet
    return Replica(f.counts[r], f.clocks[r], f.phases[r], f.stacks[r], f.table[r], f.blocks[r], f.index[r])
