"""Routers: which replica a request goes to."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from simulation.reference.scheduler import Scheduler
from simulation.reference.sequences import Sequence

from sightline.simulation.engine.fleet import CACHED_SHARE, IMBALANCE, WEIGHTS


@dataclass
class Turns:
    """Replicas among which requests are spread, and what is known of those before."""

    fleet: list[Scheduler]
    speeds: list[float]
    turn: int = 0
    """Requests that were routed."""
    credit: list[float] = field(default_factory=list)
    """What each replica is owed: shares of all requests by speed, less those it got."""
    serves_from: list[float] = field(default_factory=list)
    """From when on each replica takes requests."""
    now: float = 0.0

    def __post_init__(self) -> None:
        """Begin with nothing owed."""
        self.credit = [0.0] * len(self.fleet)
        self.serves_from = [-inf] * len(self.fleet)

    @property
    def there(self) -> list[int]:
        """The replicas that take requests."""
        return [number for number, since in enumerate(self.serves_from) if since <= self.now]

    def note(self, chosen: int) -> None:
        """Note where a request went."""
        self.turn += 1
        for number in self.there:
            self.credit[number] += self.speeds[number]
            self.credit[chosen] -= self.speeds[number]


Router = Callable[[Turns, Sequence], int]
"""The replica for a request."""


def in_turn(of: Turns, _: Sequence) -> int:
    """The one that is owed most: one after the other where all are equal."""
    return max(of.there, key=lambda number: of.credit[number] + of.speeds[number])


def by_load(of: Turns, _: Sequence) -> int:
    """The one with the fewest requests for its speed; of several the next in turn."""
    return min(_from(of), key=lambda number: (_load(of.fleet[number]) + 1) / of.speeds[number])


def by_prefix(of: Turns, sequence: Sequence) -> int:
    """The one with most of the prompt in its cache, where that is worth it and loads are in balance."""
    loads = [_load(of.fleet[number]) for number in of.there]
    apart, ratio = IMBALANCE
    shares = {number: _cached_share(of.fleet[number], sequence) for number in of.there}
    out_of_balance = max(loads) - min(loads) > apart and max(loads) > ratio * min(loads)
    if out_of_balance or max(shares.values()) < CACHED_SHARE:
        return by_load(of, sequence)
    return max(shares, key=lambda number: shares[number])


def by_score(of: Turns, sequence: Sequence) -> int:
    """The one with the highest sum of weighted scores; of several the next in turn."""
    queues = {number: of.fleet[number].queued / of.speeds[number] for number in of.there}
    best, highest = 0, -inf
    for number in _from(of):
        pool, longest = of.fleet[number].pool, max(queues.values())
        spread = longest - min(queues.values())
        queue = (longest - queues[number]) / spread if spread else 1.0
        scores = (queue, len(pool.free) / pool.total, _cached_share(of.fleet[number], sequence))
        score = sum(weight * one for weight, one in zip(WEIGHTS, scores, strict=True))
        if score > highest:
            best, highest = number, score
    return best


def by_cost(of: Turns, sequence: Sequence) -> int:
    """The one with the fewest blocks to compute and to hold with this request, for its speed."""
    costs = {number: _cost(of.fleet[number], sequence) / of.speeds[number] for number in of.there}
    chosen = min(_from(of), key=lambda number: costs[number])
    rules = of.fleet[chosen].rules
    computed = len(of.fleet[chosen].pool.find(sequence)) * rules.block_tokens
    if len(of.fleet) > 1:
        sequence.expected = 0 if rules.role == "decode" else sequence.prompt - computed
    return chosen


def _cost(scheduler: Scheduler, sequence: Sequence) -> float:
    pool, found = scheduler.pool, scheduler.pool.find(sequence)
    waiting = [*scheduler.waiting, *scheduler.late, *scheduler.ready, *scheduler.late_ready]
    tokens = sum(one.prompt + one.expected for one in waiting)
    tokens += sum(one.lacking for one in scheduler.running if not one.decoding and one.computed)
    held = pool.total - len(pool.free) - sum(block.holders > 0 for block in found)
    return tokens + 2 * sequence.prompt + (held - len(found)) * pool.block_tokens


ROUTERS: dict[str, Router] = {
    "round-robin": in_turn,
    "least-load": by_load,
    "prefix-aware": by_prefix,
    "weighted": by_score,
    "precise-prefix": by_cost,
}


def _from(of: Turns) -> list[int]:
    n = len(of.fleet)
    return [number for i in range(n) if (number := (of.turn + i) % n) in of.there]


def _load(scheduler: Scheduler) -> int:
    return scheduler.taken + scheduler.queued


def _cached_share(scheduler: Scheduler, sequence: Sequence) -> float:
    return len(scheduler.pool.find(sequence)) * scheduler.rules.block_tokens / sequence.prompt
