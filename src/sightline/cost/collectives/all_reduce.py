"""All-reduce kernels that inference engines bring along: a rank reads its peers' memory itself, without a ring.

Decoding sums messages of some kilobytes, for which a ring's 2 (n - 1) hops take longest. vLLM, SGLang and TensorRT-LLM
add them in one kernel instead: in one shot (every rank reads all messages), in two (each rank adds its share, then
all read the shares), or in two with the switch adding and multicasting. Above a size that the engine sets, it calls
NCCL. Symbols: ``n`` ranks, ``S`` bytes.

All-reduce in two shots by blocks that share the message evenly, as TensorRT-LLM launched it from 0.5 to 0.9.

Every thread of a kernel adds 16 bytes of each rank; the threads are shared by the fewest blocks of at most 1,024 that
divide them, and where these are more than 24, by the largest divisor of theirs that is not, each of which then takes
several rounds (cpp/tensorrt_llm/kernels/customAllReduceKernels.cu, kernelLaunchConfig; when two shots are taken:
plugins/ncclPlugin/allreducePlugin.cpp). Hidden sizes are mostly powers of two times a small number, but Falcon-180B's
is 29 x 512: 128 of its tokens on eight devices are one block of 29 rounds. Symbols: ``n`` ranks, ``S`` bytes.
"""

from functools import cache
from itertools import count

import numpy as np

from sightline.cost.collectives.constants import CustomAllReduce
from sightline.quantities import Number, anywhere, larger, smaller

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
    if cast is not None and anywhere(n >= MULTICAST_MIN_RANKS):
        wire_s = (1 + 1 / n) * size / (bandwidth * cast.efficiency)
        cast_s = cast.launch_s + larger(peers * cast.hop * latency_s, wire_s)
        if isinstance(n, np.ndarray):
            cast_s = np.where(n >= MULTICAST_MIN_RANKS, cast_s, np.inf)
        time_s = smaller(time_s, cast_s)
    return time_s


THREAD_BYTES = 16
"""Bytes of each rank that a thread adds."""
WARP = 32
MOST_THREADS = 1024
"""Threads of a block."""
MOST_BLOCKS = 24
FEW_RANKS = 4
ONE_SHOT_BYTES = (1e6, 5e5)
"""Messages from which two shots are taken: among up to ``FEW_RANKS``, and among more."""
MOST_BYTES = 8e6
"""The buffer the ranks share; longer messages go to NCCL."""


def even_blocks_time(size: Number, n: Number, nodes: Number, block_bandwidth: float) -> Number:
    """Return the seconds that the blocks of a sum need to load it, 0 where it is not made in two shots.

    Each rank's share is added up, then read by all: 2 (n - 1) / n S over blocks x ``block_bandwidth``, what one of them
    takes in from its peers. What the link carries is a matter of ``custom_all_reduce_time``.
    """
    least = np.where(np.less_equal(n, FEW_RANKS), *ONE_SHOT_BYTES)
    used = np.greater(n, 2) & np.equal(nodes, 1) & np.greater_equal(size, least) & np.less_equal(size, MOST_BYTES)
    if not used.any():
        return 0.0
    threads = np.where(used, np.ceil(size / (THREAD_BYTES * WARP * n)) * WARP, WARP)
    blocks = np.array([_blocks(int(x)) for x in threads.flat]).reshape(threads.shape)
    loaded_s: Number = np.where(used, 2.0 * (n - 1.0) / n * size / (blocks * block_bandwidth), 0.0)
    return loaded_s


@cache
def _blocks(threads: int) -> int:
    """Blocks that share so many threads evenly: the fewest that are not too large, or a divisor of too many."""
    blocks = next(b for b in count(-(-threads // MOST_THREADS)) if threads % b == 0)
    return blocks // next(f for f in count(-(-blocks // MOST_BLOCKS)) if blocks % f == 0)
