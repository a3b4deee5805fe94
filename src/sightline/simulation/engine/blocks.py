"""The paged cache of a replica, with the prefix cache in it.

Free blocks stand in a queue in the order in which they were given up, least recently used first. A block keeps its
content until it is taken again, and is found by its key until then (vLLM's automatic prefix caching). Blocks that no
other request can find are alike, so that a sequence only counts them. What is taken goes to the tiers behind the
device, if there are any.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine import state
from sightline.simulation.engine.lists import insert, remove
from sightline.simulation.engine.state import Facts, Replica, Slots
from sightline.simulation.load import Integers

_OF_PREFIX = 1
_OF_SESSION = 2
_OF_REQUEST = 3


@compiled
def block_key(slots: Slots, slot: int, block: int, block_tokens: int) -> int:
    """Return what identifies the content of a sequence's block, never 0.

    Within the shared prefix that is the prefix, then the conversation's transcript, else the request alone.
    """
    if slots[slot].prefix_id >= 0 and (block + 1) * block_tokens <= slots[slot].prefix_tokens:
        return mixed(slots[slot].prefix_id * 4 + _OF_PREFIX, block)
    if slots[slot].session_id >= 0:
        return mixed(slots[slot].session_id * 4 + _OF_SESSION + (slots[slot].transcript << 40), block)
    return mixed(slots[slot].request * 4 + _OF_REQUEST, block)


@compiled
def mixed(owner: int, block: int) -> int:
    """Return a hash of two numbers, never 0 (the finalizer of SplitMix64, twice)."""
    x = owner * 0x1E3779B97F4A7C15 + block
    for _ in range(2):
        x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * 0x3F58476D1CE4E5B9
        x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * 0x14D049BB133111EB
        x ^= (x >> 31) & 0x1FFFFFFFF
    return x if x != 0 else 1


@compiled
def _bucket(rep: Replica, key: int) -> int:
    """Where a key stands in the hash table, or where it would."""
    last = rep.index.size - 1
    at = key & last
    while rep.index[at].key not in (0, key):
        at = (at + 1) & last
    return at


@compiled
def found(rep: Replica, key: int) -> int:
    """Return the block that has ``key``, on the device if any there has, or `NOTHING`."""
    at = _bucket(rep, key)
    if rep.index[at].key != key:
        return state.NOTHING
    block = rep.index[at].block
    return block if rep.blocks[block].holders >= 0 else _fastest(rep, block)


@compiled
def _fastest(rep: Replica, block: int) -> int:
    """Of the blocks with the content of this one return the first on the device, else that in the fastest tier."""
    best = block
    while block != state.NOTHING and rep.blocks[best].holders < 0:
        if rep.blocks[block].holders > rep.blocks[best].holders:
            best = block
        block = rep.blocks[block].twin
    return best


@compiled
def found_in(rep: Replica, key: int, tier: int) -> int:
    """Return the block of a tier that has ``key``, or `NOTHING`."""
    at = _bucket(rep, key)
    block = rep.index[at].block if rep.index[at].key == key else state.NOTHING
    while block != state.NOTHING and rep.blocks[block].holders != -1 - tier:
        block = rep.blocks[block].twin
    return block


@compiled
def enter(rep: Replica, key: int, block: int) -> None:
    """Let a block be found by its key, behind others with the same content."""
    at = _bucket(rep, key)
    if rep.index[at].key == 0:
        rep.index[at].key, rep.index[at].block = key, block
    else:
        other = rep.index[at].block
        while rep.blocks[other].twin != state.NOTHING:
            other = rep.blocks[other].twin
        rep.blocks[other].twin = block
    rep.blocks[block].key, rep.blocks[block].twin = key, state.NOTHING


@compiled
def forget(rep: Replica, block: int) -> None:
    """Let a block not be found any more."""
    at = _bucket(rep, rep.blocks[block].key)
    twin = rep.blocks[block].twin
    rep.blocks[block].key = 0
    if rep.index[at].block != block:
        other = rep.index[at].block
        while rep.blocks[other].twin != block:
            other = rep.blocks[other].twin
        rep.blocks[other].twin = twin
    elif twin != state.NOTHING:
        rep.index[at].block = twin
    else:
        _close_gap(rep, at)


@compiled
def _close_gap(rep: Replica, hole: int) -> None:
    """Take a row out of the hash table; rows behind it move up."""
    last = rep.index.size - 1
    rep.index[hole].key = 0
    at = (hole + 1) & last
    while rep.index[at].key != 0:
        home = rep.index[at].key & last
        if ((at - home) & last) >= ((at - hole) & last):
            rep.index[hole].key, rep.index[hole].block = rep.index[at].key, rep.index[at].block
            rep.index[at].key = 0
            hole = at
        at = (at + 1) & last


@compiled
def has_tiers(rep: Replica) -> bool:
    """Return whether there are any."""
    return rep.counts.size > state.COUNTS


@compiled
def keep(rep: Replica, key: int) -> None:
    """Let the first tier have what the device evicts, and each further one what the tier before it evicts."""
    for tier in range((rep.counts.size - state.COUNTS) // state.TIER_COUNTS):
        of = state.COUNTS + tier * state.TIER_COUNTS
        row = state.NOTHING if key == state.UNSHARED else found_in(rep, key, tier)
        if row != state.NOTHING:
            _touch(rep, row, tier)
            return
        if rep.counts[of + state.TIER_USED] < rep.counts[of + state.TIER_ROWS]:
            row = rep.counts[of + state.TIER_ROW] + rep.counts[of + state.TIER_USED]
            rep.counts[of + state.TIER_USED] += 1
            _fill(rep, row, tier, key)
            return
        if rep.counts[of + state.TIER_ROWS] > 0:
            row = rep.counts[of + state.TIER_FIRST]
            remove(rep.blocks, rep.counts, row, of + state.TIER_FIRST)
            evicted = rep.blocks[row].key
            if evicted != state.UNSHARED:
                forget(rep, row)
            _fill(rep, row, tier, key)
            key = evicted


@compiled
def _fill(rep: Replica, row: int, tier: int, key: int) -> None:
    """Let an empty row have this content, as the one that was used last."""
    rep.blocks[row].holders = -1 - tier
    if key == state.UNSHARED:
        rep.blocks[row].key = state.UNSHARED
    else:
        enter(rep, key, row)
    insert(rep.blocks, rep.counts, row, state.NOTHING, state.COUNTS + tier * state.TIER_COUNTS + state.TIER_FIRST)


@compiled
def _touch(rep: Replica, row: int, tier: int) -> None:
    first = state.COUNTS + tier * state.TIER_COUNTS + state.TIER_FIRST
    remove(rep.blocks, rep.counts, row, first)
    insert(rep.blocks, rep.counts, row, state.NOTHING, first)


@compiled
def load(rep: Replica, row: Integers, blocks: int, first_time: bool) -> None:
    """Note the seconds of loading what a sequence has in tiers, of its leading ``blocks``, for the next iteration.

    These are `NOTHING` in ``row`` afterwards. The end of a sequence counts as used before its beginning. Loads
    follow each other.
    """
    for tier in range((rep.counts.size - state.COUNTS) // state.TIER_COUNTS):
        loaded = 0
        for i in range(blocks - 1, -1, -1):
            if row[i] != state.NOTHING and rep.blocks[row[i]].holders == -1 - tier:
                _touch(rep, row[i], tier)
                row[i] = state.NOTHING
                loaded += 1
        if loaded == 0:
            continue
        at = state.CLOCKS + tier * state.TIER_CLOCKS
        seconds = rep.clocks[at + state.TIER_LATENCY_S] + loaded * rep.clocks[at + state.TIER_BLOCK_S]
        rep.clocks[at + state.TIER_LOAD_S] += seconds
        rep.clocks[state.LOADING] += seconds
        if first_time:
            rep.counts[state.COUNTS + tier * state.TIER_COUNTS + state.TIER_LOADED] += loaded


@compiled
def _take_out(rep: Replica, block: int) -> None:
    """Take a block out of the queue of free ones."""
    remove(rep.blocks, rep.counts, block, state.FIRST_FREE)
    rep.counts[state.FREE_BLOCKS] -= 1


@compiled
def _give_back(rep: Replica, block: int) -> None:
    """Append a block to the queue of free ones."""
    insert(rep.blocks, rep.counts, block, state.NOTHING, state.FIRST_FREE)
    rep.counts[state.FREE_BLOCKS] += 1


@compiled
def _evict(rep: Replica, block: int) -> None:
    """Let a block's content not be found on the device any more; it goes to the tiers behind it."""
    key = rep.blocks[block].key
    if key == state.UNSHARED:
        rep.blocks[block].key = 0
    else:
        forget(rep, block)
    if has_tiers(rep):
        keep(rep, key)


