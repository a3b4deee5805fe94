"""Memories behind a replica's cache, such as the host's: what the device evicts goes to the first of them.

A tier has rows of the table of blocks behind those of the device, in the order of last use. The least recently used
content of a full tier goes to the next one. What is loaded to the device stays in its tier.
"""

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.contents import enter, forget, found_in
from sightline.simulation.engine.state import (
    CLOCKS,
    COUNTS,
    LOADING,
    NOTHING,
    TIER_BLOCK_S,
    TIER_CLOCKS,
    TIER_COUNTS,
    TIER_FIRST,
    TIER_LATENCY_S,
    TIER_LOAD_S,
    TIER_LOADED,
    TIER_ROW,
    TIER_ROWS,
    TIER_USED,
    UNSHARED,
    Replica,
)
from sightline.simulation.requests import Integers


@compiled
def has_tiers(rep: Replica) -> bool:
    """Return whether there are any."""
    return rep.counts.size > COUNTS


@compiled
def unlink(rep: Replica, block: int, first: int) -> None:
    """Take a block out of a queue, whose ends are in the counters ``first`` and the next."""
    before, behind = rep.blocks[block].preceding, rep.blocks[block].following
    if before == NOTHING:
        rep.counts[first] = behind
    else:
        rep.blocks[before].following = behind
    if behind == NOTHING:
        rep.counts[first + 1] = before
    else:
        rep.blocks[behind].preceding = before


@compiled
def append(rep: Replica, block: int, first: int) -> None:
    """Append a block to a queue, whose ends are in the counters ``first`` and the next."""
    last = rep.counts[first + 1]
    rep.blocks[block].preceding, rep.blocks[block].following = last, NOTHING
    if last == NOTHING:
        rep.counts[first] = block
    else:
        rep.blocks[last].following = block
    rep.counts[first + 1] = block


@compiled
def keep(rep: Replica, key: int) -> None:
    """Let the first tier have what the device evicts, and each further one what the tier before it evicts."""
    for tier in range((rep.counts.size - COUNTS) // TIER_COUNTS):
        of = COUNTS + tier * TIER_COUNTS
        row = NOTHING if key == UNSHARED else found_in(rep, key, tier)
        if row != NOTHING:
            _touch(rep, row, tier)
            return
        if rep.counts[of + TIER_USED] < rep.counts[of + TIER_ROWS]:
            row = rep.counts[of + TIER_ROW] + rep.counts[of + TIER_USED]
            rep.counts[of + TIER_USED] += 1
            _fill(rep, row, tier, key)
            return
        if rep.counts[of + TIER_ROWS] > 0:
            row = rep.counts[of + TIER_FIRST]
            unlink(rep, row, of + TIER_FIRST)
            evicted = rep.blocks[row].key
            if evicted != UNSHARED:
                forget(rep, row)
            _fill(rep, row, tier, key)
            key = evicted


@compiled
def _fill(rep: Replica, row: int, tier: int, key: int) -> None:
    """Let an empty row have this content, as the one that was used last."""
    rep.blocks[row].holders = -1 - tier
    if key == UNSHARED:
        rep.blocks[row].key = UNSHARED
    else:
        enter(rep, key, row)
    append(rep, row, COUNTS + tier * TIER_COUNTS + TIER_FIRST)


@compiled
def _touch(rep: Replica, row: int, tier: int) -> None:
    first = COUNTS + tier * TIER_COUNTS + TIER_FIRST
    unlink(rep, row, first)
    append(rep, row, first)


@compiled
def load(rep: Replica, held: Integers, blocks: int, first_time: bool) -> None:
    """Note the seconds of loading what a sequence has in tiers, of its leading ``blocks``, for the next iteration.

    These are `NOTHING` in ``held`` afterwards. The end of a sequence counts as used before its beginning. Loads
    follow each other.
    """
    for tier in range((rep.counts.size - COUNTS) // TIER_COUNTS):
        loaded = 0
        for i in range(blocks - 1, -1, -1):
            if held[i] != NOTHING and rep.blocks[held[i]].holders == -1 - tier:
                _touch(rep, held[i], tier)
                held[i] = NOTHING
                loaded += 1
        if loaded == 0:
            continue
        at = CLOCKS + tier * TIER_CLOCKS
        seconds = rep.clocks[at + TIER_LATENCY_S] + loaded * rep.clocks[at + TIER_BLOCK_S]
        rep.clocks[at + TIER_LOAD_S] += seconds
        rep.clocks[LOADING] += seconds
        if first_time:
            rep.counts[COUNTS + tier * TIER_COUNTS + TIER_LOADED] += loaded
