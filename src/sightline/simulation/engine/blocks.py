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

_OF_PREFIX = 1
_OF_SESSION = 2
_OF_REQUEST = 3
_ELSEWHERE = -2
"""In place of a block that is in the first tier; one less for each further one."""


@compiled
def block_key(slots: Slots, slot: int, block: int, block_tokens: int) -> int:
    """Return what identifies the content of a sequence's block, never 0.

    Within the shared prefix that is the prefix, then the conversation's transcript, else the request alone. Eight
    blocks in a row lie side by side in the hash table, so that long prompts take few lines of the processor's cache.
    """
    if slots[slot].prefix_id >= 0 and (block + 1) * block_tokens <= slots[slot].prefix_tokens:
        owner = slots[slot].prefix_id * 4 + _OF_PREFIX
    elif slots[slot].session_id >= 0:
        owner = slots[slot].session_id * 4 + _OF_SESSION + (slots[slot].transcript << 40)
    else:
        owner = slots[slot].request * 4 + _OF_REQUEST
    return mixed(owner, block >> 3) & ~7 | 1 << 62 | block & 7


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
    """Return the first block on the device that has ``key``, or `NOTHING`."""
    at = _bucket(rep, key)
    return rep.index[at].block if rep.index[at].key == key else state.NOTHING


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
def _tiers(rep: Replica) -> int:
    """How many tiers there are behind the cache."""
    return (rep.counts.size - state.COUNTS) // state.TIER_COUNTS


@compiled
def _store(rep: Replica, tier: int) -> int:
    """The number of a tier's store."""
    return rep.counts[state.COUNTS + tier * state.TIER_COUNTS + state.TIER_STORE]


@compiled
def _chain(rep: Replica, store: int, key: int) -> int:
    """The row of a store, which has any, whose ``pooled`` is the first block of a key's bucket."""
    rows, buckets = rep.stores[store].rows, 1
    while 2 * buckets <= rows:
        buckets *= 2
    return rep.stores[store].row + (key & (buckets - 1))


@compiled
def found_in(rep: Replica, key: int, tier: int) -> int:
    """Return the row in which a tier's store has ``key``, or `NOTHING`."""
    store = _store(rep, tier)
    if rep.stores[store].rows == 0:
        return state.NOTHING
    row = rep.kept[_chain(rep, store, key)].pooled
    while row != state.NOTHING and rep.kept[row].key != key:
        row = rep.kept[row].twin
    return row


@compiled
def _tier_of(rep: Replica, key: int) -> int:
    """The fastest tier that has ``key``, or `NOTHING`."""
    for tier in range(_tiers(rep)):
        if found_in(rep, key, tier) != state.NOTHING:
            return tier
    return state.NOTHING


@compiled
def keep(rep: Replica, key: int, first: int) -> None:
    """Let a tier have a block's content, and each further one what the tier before it evicts for that."""
    for tier in range(first, _tiers(rep)):
        store = _store(rep, tier)
        if rep.stores[store].rows == 0:
            continue
        row = state.NOTHING if key == state.UNSHARED else found_in(rep, key, tier)
        if row != state.NOTHING:
            _touch(rep, row, store)
            return
        evicted = 0
        row = rep.stores[store].row + rep.stores[store].used
        if rep.stores[store].used < rep.stores[store].rows:
            rep.stores[store].used += 1
        else:
            row = rep.queues[2 * store]
            evicted = rep.kept[row].key
            remove(rep.kept, rep.queues, row, 2 * store)
            _unchain(rep, row, store)
        rep.kept[row].key = key
        if key != state.UNSHARED:
            chain = _chain(rep, store, key)
            rep.kept[row].twin, rep.kept[chain].pooled = rep.kept[chain].pooled, row
        insert(rep.kept, rep.queues, row, state.NOTHING, 2 * store)
        if evicted == 0:
            return
        key = evicted


@compiled
def _unchain(rep: Replica, row: int, store: int) -> None:
    """Let a block that a store keeps not be found any more."""
    if rep.kept[row].key == state.UNSHARED:
        return
    chain = _chain(rep, store, rep.kept[row].key)
    if rep.kept[chain].pooled == row:
        rep.kept[chain].pooled = rep.kept[row].twin
        return
    other = rep.kept[chain].pooled
    while rep.kept[other].twin != row:
        other = rep.kept[other].twin
    rep.kept[other].twin = rep.kept[row].twin


@compiled
def _touch(rep: Replica, row: int, store: int) -> None:
    remove(rep.kept, rep.queues, row, 2 * store)
    insert(rep.kept, rep.queues, row, state.NOTHING, 2 * store)


