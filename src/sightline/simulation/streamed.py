"""Loads of any length in the same memory: figures from histograms and sums, rows handed on piece by piece."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from sightline.progress import SILENT, Progress
from sightline.simulation.engine.state import gap_edges_s
from sightline.simulation.load import Integers, Requests
from sightline.simulation.outcome import COMPLETED, Outcome, TierUse
from sightline.simulation.results.figures import SAMPLED, Summary
from sightline.simulation.results.iterations import IterationSums, iteration_sums_of
from sightline.simulation.results.times import Histogram
from sightline.simulation.results.totals import Moments, Totals, answered, totals_of
from sightline.simulation.serve import Deployment, serve_in_pieces

if TYPE_CHECKING:
    from sightline.scenario import Slo

MANY_REQUESTS = 1_000_000
"""Requests of a load of which no rows are kept."""
Rows = Callable[[Integers, Outcome], None]
"""Takes requests that ended: their numbers in the load, and their rows."""


def serve_streamed(
    load: Iterable[Requests],
    deployment: Deployment,
    slo: "Slo | None" = None,
    rows: Rows | None = None,
    progress: Progress = SILENT,
) -> Summary:
    """Return what a load comes to; ``rows`` takes each piece of it, and progress counts requests.

    Percentiles are to 0.1 %, all else is exact. Once somebody asked to stop, the rest of the load is left out.
    """
    totals, iteration_sums, moments = Totals(), (IterationSums(),) * len(deployment.pools), Moments()
    samples = {key: Histogram() for key in SAMPLED}
    gap_counts, lifetimes = np.zeros(0, np.int64), None
    tiers: tuple[TierUse, ...] = ()
    for numbers, piece in serve_in_pieces(load, deployment):
        found = answered(piece)
        totals += totals_of(piece, found, slo)
        iteration_sums = tuple(
            before + one for before, one in zip(iteration_sums, iteration_sums_of(piece), strict=True)
        )
        moments.add(piece.iterations)
        done = numbers[piece.status == COMPLETED]
        for key, histogram in samples.items():
            histogram.add(done, getattr(found, key))
        gap_counts, lifetimes, tiers = piece.gap_counts, piece.lifetimes, piece.tiers
        if rows is not None:
            rows(numbers, piece)
        progress.advance(numbers.size)
        if progress.cancelled:
            break
    return Summary(
        totals=totals,
        samples=samples,
        gap_counts=gap_counts,
        gap_edges_s=gap_edges_s(),
        iteration_sums=iteration_sums,
        pools=deployment.limits,
        moments=moments,
        lifetimes=lifetimes,
        tiers=tiers,
    )
