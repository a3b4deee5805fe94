"""Requests of a measured load in cells: those that came one after the other, with prompts of about one length.

Requests that wait in one queue resemble each other, so that a cell counts as one time, which is as sure as the means of
its consecutive parts are alike.
"""

from dataclasses import dataclass

import numpy as np

from sightline.simulation.requests import Floats, Integers, Requests
from sightline.simulation.results.correlation import Z, error_of_mean

QUANTITIES = ("ttft_s", "tpot_s")
PARTS = 4
"""Consecutive parts of a load, whose rates differ by chance or on purpose."""
LEAST = 12
"""Requests of a cell."""
BATCHES = 10
"""Parts of a cell whose means say how sure its own is."""
UNLIKE = 1.5
"""Long prompts over short ones from which both have cells of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """Some requests of a load, and one of their times."""

    quantity: str
    rows: Integers
    """In order of arrival."""
    logarithm: float
    """Of the measured seconds, as the mean of the requests' logarithms or as the logarithm of their mean."""
    is_mean: bool = False
    """Whether the logarithm is that of the mean."""

    def of(self, times: Floats) -> float:
        """Return the same logarithm of other times of all the load's requests; those that are not known count not."""
        seconds = times[self.rows]
        return float(np.log(np.nanmean(seconds)) if self.is_mean else np.nanmean(np.log(seconds)))

    def uncertainty(self, ratios: Floats) -> float:
        """Return the standard error of its logarithm, from those of measured over simulated times, or of times.

        That of a normal error as wide as what few parts that resemble each other say.
        """
        known = ratios[self.rows]
        known = known[np.isfinite(known)]
        if known.size < 2:
            return 1.0
        parts = np.array([part.mean() for part in np.array_split(known, min(BATCHES, known.size))])
        return min(error_of_mean(parts).half_width / Z, 1.0)


def cells_of(requests: Requests, quantity: str, seconds: Floats) -> list[Cell]:
    """Return the cells of a time that was measured of each request; NaN where it was not."""
    known = np.flatnonzero(seconds > 0)
    parts = np.array_split(known, max(min(PARTS, known.size // LEAST), 1))
    split = [half for part in parts for half in _by_length(part, requests.prompt_tokens)] if _first(quantity) else parts
    return [
        Cell(quantity=quantity, rows=rows, logarithm=float(np.log(seconds[rows]).mean())) for rows in split if rows.size
    ]


def _first(quantity: str) -> bool:
    """Whether a time is of a prompt; the others follow the whole batch."""
    return quantity == "ttft_s"


def _by_length(rows: Integers, prompt_tokens: Integers) -> list[Integers]:
    """Requests with short and with long prompts, if these differ; else all of them."""
    if rows.size < 2 * LEAST:
        return [rows]
    lengths = prompt_tokens[rows]
    short = lengths <= np.median(lengths)
    if short.all() or lengths[~short].mean() < UNLIKE * lengths[short].mean():
        return [rows]
    return [rows[short], rows[~short]]
