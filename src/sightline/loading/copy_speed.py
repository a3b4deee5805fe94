"""How fast this machine copies memory: the rate that bandwidth-bound operators are held against."""

from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

REPEATS = 5
SHORTEST_S = 5e-4
"""A copy in cache is repeated until it takes this long, or the clock would count too."""

Bytes = NDArray[np.uint8]


def copy_bandwidth(size: float, threads: int) -> float:
    """Return bytes read and written per second by copies of ``size`` bytes, spread over threads; the best of several.

    What else the machine does can only slow a copy down, so the fastest one tells what it can do.
    """
    part = max(int(size) // threads, 4096)
    sources: list[Bytes] = [np.ones(part, dtype=np.uint8) for _ in range(threads)]
    targets: list[Bytes] = [np.ones(part, dtype=np.uint8) for _ in range(threads)]
    times = 1
    with ThreadPoolExecutor(threads) as pool:

        def copy_all(times: int) -> float:
            begin = perf_counter()
            list(pool.map(_copy, sources, targets, [times] * threads))
            return perf_counter() - begin

        while (taken := copy_all(times)) < SHORTEST_S and times < 10**6:
            times *= 4
        best = min(taken, *(copy_all(times) for _ in range(REPEATS)))
    return 2.0 * part * threads * times / best


def _copy(source: Bytes, target: Bytes, times: int) -> None:
    for _ in range(times):
        np.copyto(target, source)
