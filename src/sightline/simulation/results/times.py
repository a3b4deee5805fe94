"""Times of requests and tokens, with percentiles and 80 % intervals of their means."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf, log1p, sqrt
from typing import Final, NamedTuple

import numpy as np

from sightline.simulation.load import Floats, Integers
from sightline.simulation.outcome import COMPLETED, Outcome


def request_times(
    arrival_s: Floats, first_token_s: Floats, last_token_s: Floats, output_tokens: Integers
) -> dict[str, Floats]:
    """Return ``ttft_s``, ``tpot_s`` and ``latency_s`` of each request; TPOT is NaN for answers of one token."""
    further = output_tokens - 1
    further_s = (last_token_s - first_token_s) / np.maximum(further, 1)
    return {
        "ttft_s": first_token_s - arrival_s,
        "tpot_s": np.where(further > 0, further_s, np.nan),
        "latency_s": last_token_s - arrival_s,
    }


def times_of(outcome: Outcome) -> dict[str, Floats]:
    """Return the times of every request; NaN where it was not completed, or has no further token."""
    requests, done = outcome.requests, outcome.status == COMPLETED
    times = request_times(requests.arrival_s, outcome.first_token_s, outcome.last_token_s, requests.output_tokens)
    return {key: np.where(done, seconds, np.nan) for key, seconds in times.items()}


def of_values(ordered: Floats, share: float) -> float:
    """Return the value that ``share`` of the ``ordered`` values do not exceed, interpolated between two of them.

    NumPy's and the common load generators' definition: place (n - 1) x share among the sorted values.
    """
    place = share * (ordered.size - 1)
    below = int(place)
    above = min(below + 1, ordered.size - 1)
    return float(ordered[below] + (place - below) * (ordered[above] - ordered[below]))


def of_histogram(counts: Integers, edges: Floats, share: float) -> float:
    """Return the same for binned values, spread evenly over the logarithm of each bin.

    Both values that the place lies between are known to the width of their bins, however far these are apart. NaN
    without any values.
    """
    running = np.cumsum(counts)
    if not running.size or running[-1] == 0:
        return float("nan")
    place = share * (running[-1] - 1)
    ranks = np.array([np.floor(place), np.ceil(place)])
    at = np.searchsorted(running, ranks, side="right")
    within = (ranks - (running[at] - counts[at]) + 0.5) / counts[at]
    below, above = edges[at] * (edges[at + 1] / edges[at]) ** within
    return float(below + (place - ranks[0]) * (above - below))


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
        return np.asarray(self._sums[used] / sizes[used])

    def shares_below(self, value: float) -> Floats:
        """Return the share of each batch that does not exceed a value."""
        sizes, used = self._full_batches()
        last = int(np.log(max(value, LEAST_S) / LEAST_S) / log1p(BIN))
        return np.asarray(self._counts[used, : last + 1].sum(axis=1) / sizes[used])

    def _full_batches(self) -> "tuple[Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]":
        """The sizes of the batches, and which have enough in them to be compared with the others."""
        sizes = self._counts.sum(axis=1)
        return sizes, sizes > 0.5 * sizes.max()


def _batch_means(values: Floats) -> Floats:
    batches = min(BATCHES, values.size)
    return np.array([batch.mean() for batch in np.array_split(values, batches)] if batches else [])


Z = 1.2815515655446004
"""Half-width of the interval that holds 80 % of the normal distribution."""
AVERAGED = 2.0 / 3.0
"""Variance of steps between means of a walk's batches over that of its steps (Working, Econometrica 1960, 28:916)."""
FEWEST = 5
"""Values of which a correlation can be told from that of so short a series alone."""


class MeanError(NamedTuple):
    """The error of a mean."""

    standard_error: float
    freedom: float
    """Degrees of freedom that it is known with."""

    @property
    def half_width(self) -> float:
        """Half of the 80 % interval."""
        return student(self.freedom) * self.standard_error if self.standard_error else 0.0


UNKNOWN = MeanError(inf, 1.0)


def error_of_mean(series: Floats) -> MeanError:
    """Return the error of the mean of consecutive batch means."""
    return min(_returning(series), _growing(series), key=lambda found: found.half_width)


def independent_values(series: Floats) -> float:
    """Return the effective number of independent values; 1 if the series does not return to its mean.

    With n values of correlation p between neighbours, the variance of the mean is that of a value times
    ``(1 + 2 sum of (1 - k / n) p^k over k = 1 ... n - 1) / n``.
    """
    n, p = series.size, _correlation(series)
    lags = np.arange(1, n)
    return float(n / (1.0 + 2.0 * ((1.0 - lags / n) * p**lags).sum()))


