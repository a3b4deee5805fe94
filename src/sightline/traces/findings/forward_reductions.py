"""All-reduces inside of the forward pass, as tensor parallelism has them: gradients are reduced behind the backward."""

from collections.abc import Sequence

import numpy as np

from sightline.traces.breakdown import Breakdown


def share_in_forward(ranks: Sequence[Breakdown]) -> float:
    """Return the share of all-reduces' time that is of those with more of the forward pass behind them.

    Without a device it is 0: there a thread of its own begins a collective at some later time than it was called.
    """
    parts = np.sum([_of_rank(rank) for rank in ranks if rank.trace.has_device] or [(0.0, 0.0)], axis=0)
    return float(parts[0] / parts[1]) if parts[1] else 0.0


def _of_rank(rank: Breakdown) -> tuple[float, float]:
    """Nanoseconds of all-reduces that are followed by a kernel of the forward pass, and of all."""
    talk, compute = rank.activity.communication, rank.activity.compute
    reduces = np.array([key.work.operator == "all-reduce" for key in rank.keys], bool)
    chosen = talk.where(reduces[talk.key]) if len(talk) else talk
    if not len(chosen) or not len(compute):
        return 0.0, 0.0
    is_forward = np.array([key.phase == "forward" for key in rank.keys], bool)[compute.key]
    order = np.argsort(compute.launch_start, kind="stable")
    place = np.searchsorted(compute.launch_start[order], chosen.launch_start, side="right")
    follows = (place < len(order)) & is_forward[order[np.minimum(place, len(order) - 1)]]
    length = (chosen.end - chosen.start).astype(np.float64)
    return float(length[follows].sum()), float(length.sum())
