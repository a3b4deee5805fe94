"""Blocks by what they have in them: a hash table, in which blocks with the same content are chained."""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.state import NOTHING, Replica, Slots

_OF_PREFIX = 1
_OF_SESSION = 2
_OF_REQUEST = 3


@compiled
def block_key(slots: Slots, slot: int, block: int, block_tokens: int) -> int:
    """Return what identifies the content of a sequence's block, never 0.

    Within the shared prefix that is the prefix, then the conversation, else the request alone.
    """
    if slots[slot].prefix_id >= 0 and (block + 1) * block_tokens <= slots[slot].prefix_tokens:
        return mixed(slots[slot].prefix_id * 4 + _OF_PREFIX, block)
    if slots[slot].session_id >= 0:
        return mixed(slots[slot].session_id * 4 + _OF_SESSION, block)
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
        return NOTHING
    block = rep.index[at].block
    return block if rep.blocks[block].holders >= 0 else _fastest(rep, block)


@compiled
def _fastest(rep: Replica, block: int) -> int:
    """Of the blocks with the content of this one return the first on the device, else that in the fastest tier."""
    best = block
    while block != NOTHING and rep.blocks[best].holders < 0:
        if rep.blocks[block].holders > rep.blocks[best].holders:
            best = block
        block = rep.blocks[block].twin
    return best


@compiled
def found_in(rep: Replica, key: int, tier: int) -> int:
    """Return the block of a tier that has ``key``, or `NOTHING`."""
    at = _bucket(rep, key)
    block = rep.index[at].block if rep.index[at].key == key else NOTHING
    while block != NOTHING and rep.blocks[block].holders != -1 - tier:
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
        while rep.blocks[other].twin != NOTHING:
            other = rep.blocks[other].twin
        rep.blocks[other].twin = block
    rep.blocks[block].key, rep.blocks[block].twin = key, NOTHING


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
    elif twin != NOTHING:
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