@compiled
def take(rep: Replica, blocks: int) -> None:
    """Take the first of the free blocks for a sequence; what they had in them is forgotten."""
    for _ in range(blocks):
        block = rep.counts[state.FIRST_FREE]
        _take_out(rep, block)
        if rep.blocks[block].key != 0:
            _evict(rep, block)
        rep.blocks[rep.counts[state.POOLED]].pooled = block
        rep.counts[state.POOLED] += 1


@compiled
def hits(rep: Replica, slots: Slots, slot: int, tokens: int, facts: Facts) -> "tuple[int, int]":
    """Return how many leading blocks of a sequence of ``tokens`` are cached, and how many free ones they take.

    These are the ones that nobody holds, and those to which keys and values are loaded from a tier. At least one token
    is always computed.
    """
    cached = free = 0
    alone = slots[slot].prefix_id < 0 and slots[slot].session_id < 0 and slots[slot].preemptions == 0
    if alone or not facts.prefix_cache:
        return cached, free
    for i in range((tokens - 1) // facts.block_tokens):
        block = found(rep, block_key(slots, slot, i, facts.block_tokens))
        if block == state.NOTHING:
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
        if row[i] != state.NOTHING:
            continue
        block = rep.counts[state.FIRST_FREE]
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
        rep.counts[state.POOLED] -= 1
        block = rep.blocks[rep.counts[state.POOLED]].pooled
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
        rep.counts[state.POOLED] -= 1
        block = rep.blocks[rep.counts[state.POOLED]].pooled
        if i < kept:
            rep.blocks[block].key = state.UNSHARED
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
