"""A run over time in the same memory for any length: means over moments, which become longer as the run does."""

import numpy as np

from sightline.simulation.outcome import Iterations
from sightline.simulation.requests import Floats

MOMENTS = 400
"""Moments of a run at most; at least half as many, once it has lasted `FIRST_S` times as many."""
FIRST_S = 1e-3
"""Seconds of a moment, to begin with."""
SEEN = ("running", "waiting", "kv_tokens")
"""Columns of iterations that are added up."""


class Moments:
    """What iterations of all replicas hold, second by second, summed over moments of equal length."""

    def __init__(self) -> None:
        """Begin with none."""
        self._moment_s = FIRST_S
        self._sums = {name: np.zeros(MOMENTS) for name in SEEN}
        self.end_s = 0.0
        """When the last iteration ended."""

    def add(self, iterations: Iterations) -> None:
        """Add iterations, each of which holds what it does from its start to its end."""
        if not iterations.start_s.size:
            return
        self.end_s = max(self.end_s, float(iterations.end_s.max()))
        while self.end_s > MOMENTS * self._moment_s:
            self._merge()
        times = np.concatenate([iterations.start_s, iterations.end_s])
        order = np.argsort(times, kind="stable")
        edges = self._moment_s * np.arange(MOMENTS + 1.0)
        for name in SEEN:
            column = getattr(iterations, name)
            level = np.cumsum(np.concatenate([column, -column]).astype(np.float64)[order])
            area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times[order]))])
            self._sums[name] += np.diff(np.interp(edges, times[order], area))

    def _merge(self) -> None:
        """Make moments twice as long."""
        self._moment_s *= 2.0
        half = MOMENTS // 2
        for sums in self._sums.values():
            sums[:half] = sums[0::2] + sums[1::2]
            sums[half:] = 0.0

    @property
    def edges_s(self) -> Floats:
        """Where moments begin, up to the end of the run."""
        count = max(int(np.ceil(self.end_s / self._moment_s - 1e-9)), 1)
        edges: Floats = np.minimum(self._moment_s * np.arange(count + 1.0), self.end_s)
        return edges

    def means(self, name: str) -> Floats:
        """Return the mean of one of `SEEN` over each moment, added up over replicas; 0 while no iteration runs."""
        edges = self.edges_s
        return self._sums[name][: edges.size - 1] / np.maximum(np.diff(edges), 1e-12)