@compiled
def load(rep: Replica, slots: Slots, slot: int, blocks: int, block_tokens: int) -> None:
    """Note the seconds of loading what a sequence has in tiers, of its leading ``blocks``, for the next iteration.

    These are `NOTHING` in its row afterwards. The end of a sequence counts as used before its beginning. Loads of an
    iteration follow each other, and on a link those of all who share it.
    """
    row = rep.table[slots[slot].place]
    rep.clocks[state.LOADING] = max(rep.clocks[state.LOADING], slots[slot].fetched_s - rep.clocks[state.NEXT])
    for tier in range(_tiers(rep)):
        loaded, store = 0, _store(rep, tier)
        for i in range(blocks - 1, -1, -1):
            if row[i] == _ELSEWHERE - tier:
                _touch(rep, found_in(rep, block_key(slots, slot, i, block_tokens), tier), store)
                row[i] = state.NOTHING
                loaded += 1
        if loaded == 0:
            continue
        rep.clocks[state.LOADING] += _transfer(
            rep, tier, loaded, rep.clocks[state.NEXT] + rep.clocks[state.LOADING], slots[slot].preemptions == 0
        )


@compiled
def _transfer(rep: Replica, tier: int, blocks: int, begin_s: float, first_time: bool) -> float:
    """Return the seconds until a tier's link has loaded so many blocks, behind what was asked of it before."""
    store = _store(rep, tier)
    seconds: float = max(rep.stores[store].free_s - begin_s, 0.0)
    seconds += rep.stores[store].latency_s + blocks * rep.stores[store].block_s
    rep.stores[store].free_s = begin_s + seconds
    rep.clocks[state.CLOCKS + tier * state.TIER_CLOCKS + state.TIER_LOAD_S] += seconds
    if first_time:
        rep.counts[state.COUNTS + tier * state.TIER_COUNTS + state.TIER_LOADED] += blocks
    return seconds


