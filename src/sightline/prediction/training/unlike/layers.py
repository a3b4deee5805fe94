"""How many layers each stage of an uneven pipeline gets: a dynamic program over stages and layers.

Symbols: ``L`` layers, ``p`` stages, ``m`` micro-batches. A pipeline takes ``(m - 1) max t_i + sum t_i`` for stages of
``t_i`` seconds per micro-batch (`closed_forms.pipeline_time`). The least bottleneck ``max t_i`` comes from
``f_i(b) = min over a of max(f_{i-1}(a), t_i(a, b))``, where the first ``i`` stages hold layers up to ``b``. A larger
bottleneck may pay where it moves layers to much faster stages, so the same recursion on sums is run under each limit of
the bottleneck that can still win.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
"""``t[a, b]``: seconds of a micro-batch on a stage with layers ``a`` to ``b - 1``; infinite where that cannot be."""


def fastest_layers(stages: Sequence[Seconds], micro_batches: float) -> tuple[int, ...] | None:
    """Return the layers of each stage of the fastest pipeline; None where no split is possible."""
    bottleneck = _cuts(stages, np.maximum)
    if bottleneck is None:
        return None
    further = max(micro_batches - 1.0, 0.0)

    def pipeline_s(cuts: Sequence[int]) -> float:
        times = _times(stages, cuts)
        return further * max(times) + sum(times)

    best, least_sum_s = bottleneck, sum(_times(stages, _cuts(stages, np.add) or bottleneck))
    start_s = max(_times(stages, bottleneck))
    for limit_s in _limits(stages, start_s):
        # No pipeline with a bottleneck beyond the limit before this one can be faster than that.
        if further * limit_s + least_sum_s >= pipeline_s(best):
            break
        cuts = _cuts([np.where(times <= limit_s, times, np.inf) for times in stages], np.add)
        if cuts is not None and pipeline_s(cuts) < pipeline_s(best):
            best = cuts
    return tuple(int(b - a) for a, b in pairwise(best))


def _limits(stages: Sequence[Seconds], start_s: float) -> Seconds:
    """The bottlenecks that there may be, from the least on."""
    times = np.unique(np.concatenate([of[np.isfinite(of)] for of in stages]))
    limits: Seconds = times[times >= start_s]
    return limits


def _cuts(stages: Sequence[Seconds], join: Callable[[Any, Any], Any]) -> list[int] | None:
    """The layers at which stages begin and end, for the least maximum or sum of their seconds; None for none."""
    whole = stages[0].shape[0] - 1
    reached: Seconds = stages[0][0]
    choices: list[NDArray[np.int64]] = []
    for times in stages[1:]:
        joined = join(reached[:, None], times)
        choices.append(joined.argmin(axis=0))
        reached = joined.min(axis=0)
    if not np.isfinite(reached[whole]):
        return None
    cuts = [whole]
    for choice in reversed(choices):
        cuts.append(int(choice[cuts[-1]]))
    return [0, *reversed(cuts)]


def _times(stages: Sequence[Seconds], cuts: Sequence[int]) -> list[float]:
    """Seconds of each stage."""
    return [float(of[a, b]) for of, a, b in zip(stages, cuts[:-1], cuts[1:], strict=True)]
