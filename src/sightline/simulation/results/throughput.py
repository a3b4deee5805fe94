"""How sure it is what a server answers per second, from batches of answers that follow each other."""

from typing import TYPE_CHECKING

import numpy as np

from sightline.simulation.requests import Floats
from sightline.simulation.results.intervals import Interval, of_rate
from sightline.simulation.results.samples import BATCHES
from sightline.simulation.results.totals import Answered, kept

if TYPE_CHECKING:
    from sightline.scenario import Slo


def rate_intervals(found: Answered, slo: "Slo | None") -> dict[str, Interval]:
    """Return the intervals of requests, tokens and good requests per second; none of a run that takes no time."""
    last_s = found.arrival_s + found.latency_s
    order = np.argsort(last_s, kind="stable")
    batches = min(BATCHES, order.size)
    if not batches:
        return {}
    ends = np.array([part[-1] for part in np.array_split(order, batches)])
    seconds = np.diff(last_s[ends], prepend=found.arrival_s.min())
    if not (seconds > 0).all():
        return {}
    amounts: dict[str, Floats] = {
        "requests_per_s": np.ones(order.size),
        "output_tokens_per_s": found.output_tokens.astype(np.float64),
    }
    if slo is not None:
        amounts["goodput_requests_per_s"] = kept(found, slo).astype(np.float64)
    return {
        key: of_rate(np.array([part.sum() for part in np.array_split(of[order], batches)]), seconds)
        for key, of in amounts.items()
    }
