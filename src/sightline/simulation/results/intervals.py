"""What many requests say of a time: its mean, its percentiles, and how far each may be off after a run of this length.

Requests that wait in one queue resemble each other, so that a run says less than as many independent requests would.
Intervals come from means of consecutive batches in order of arrival, and from how much a batch resembles the one
before (`correlation`). A percentile's goes over the share of requests below it (Bahadur's representation: Chen and
Kelton, Management Science 2006, 52:253), and is at least what order statistics of independent requests say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isinf, sqrt

from sightline.simulation.requests import Floats
from sightline.simulation.results.correlation import Z, error_of_mean
from sightline.simulation.results.samples import Histogram, Values

PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
Interval = tuple[float, float | None]
Sample = Values | Histogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Mean and percentiles of a time; NaN without any requests."""

    values: Mapping[str, float]
    intervals: Mapping[str, Interval]
    """80 %; without an upper end where the run is too short to have one."""
    too_few: tuple[str, ...] = ()
    """Percentiles of which too few requests, if any, lie beyond."""


def statistics(sample: Sample, percentiles: Mapping[str, float] = PERCENTILES) -> Statistics:
    """Return mean and percentiles of a time; these as shares of the requests by name."""
    if not sample.count:
        return Statistics(values=dict.fromkeys(("mean", *percentiles), float("nan")), intervals={})
    values = {"mean": sample.mean} | {name: sample.at(share) for name, share in percentiles.items()}
    intervals = {"mean": of_mean(sample)}
    for name, share in percentiles.items():
        intervals[name] = _of_percentile(sample, share, values[name])
    return Statistics(values=values, intervals=intervals, too_few=too_few(sample.count, percentiles))


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
