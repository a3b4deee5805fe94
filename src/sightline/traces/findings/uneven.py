"""Steps that take longer than the others of a job: how much that adds to the mean step, and what fills them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.traces.breakdown import Breakdown

_LEAST_STEPS = 3
"""Of two steps nobody knows which is the usual one."""
_LONGER = 1.3
"""Over the median step: from here on a step is a long one."""


class LongSteps(NamedTuple):
    """The long steps of a rank next to its usual ones, in nanoseconds."""

    steps: int
    of: int
    long_ns: float
    """The mean long step."""
    usual_ns: float
    """The mean of the others."""
    extra_ns: float
    """What the long steps add to the mean step."""
    reasons_ns: NDArray[np.float64]
    """The same by `Reason`; some may be negative."""
    call: str
    """What the host does longest in the waits of long steps; empty if nothing long is known."""


def long_steps(ranks: Sequence[Breakdown]) -> LongSteps | None:
    """Return the long steps of the rank whose long steps add most; None where no step is long."""
    found = [one for rank in ranks if (one := _of_rank(rank)) is not None]
    return max(found, key=lambda one: one.extra_ns, default=None)


def _of_rank(rank: Breakdown) -> LongSteps | None:
    places = rank.steps.counted
    lengths = rank.steps.lengths[places].astype(np.float64)
    is_long = lengths > _LONGER * np.median(lengths)
    if not rank.steps.are_named or len(places) < _LEAST_STEPS or not is_long.any():
        return None
    by_reason, share = rank.by_step[places], float(is_long.mean())
    apart = by_reason[is_long].mean(axis=0) - by_reason[~is_long].mean(axis=0)
    long_ns, usual_ns = float(lengths[is_long].mean()), float(lengths[~is_long].mean())
    return LongSteps(
        steps=int(is_long.sum()),
        of=len(places),
        long_ns=long_ns,
        usual_ns=usual_ns,
        extra_ns=share * (long_ns - usual_ns),
        reasons_ns=share * apart,
        call=max(rank.slow_calls, key=lambda name: rank.slow_calls[name], default=""),
    )
