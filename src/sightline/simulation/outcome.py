"""The outcome of a load: a row per request, what iterations come to, and a histogram of times between tokens."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sightline.simulation.load import Floats, Integers, Requests

Flags = NDArray[np.bool_]

COMPLETED: Final = 0
TOO_LONG: Final = 1
"""Refused: prompt and answer are longer than the model's context."""
NO_ROOM: Final = 2
"""Refused: the prompt does not fit in the empty cache."""
NOT_ADMITTED: Final = 3
"""Refused by the admission policy: the queue is full."""
OVER_BUDGET: Final = 4
"""Refused: the prompt is longer than an iteration may be, and is not cut."""
TIMED_OUT: Final = 5
"""Given up by its client: what was computed of it is lost."""
QUEUE_FULL: Final = 6
"""Refused by the admission policy: too many requests wait."""
WAITED: Final = 7
"""Dropped by the admission policy: it waited too long."""
REFUSALS: Final = {
    TOO_LONG: "longer than the context",
    NO_ROOM: "larger than the KV cache",
    NOT_ADMITTED: "queue full",
    OVER_BUDGET: "longer than plan.max_batched_tokens",
    TIMED_OUT: "timed out",
    QUEUE_FULL: "too many waiting",
    WAITED: "waited too long",
}
"""Reasons, as results name them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Limits of equal replicas."""

    name: str = ""
    """What the replicas do, or what they run on, where there are several pools."""
    replicas: int = 1
    """Ranks that schedule by themselves."""
    kv_capacity_tokens: int = 0
    """Of each replica; 0 where nobody knows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Iterations:
    """One row per iteration of a replica, in order of time."""

    start_s: Floats
    end_s: Floats
    replica: Integers
    prompt_tokens: Integers
    """Prompt tokens that it processed, without those found in the prefix cache."""
    decodes: Integers
    """Sequences that got a further token."""
    running: Integers
    """Sequences admitted, after its scheduling."""
    waiting: Integers
    """Requests in the queue, after its scheduling."""
    kv_tokens: Integers
    """Tokens of the cache in use by running sequences, whole blocks."""


def no_iterations() -> Iterations:
    """Return those that nobody saw."""
    nothing: Any = np.zeros(0, np.int64)
    return Iterations(**dict.fromkeys((f.name for f in fields(Iterations)), nothing))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interruptions:
    """One row per preemption of a request that already had tokens."""

    request: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Its row."""
    from_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Its last token before."""
    to_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Its next token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierUse:
    """Loads from one cache tier so far."""

    name: str
    tokens: int
    """Of prompts, when their requests were first admitted."""
    seconds: float
    """Of all loads of all replicas, also for requests that were put off."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfers:
    """Per request: the transfer from the prefill replica to the decode replica."""

    replica: Integers
    """Which processed its prompt; -1 where that is the one that decodes."""
    prefilled_s: Floats
    """When its prompt was processed; NaN where nothing was sent."""
    ready_s: Floats
    """When its keys and values were there."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lifetimes:
    """One row per replica of an autoscaled deployment, in the order in which they started."""

    replica: Integers
    """Its place, which another one takes when it is gone."""
    started_s: Floats
    """When it was asked for; before all time for those of the beginning."""
    serves_s: Floats
    """From when on requests are sent to it."""
    asked_to_stop_s: Floats
    """From when on none are sent to it any more; infinite for the last ones."""
    stopped_s: Floats
    """When it was gone."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """The outcome of a load; rows in the order of the requests."""

    requests: Requests
    """The requests, with ``arrival_s`` as they were really sent (closed loops, turns)."""
    scheduled_s: Floats
    """When the first of its tokens were first processed; NaN where refused."""
    first_token_s: Floats
    last_token_s: Floats
    cached_tokens: Integers
    """Tokens of the prompt that were found in the prefix cache when it was first scheduled."""
    preemptions: Integers
    replica: Integers
    status: Integers
    """``COMPLETED``, or why it was refused."""
    gap_counts: Integers
    """Times between consecutive tokens of a request: how many lie in each bin of ``gap_edges_s``."""
    gap_edges_s: Floats
    pools: tuple[PoolLimits, ...] = (PoolLimits(),)
    """Replicas are numbered pool by pool."""
    interruptions: Interruptions = field(default_factory=Interruptions)
    transfers: Transfers | None = None
    """None where every replica decodes what it has begun."""
    lifetimes: Lifetimes | None = None
    """None where all replicas are there all the time."""
    tiers: tuple[TierUse, ...] = ()
    work: Any = None
    """What iterations come to (`sightline.simulation.engine.records.Work`); None where nobody saw any."""
    course: Callable[[], Iterations] = no_iterations
    """Returns the iterations: a simulation keeps none, and serves its load once more for whoever asks for them."""

    @property
    def iterations(self) -> Iterations:
        """A row per iteration."""
        return self.course()

    @property
    def kv_capacity_tokens(self) -> Integers:
        """Tokens that the cache of each replica holds."""
        return np.repeat([of.kv_capacity_tokens for of in self.pools], [of.replicas for of in self.pools])

    @property
    def pool_of_replica(self) -> Integers:
        """The number of each replica's pool."""
        return np.repeat(np.arange(len(self.pools)), [of.replicas for of in self.pools])
