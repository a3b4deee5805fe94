"""How many replicas there were, where they come and go."""

import numpy as np

from sightline.simulation.outcome import Lifetimes
from sightline.simulation.requests import Floats


def replica_seconds(of: Lifetimes, begin_s: float, times_s: Floats) -> Floats:
    """Return the seconds of all replicas from the beginning to each of some times; they start and finish within."""
    times = times_s[:, np.newaxis]
    seconds: Floats = (
        np.minimum(times, np.maximum(of.stopped_s, begin_s)) - np.minimum(times, np.maximum(of.started_s, begin_s))
    ).sum(axis=1)
    return seconds


def replicas_of_run(of: Lifetimes, begin_s: float, end_s: float) -> dict[str, float]:
    """Return how many replicas a run had: the mean over its time, the fewest and the most at once."""
    first, last = np.clip(of.started_s, begin_s, end_s), np.clip(of.stopped_s, begin_s, end_s)
    there = last > first
    times = np.unique(np.concatenate([[begin_s], first[there], last[there]]))
    counts = [int(((first <= at) & (at < last) & there).sum()) for at in times if at < end_s]
    seconds = float(replica_seconds(of, begin_s, np.array([end_s]))[0])
    mean = seconds / (end_s - begin_s) if end_s > begin_s else float(max(counts, default=0))
    return {"mean": mean, "min": min(counts, default=0), "max": max(counts, default=0)}