def student(freedom: float) -> float:
    """Return the half-width of the 80 % interval of Student's distribution with ``freedom`` degrees of freedom.

    Expansion 26.7.5 of Abramowitz and Stegun; 4 % too small for a single one, right to 0.4 % from two on.
    """
    steps = (
        (Z**3 + Z) / 4.0,
        (5.0 * Z**5 + 16.0 * Z**3 + 3.0 * Z) / 96.0,
        (3.0 * Z**7 + 19.0 * Z**5 + 17.0 * Z**3 - 15.0 * Z) / 384.0,
    )
    return Z + sum(step / freedom**power for power, step in enumerate(steps, start=1))


def _correlation(series: Floats) -> float:
    """The correlation of neighbours, from 0 to 1.

    What so short a series takes off it is added again (Marriott and Pope, Biometrika 1954, 41:390).
    """
    off = series - series.mean()
    squares = float(off @ off)
    if series.size < FEWEST or not squares:
        return 0.0 if not squares else 1.0
    raw = float(off[1:] @ off[:-1]) / squares
    return min(max((series.size * raw + 1.0) / (series.size - 4.0), 0.0), 1.0)


def _returning(series: Floats) -> MeanError:
    """Of a series that returns to its mean."""
    values = independent_values(series) if series.size else 1.0
    if values < 1.0 + 1e-9:
        return UNKNOWN
    # The values' spread around their own mean lacks that of the mean.
    return MeanError(sqrt(float(series.var()) / (values - 1.0)), max(values - 1.0, 1.0))


def _growing(series: Floats) -> MeanError:
    """Of means of batches of a sum of independent steps, from how far neighbouring ones are apart."""
    n = series.size
    if n < 3:
        return UNKNOWN
    steps = float(np.diff(series).var(ddof=1)) / AVERAGED
    return MeanError(sqrt(steps * (n + 1.0) * (2.0 * n + 1.0) / (6.0 * n)), n - 2.0)


PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
Interval = tuple[float, float | None]
Sample = Values | Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Mean and percentiles of a time; NaN without any requests."""

    sample: Sample
    percentiles: Mapping[str, float]
    values: Mapping[str, float]

    @property
    def intervals(self) -> Mapping[str, Interval]:
        """80 %; without an upper end where the run is too short to have one."""
        if not self.sample.count:
            return {}
        shares = self.percentiles.items()
        ends = {name: _of_percentile(self.sample, share, self.values[name]) for name, share in shares}
        return {"mean": of_mean(self.sample), **ends}

    @property
    def too_few(self) -> tuple[str, ...]:
        """Percentiles of which too few requests, if any, lie beyond."""
        return too_few(self.sample.count, self.percentiles) if self.sample.count else ()


def statistics(sample: Sample, percentiles: Mapping[str, float] = PERCENTILES) -> Statistics:
    """Return mean and percentiles of a time; these as shares of the requests by name."""
    values = {"mean": sample.mean} | {name: sample.at(share) for name, share in percentiles.items()}
    return Statistics(sample=sample, percentiles=percentiles, values=values)


def too_few(count: int, percentiles: Mapping[str, float] = PERCENTILES) -> tuple[str, ...]:
    """Return the percentiles beyond which less than one of so many requests lies."""
    # The largest of all is always one of them.
    beyond = {name: count * (1.0 - share) for name, share in percentiles.items() if share < 1.0}
    return tuple(name for name, expected in beyond.items() if expected < 1.0 - 1e-9)


def of_mean(sample: Sample) -> Interval:
    """Return the interval of a time's mean."""
    mean, half = sample.mean, error_of_mean(sample.means()).half_width
    return max(mean - half, sample.ends[0]), None if isinf(half) else mean + half


def of_rate(amounts: Floats, seconds: Floats) -> Interval:
    """Return the interval of all amounts over all seconds, from those of consecutive batches."""
    rate = float(amounts.sum() / seconds.sum())
    half = error_of_mean(amounts - rate * seconds).half_width / float(seconds.mean())
    return max(rate - half, 0.0), None if isinf(half) else rate + half


def _of_percentile(sample: Sample, share: float, value: float) -> Interval:
    """The values at the ends of the interval of the share of requests below ``value``."""
    independent = Z * sqrt(share * (1.0 - share) / sample.count)
    half = max(error_of_mean(sample.shares_below(value)).half_width, independent)
    least, most = sample.ends
    # As far as the last request, the run has seen no upper end.
    beyond = share + half > 1.0 - 0.5 / sample.count and least < most
    return sample.at(max(share - half, 0.0)), None if beyond else sample.at(min(share + half, 1.0))
