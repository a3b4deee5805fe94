"""What the loop writes down: requests that ended, iterations, and the times between tokens."""

from math import log, log1p
from typing import Any, Final, NamedTuple

import numpy as np

from sightline.simulation.compiled import compiled
from sightline.simulation.engine.state import record
from sightline.simulation.requests import Floats, Integers

GAP_WIDTH: Final = 0.001
"""Relative width of a bin of times between tokens."""
LEAST_GAP_S: Final = 1e-6
GAP_BINS: Final = 23_100
"""Bins from `LEAST_GAP_S` to about 10,000 s."""
_PER_BIN = log1p(GAP_WIDTH)


ENDED: Final = record(
    "request cached preemptions replica prefilled_by status slot",
    "arrival_s scheduled_s prefilled_s ready_s first_s last_s",
)
"""A request that completed or was refused; ``slot`` is where it stood."""
ITERATION: Final = np.dtype(
    [(name, np.int32) for name in ("replica", "prompt_tokens", "decodes", "running", "waiting", "kv_blocks")]
    + [(name, np.float64) for name in ("start_s", "end_s")],
    align=True,
)
"""An iteration; there are many, so that counts are short."""

RESUMED: Final = record("request replica", "from_s to_s")
"""A request that had tokens when it was put off: its last token before, and the next one."""

# Rows written, in `Records.rows`.
REQUESTS: Final = 0
ITERATIONS: Final = 1
RESUMPTIONS: Final = 2


class Records(NamedTuple):
    """What was written down since it was last read."""

    rows: Integers
    ended: Any
    """Of `ENDED`, in the order in which requests ended."""
    log: Any
    """Of `ITERATION`; with no room at all none are written."""
    resumed: Any
    """Of `RESUMED`."""
    gaps: Integers
    """Times between tokens, by bin."""


def new_records(requests: int, iterations: int) -> Records:
    """Return records with room for so many rows."""
    gaps = np.zeros(GAP_BINS, np.int64)
    tables = np.zeros(requests, ENDED), np.zeros(iterations, ITERATION), np.zeros(requests, RESUMED)
    return Records(np.zeros(3, np.int64), *tables, gaps)


@compiled
def note_gaps(gaps: Integers, seconds: float, count: int) -> None:
    """Count times between tokens."""
    if count > 0:
        at = int(log(max(seconds, LEAST_GAP_S) / LEAST_GAP_S) / _PER_BIN)
        gaps[min(at, GAP_BINS - 1)] += count


def gap_edges_s() -> Floats:
    """Return the edges of the bins, in seconds."""
    return LEAST_GAP_S * (1.0 + GAP_WIDTH) ** np.arange(GAP_BINS + 1.0)
