"""Seconds of many requests: all of them in order of arrival, or how many lie in each bin of a histogram.

Both answer what statistics ask: percentiles, and means and shares of consecutive batches of requests.
"""

from math import log1p
from typing import Final

import numpy as np

from sightline.simulation.requests import Floats, Integers
from sightline.simulation.results.percentiles import of_histogram, of_values

BATCHES: Final = 20
"""Batches of consecutive requests; a histogram that does not know how many will come has up to twice as many."""
BIN: Final = 0.001
"""Relative width of a bin."""
LEAST_S: Final = 1e-6
"""Shorter times are in the first bin."""
BINS: Final = 30_000
"""Up to about 10 million seconds."""
FIRST_BATCH: Final = 32
"""Requests of a batch, to begin with."""


class Values:
    """Seconds of each request, in order of arrival."""

    def __init__(self, seconds: Floats) -> None:
        """Take them all."""
        self._seconds, self._ordered = seconds, np.sort(seconds)

    @property
    def count(self) -> int:
        """How many there are."""
        return self._seconds.size

    @property
    def mean(self) -> float:
        """Their mean; NaN of none."""
        return float(self._seconds.mean()) if self.count else float("nan")

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most."""
        return float(self._ordered[0]), float(self._ordered[-1])

    def at(self, share: float) -> float:
        """Return the value that a share of them does not exceed."""
        return of_values(self._ordered, share) if self.count else float("nan")

    def means(self) -> Floats:
        """Return the mean of each batch."""
        return _batch_means(self._seconds)

    def shares_below(self, value: float) -> Floats:
        """Return the share of each batch that does not exceed a value."""
        return _batch_means((self._seconds <= value).astype(np.float64))


class Histogram:
    """Seconds of requests by bin, each `BIN` wide, for any number of requests in the same memory."""

    def __init__(self) -> None:
        """Begin with none."""
        self._size = FIRST_BATCH
        self._counts = np.zeros((2 * BATCHES, BINS), np.int64)
        self._sums = np.zeros(2 * BATCHES)
        self._least, self._most = np.inf, -np.inf

    def add(self, numbers: Integers, seconds: Floats) -> None:
        """Add requests by their numbers in the load, in whatever order; NaN has no time."""
        known = ~np.isnan(seconds)
        numbers, seconds = numbers[known], seconds[known]
        if not seconds.size:
            return
        while numbers.max() >= self._size * 2 * BATCHES:
            self._merge_batches()
        bins = (np.log(np.maximum(seconds, LEAST_S) / LEAST_S) / log1p(BIN)).astype(np.int64)
        batches = numbers // self._size
        np.add.at(self._counts, (batches, np.minimum(bins, BINS - 1)), 1)
        self._sums += np.bincount(batches, seconds, 2 * BATCHES)
        self._least, self._most = min(self._least, float(seconds.min())), max(self._most, float(seconds.max()))

    def _merge_batches(self) -> None:
        """Make batches twice as large."""
        self._size *= 2
        merged = self._counts[0::2] + self._counts[1::2], self._sums[0::2] + self._sums[1::2]
        self._counts[:BATCHES], self._sums[:BATCHES] = merged
        self._counts[BATCHES:] = 0
        self._sums[BATCHES:] = 0.0

    @property
    def count(self) -> int:
        """How many there are."""
        return int(self._counts.sum())

    @property
    def mean(self) -> float:
        """Their mean; NaN of none."""
        return float(self._sums.sum()) / self.count if self.count else float("nan")

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the most."""
        return self._least, self._most

    def at(self, share: float) -> float:
        """Return the value that a share of them does not exceed, to the width of a bin."""
        edges = LEAST_S * (1.0 + BIN) ** np.arange(BINS + 1.0)
        value = of_histogram(self._counts.sum(axis=0), edges, share)
        return min(max(value, self._least), self._most) if self.count else value

    def means(self) -> Floats:
        """Return the mean of each batch."""
        sizes, used = self._full_batches()
        means: Floats = self._sums[used] / sizes[used]
        return means

    def shares_below(self, value: float) -> Floats:
        """Return the share of each batch that does not exceed a value."""
        sizes, used = self._full_batches()
        last = int(np.log(max(value, LEAST_S) / LEAST_S) / log1p(BIN))
        shares: Floats = self._counts[used, : last + 1].sum(axis=1) / sizes[used]
        return shares

    def _full_batches(self) -> "tuple[Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]":
        """The sizes of the batches, and which have enough in them to be compared with the others."""
        sizes = self._counts.sum(axis=1)
        return sizes, sizes > 0.5 * sizes.max()


def _batch_means(values: Floats) -> Floats:
    batches = min(BATCHES, values.size)
    return np.array([batch.mean() for batch in np.array_split(values, batches)] if batches else [])
