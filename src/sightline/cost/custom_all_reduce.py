"""All-reduce kernels that inference engines bring along: a rank reads its peers' memory itself, without a ring.

Decoding sums messages of some kilobytes, for which a ring's 2 (n - 1) hops take longest. vLLM, SGLang and TensorRT-LLM
add them in one kernel instead: in one shot (every rank reads all messages), in two (each rank adds its share, then
all read the shares), or in two with the switch adding and multicasting. Above a size that the engine sets, it calls
NCCL. Symbols: ``n`` ranks, ``S`` bytes.
"""

import numpy as np

from sightline.cost.collective_constants import CustomAllReduce
from sightline.quantities import Number, larger, smaller

MULTICAST_MIN_RANKS = 5
"""Ranks from which engines let the switch add, as NCCL does."""


def custom_all_reduce_time(
    size: Number, n: Number, nodes: Number, bandwidth: Number, latency_s: Number, custom: CustomAllReduce
) -> Number:
    """Return the seconds of the fastest kernel, infinite for groups across nodes and where the engine has none.

    One shot: launch + (n - 1) hop + (n - 1) S / B. Two shots: launch + the longer of (n - 1) hop and
    2 (n - 1) / n S / B, for its two phases hide their latency behind long messages; through the switch (1 + 1/n) S.
    Leaves out the copy into a registered buffer that engines make outside CUDA graphs.
    """
    within = (size <= custom.limit(n)) & (nodes == 1)
    pair = custom.algorithms["pair"]
    pair_s = pair.launch_s + pair.hop * latency_s + size / (bandwidth * pair.efficiency)
    if isinstance(n, np.ndarray):
        several = np.where(n > 2, _several(size, n, bandwidth, latency_s, custom), pair_s)
        return np.where(within, several, np.inf)
    time_s = _several(size, n, bandwidth, latency_s, custom) if n > 2 else pair_s
    if isinstance(within, np.ndarray):
        return np.where(within, time_s, np.inf)
    return time_s if within else np.inf


def _several(size: Number, n: Number, bandwidth: Number, latency_s: Number, custom: CustomAllReduce) -> Number:
    """Seconds of the fastest kernel among more than two ranks."""
    peers = n - 1
    one, two, cast = (custom.algorithms.get(name) for name in ("one_shot", "two_shot", "multicast"))
    time_s: Number = np.inf
    if one is not None:
        time_s = one.launch_s + peers * (one.hop * latency_s + size / (bandwidth * one.efficiency))
    if two is not None:
        wire_s = 2 * peers / n * size / (bandwidth * two.efficiency)
        time_s = smaller(time_s, two.launch_s + larger(peers * two.hop * latency_s, wire_s))
    if cast is not None and np.max(n) >= MULTICAST_MIN_RANKS:
        wire_s = (1 + 1 / n) * size / (bandwidth * cast.efficiency)
        cast_s = cast.launch_s + larger(peers * cast.hop * latency_s, wire_s)
        if isinstance(n, np.ndarray):
            cast_s = np.where(n >= MULTICAST_MIN_RANKS, cast_s, np.inf)
        time_s = smaller(time_s, cast_s)
    return time_s
