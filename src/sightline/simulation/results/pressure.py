"""What keeps a replica from answering faster, told from its iterations."""

from dataclasses import dataclass

from sightline.quantities import percent
from sightline.simulation.results.iteration_sums import IterationSums

IDLE = 0.7
"""Share of the time with work below which a replica has room for more."""
WAITS = 0.1
"""Share of the busy time with a queue from which the queue is worth a word, if requests spend time in it."""
QUEUED = 0.03
"""Share of the latency in the queue from which they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Shares of the time."""

    busy: float
    """Of a replica's time: with an iteration under way."""
    waiting: float
    """Of the busy time: requests wait after scheduling."""
    cache_full: float
    """Of the waiting time: running requests hold the KV cache."""
    sequences_full: float
    """Of the waiting time: as many requests run as may."""
    budget_full: float
    """Of the waiting time: the iteration has as many tokens as it may."""


def pressure(sums: IterationSums, duration_s: float, replicas: float) -> Pressure | None:
    """Return how the time was spent; None where nobody saw iterations."""
    if not sums.iterations or duration_s <= 0:
        return None

    def of_waiting(seconds: float) -> float:
        return seconds / sums.waiting_s if sums.waiting_s else 0.0

    return Pressure(
        busy=min(sums.seconds / duration_s / replicas, 1.0),
        waiting=sums.waiting_s / sums.seconds,
        cache_full=of_waiting(sums.cache_full_s),
        sequences_full=of_waiting(sums.sequences_full_s),
        budget_full=of_waiting(sums.budget_full_s),
    )


def in_a_sentence(found: Pressure | None, bottleneck: str | None, queued: float) -> str:
    """Return what limits, in words; empty where nobody saw iterations.

    Args:
        found: How the time was spent.
        bottleneck: What bounds the iterations.
        queued: Share of the mean latency that requests wait in the queue.
    """
    if found is None:
        return ""
    if found.waiting >= WAITS and queued >= QUEUED:
        share = f"requests wait {percent(found.waiting)} of the busy time"
        causes = {
            "the KV cache is full": found.cache_full,
            "as many run as plan.max_sequences allows": found.sequences_full,
            "iterations are as large as plan.max_batched_tokens allows": found.budget_full,
        }
        cause = max(causes, key=lambda name: causes[name])
        return f"{share}, mostly because {cause}" if causes[cause] > 0.5 else share
    if found.busy < IDLE:
        return f"replicas are idle {percent(1 - found.busy)} of the time: there is room for more requests"
    limit = "the devices" if bottleneck is None else in_words(bottleneck)
    return f"requests wait for little but the running iteration, which is limited by {limit}"


def in_words(bottleneck: str) -> str:
    """Return what bounds iterations so that nobody takes memory for its size."""
    return {"compute": "arithmetic", "memory": "memory bandwidth"}.get(bottleneck, f"the {bottleneck}")
