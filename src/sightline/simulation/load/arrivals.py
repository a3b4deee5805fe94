"""When requests arrive: gaps between them, drawn part by part."""

from collections.abc import Iterator

import numpy as np

from sightline.scenario import Arrival
from sightline.simulation.requests import Floats


class Arrivals:
    """The times of one load, drawn in as many calls as one likes."""

    def __init__(self, arrival: Arrival, random: np.random.Generator, requests: float = 1.0) -> None:
        """Begin at 0 seconds; each arrival brings so many ``requests`` in the mean."""
        self._requests = requests
        self._arrival = arrival
        self._random = random
        self._passed = 0.0
        self._curve = _Curve(arrival)

    def next(self, count: int) -> Floats:
        """Return the arrival of so many further requests in seconds, rising.

        The gaps of a process have a mean of 1 and become seconds by the rate, so that at another rate the same load
        comes faster. The first request of a Poisson or gamma process comes after a gap, of a constant one at 0.
        """
        if self._arrival.process in ("closed", "all_at_once", "trace"):
            return np.zeros(count)
        gaps = self._gaps(count)
        gaps[:1] += self._passed
        passed = np.cumsum(gaps)
        self._passed = float(passed[-1]) if count else self._passed
        return self._curve.seconds(self._requests * (passed - (self._arrival.process == "constant")))

    def _gaps(self, count: int) -> Floats:
        """Gaps with a mean of 1."""
        match self._arrival.process:
            case "constant":
                return np.ones(count)
            case "gamma":
                shape = 1.0 / self._arrival.cv**2
                return self._random.standard_gamma(shape, count) / shape
        return self._random.standard_exponential(count)


class _Curve:
    """The times until which so many requests are expected.

    A process whose rate changes is one of rate 1 in another time (Cinlar 1975, Introduction to Stochastic Processes,
    section 4.7).
    """

    def __init__(self, arrival: Arrival) -> None:
        stages = arrival.ramp or ((0.0, arrival.rate or 1.0),)
        self._begins = np.array([begin for begin, _ in stages])
        self._rates = np.array([rate for _, rate in stages])
        lengths = np.diff(self._begins)
        self._expected = np.concatenate([[0.0], np.cumsum(lengths * self._rates[:-1])])

    def seconds(self, expected: Floats) -> Floats:
        """Return the times until which so many requests are expected."""
        # Of stages without requests the last that begins with as many expected is meant: it is the one that goes on.
        stage = np.searchsorted(self._expected, expected, side="right") - 1
        seconds: Floats = self._begins[stage] + (expected - self._expected[stage]) / self._rates[stage]
        return seconds


def every_part(count: int, part: int) -> Iterator[int]:
    """Yield the sizes of the parts of a load."""
    for begin in range(0, count, part):
        yield min(part, count - begin)