@compiled
def prefetch(rep: Replica, slots: Slots, slot: int, block_tokens: int, now: float) -> None:
    """Begin to load to the first tier what a request that begins to wait has in others that do so.

    Unless as much is on its way already as 0.8 of what the first tier holds beyond the device (SGLang 0.5's
    `HiCacheController.prefetch_rate_limited`).
    """
    for tier in range(1, _tiers(rep)):
        room = 0.8 * (rep.stores[_store(rep, 0)].rows - rep.blocks.shape[0])
        store = rep.stores[_store(rep, tier)]
        if store.prefetch == 0 or store.free_s - now > room * store.block_s:
            continue
        loaded = 0
        for i in range((slots[slot].prompt - 1) // block_tokens):
            key = block_key(slots, slot, i, block_tokens)
            at = 0 if found(rep, key) != state.NOTHING else _tier_of(rep, key)
            if at == state.NOTHING:
                break
            if at == tier:
                keep(rep, key, 0)
                loaded += 1
        if loaded > 0:
            slots[slot].fetched_s = max(slots[slot].fetched_s, now + _transfer(rep, tier, loaded, now, True))


@compiled
def _take_out(rep: Replica, block: int) -> None:
    """Take a block out of the queue of free ones."""
    remove(rep.blocks, rep.counts, block, state.FIRST_FREE)
    rep.counts[state.FREE_BLOCKS] -= 1


@compiled
def _taken(rep: Replica) -> int:
    """Take a free block: one that nobody ever had, else the first in the queue, whose content is forgotten."""
    if rep.counts[state.UNUSED] > 0:
        rep.counts[state.UNUSED] -= 1
        rep.counts[state.FREE_BLOCKS] -= 1
        unused: int = rep.counts[state.UNUSED]
        return unused
    block = rep.counts[state.FIRST_FREE]
    _take_out(rep, block)
    if rep.blocks[block].key != 0:
        _evict(rep, block)
    first: int = block
    return first


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
    if _tiers(rep) > 0:
        keep(rep, key, 0)


@compiled
def take(rep: Replica, blocks: int) -> None:
    """Take the first of the free blocks for a sequence; what they had in them is forgotten."""
    if rep.counts[state.ALIKE]:
        rep.counts[state.FREE_BLOCKS] -= blocks
        return
    for _ in range(blocks):
        rep.blocks[rep.counts[state.POOLED]].pooled = _taken(rep)
        rep.counts[state.POOLED] += 1


@compiled
def hits(rep: Replica, slots: Slots, slot: int, tokens: int, facts: Facts) -> "tuple[int, int]":
    """Return how many leading blocks of a sequence of ``tokens`` are cached, and how many free ones they take.

    These are the ones that nobody holds, and those to which keys and values are loaded from a tier. At least one token
    is always computed. Where a tier asks for that, what it has counts as far as loading it, behind what its link is
    busy with, is not slower than computing it.
    """
    cached = free = seen = worth_cached = worth_free = 0
    wait_s = load_s = compute_s = 0.0
    alone = slots[slot].prefix_id < 0 and slots[slot].session_id < 0 and slots[slot].preemptions == 0
    if alone or not facts.prefix_cache:
        return cached, free
    for i in range((tokens - 1) // facts.block_tokens):
        key = block_key(slots, slot, i, facts.block_tokens)
        block = found(rep, key)
        if block == state.NOTHING:
            tier = _tier_of(rep, key)
            if tier == state.NOTHING:
                break
            store = _store(rep, tier)
            if rep.stores[store].faster > 0:
                if seen >> tier & 1 == 0:
                    seen |= 1 << tier
                    begin_s = rep.clocks[state.NEXT] + rep.clocks[state.LOADING]
                    wait_s = max(wait_s, rep.stores[store].free_s - begin_s)
                    load_s += rep.stores[store].latency_s
                load_s += rep.stores[store].block_s
                compute_s += facts.block_tokens * facts.token_s
        cached += 1
        free += block == state.NOTHING or rep.blocks[block].holders == 0
        if wait_s + load_s <= compute_s:
            worth_cached, worth_free = cached, free
    return worth_cached, worth_free


@compiled
def hold_cached(rep: Replica, slots: Slots, slot: int, blocks: int, block_tokens: int) -> None:
    """Let a sequence hold its leading ``blocks``, which are cached; those in tiers are loaded for the iteration."""
    row = rep.table[slots[slot].place]
    lacking = False
    for i in range(blocks):
        key = block_key(slots, slot, i, block_tokens)
        block = found(rep, key)
        row[i] = block
        if block == state.NOTHING:
            row[i], lacking = _ELSEWHERE - _tier_of(rep, key), True
            continue
        if rep.blocks[block].holders == 0:
            _take_out(rep, block)
        rep.blocks[block].holders += 1
    if lacking:
        load(rep, slots, slot, blocks, block_tokens)
        for i in range(blocks):
            if row[i] == state.NOTHING:
                row[i] = block = _taken(rep)
                enter(rep, block_key(slots, slot, i, block_tokens), block)
                rep.blocks[block].holders = 1
    slots[slot].keyed = blocks


@compiled
def publish(rep: Replica, slots: Slots, slot: int, tokens: int, block_tokens: int) -> None:
    """Let others find the full blocks of a sequence's first ``tokens``, as far as any could share them."""
    last = tokens // block_tokens
    # Tiers know what a request that was put off has in them.
    if slots[slot].session_id < 0 and (slots[slot].preemptions == 0 or _tiers(rep) == 0):
        shared = slots[slot].prefix_tokens // block_tokens if slots[slot].prefix_id >= 0 else 0
        last = min(last, shared)
    publish_blocks(rep, slots, slot, last, block_tokens)


@compiled
def publish_blocks(rep: Replica, slots: Slots, slot: int, last: int, block_tokens: int) -> None:
    """Let others find a sequence's blocks up to the ``last``."""
    row = rep.table[slots[slot].place]
    for i in range(slots[slot].keyed, last):
        rep.counts[state.POOLED] -= 1
        block = rep.blocks[rep.counts[state.POOLED]].pooled
        key = block_key(slots, slot, i, block_tokens)
        enter(rep, key, block)
        rep.blocks[block].holders = 1
        row[i] = block
        shared = slots[slot].session_id >= 0 or (i + 1) * block_tokens <= slots[slot].prefix_tokens
        for tier in range(_tiers(rep) if shared else 0):
            if rep.stores[_store(rep, tier)].through > 0:
                keep(rep, key, tier)
    slots[slot].keyed = max(slots[slot].keyed, last)


@compiled
def give_up(rep: Replica, place: int, keyed: int, full: int, blocks: int) -> None:
    """Free the ``blocks`` that a place's sequence holds, its last one first; its leading ``keyed`` ones have keys.

    Of the others those before ``full`` have keys and values that tiers keep, though nobody will ask for them.
    """
    if rep.counts[state.ALIKE]:
        rep.counts[state.FREE_BLOCKS] += blocks
        return
    kept = full if _tiers(rep) > 0 else 0
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
    own = f.counts[r], f.clocks[r], f.phases[r], f.stacks[r], f.table[r], f.blocks[r], f.index[r]
    return Replica(*own, f.kept, f.stores, f.queues)
