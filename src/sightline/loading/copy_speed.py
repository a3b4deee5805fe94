"""How fast this machine copies memory: the rate that bandwidth-bound operators are held against."""

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

PIECE = 2**18
"""Bytes copied at a time: too few for other processes to come in between as a rule."""
REPEATS = 4
FASTEST = 0.1
"""Quantile of the pieces' times that counts: what else the machine does can only slow a copy down."""

Bytes = NDArray[np.uint8]


def copy_bandwidth(size: float, threads: int) -> float:
    """Return bytes read and written per second by copies within ``size`` bytes that threads share, all at once."""
    part = max(int(size) // threads // 2 // PIECE, 1) * PIECE
    buffers = [(np.ones(part, dtype=np.uint8), np.ones(part, dtype=np.uint8)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(_piecewise, buffers))


def _piecewise(buffers: tuple[Bytes, Bytes]) -> float:
    """The rate of one thread that goes through its buffers piece by piece, several times."""
    source, target = buffers
    seconds = []
    for _ in range(REPEATS):
        for first in range(0, len(source), PIECE):
            piece = slice(first, first + PIECE)
            begin = perf_counter()
            np.copyto(target[piece], source[piece])
            seconds.append(perf_counter() - begin)
    return 2 * PIECE / float(np.quantile(seconds, FASTEST))
