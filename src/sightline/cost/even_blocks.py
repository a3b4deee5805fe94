"""All-reduce in two shots by blocks that share the message evenly, as TensorRT-LLM launched it from 0.5 to 0.9.

Every thread of a kernel adds 16 bytes of each rank; the threads are shared by the fewest blocks of at most 1,024 that
divide them, and where these are more than 24, by the largest divisor of theirs that is not, each of which then takes
several rounds (cpp/tensorrt_llm/kernels/customAllReduceKernels.cu, kernelLaunchConfig; when two shots are taken:
plugins/ncclPlugin/allreducePlugin.cpp). Hidden sizes are mostly powers of two times a small number, but Falcon-180B's is
29 x 512: 128 of its tokens on eight devices are one block of 29 rounds. Symbols: ``n`` ranks, ``S`` bytes.
"""

from functools import cache
from itertools import count

import numpy as np

from sightline.quantities import Number

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
