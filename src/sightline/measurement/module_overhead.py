"""What telling modules apart adds to them on a processor, taken off again.

The instrument's own work stands beside the regions, but not what it does to others: a call more around a module, caches
that hold its code now. Both come with every border, and the steps that nobody tells apart say how much all of them are
together (A. Malony and S. Shende, "Overhead Compensation in Performance Profiling", Euro-Par 2004).
"""

from collections.abc import Sequence
from dataclasses import replace

from sightline.profile import Row

MOST_S = 1e-5
"""Of a border; twice what it took within a token of tiny models (Cascade Lake, 2026-11). More than that is no overhead
but a machine that was slower meanwhile."""
LEAST_KEPT = 0.5
"""Share of a region's time that stays in any case."""


def undisturbed(rows: Sequence[Row], plain_s: float) -> list[Row]:
    """Return ``rows`` without what they take more than the ``plain_s`` seconds of a step that was not told apart.

    Each loses as much for every time that the step came by.
    """
    excess_s = sum(float(row.time_s) for row in rows) - plain_s
    borders = sum(float(row.count) for row in rows)
    each_s = min(max(excess_s, 0.0) / max(borders, 1.0), MOST_S)
    return [replace(row, time_s=_less(float(row.time_s), each_s * float(row.count))) for row in rows]


def _less(time_s: float, overhead_s: float) -> float:
    return max(time_s - overhead_s, LEAST_KEPT * time_s)
