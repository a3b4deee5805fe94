"""All-reduce kernels that inference engines bring along: a rank reads its peers' memory itself, without a ring.

Decoding sums messages of some kilobytes, for which a ring's 2 (n - 1) hops take longest. vLLM, SGLang and TensorRT-LLM
add them in one kernel instead: in one shot (every rank reads all messages), in two (each rank adds its share, then
all read the shares), or in two with the switch adding and multicasting. Above a size that the engine sets, it calls
NCCL. Symbols: ``n`` ranks, ``S`` bytes.
"""

import numpy as np

from sightline.cost.collective_constants import CustomAllReduce
from sightline.cost.topology import larger, smaller
from sightline.quantities import Number

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
    peers = n - 1
    time_s: Number = np.inf
    if np.min(n) <= 2:
        pair = custom.algorithms["pair"]
        time_s = pair.launch_s + pair.hop * latency_s + size / (bandwidth * pair.efficiency)
    if np.max(n) > 2:
        one, two = custom.algorithms["one_shot"], custom.algorithms["two_shot"]
        many = one.launch_s + peers * (one.hop * latency_s + size / (bandwidth * one.efficiency))
        wire_s = 2 * peers / n * size / (bandwidth * two.efficiency)
        many = smaller(many, two.launch_s + larger(peers * two.hop * latency_s, wire_s))
        if "multicast" in custom.algorithms:
            cast = custom.algorithms["multicast"]
            wire_s = (1 + 1 / n) * size / (bandwidth * cast.efficiency)
            multicast_s = cast.launch_s + larger(peers * cast.hop * latency_s, wire_s)
            many = smaller(many, np.where(n >= MULTICAST_MIN_RANKS, multicast_s, np.inf))
        time_s = np.where(np.greater(n, 2), many, time_s)
    return np.where((size <= custom.limit(n)) & np.equal(nodes, 1), time_s, np.inf)
