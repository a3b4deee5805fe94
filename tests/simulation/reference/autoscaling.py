"""Replicas that come and go: Kubernetes' rule, one look at a time."""

from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulation.reference.server import Fleet, Row


@dataclass
class Scaling:
    """Replicas at least and at most, seconds until one is ready, and requests that each should have."""

    least: int
    most: int
    startup_s: float
    target: float


@dataclass
class Life:
    """A replica from the request for it to its end."""

    number: int
    started_s: float
    serves_s: float
    asked_s: float = inf
    gone_s: float = inf


class Scaler:
    """Looks at the fleet every 15 s."""

    def __init__(self, rule: Scaling, fleet: "Fleet", begin_s: float) -> None:
        """Begin with the least replicas."""
        self.rule, self.fleet, self.begin_s = rule, fleet, begin_s
        self.size, self.looks = rule.least, 1
        self.history: list[int] = [rule.least]
        """What was recommended at the beginning, and at each look."""
        self.lives = [Life(number, -inf, -inf) for number in range(rule.least)]
        for number in range(rule.least, len(fleet.replicas)):
            fleet.arrivals.serves_from[number] = inf

    @property
    def next_s(self) -> float:
        """When it looks next."""
        return self.begin_s + 15.0 * self.looks

    def look(self, log: "list[Row]") -> None:
        """Recommend a size, and make the fleet as large."""
        now = self.next_s
        alive = [life for life in self.lives if life.asked_s == inf]
        schedulers = [self.fleet.replicas[life.number].scheduler for life in alive]
        in_flight = sum(scheduler.taken + scheduler.queued for scheduler in schedulers)
        self.history.append(self._recommended(in_flight))
        self.looks += 1
        self._resize()
        # The newest first.
        for life in alive[self.size :]:
            life.asked_s = now
            self.fleet.arrivals.serves_from[life.number] = inf
        self.bury(log)
        standing = [life for life in self.lives if life.gone_s == inf]
        missing = self.size - sum(life.asked_s == inf for life in standing)
        for number in range(self.rule.most):
            if missing > 0 and number not in [life.number for life in standing]:
                self.fleet.renew(number, now + self.rule.startup_s)
                self.lives.append(Life(number, now, now + self.rule.startup_s))
                missing -= 1

    def bury(self, log: "list[Row]") -> None:
        """Note when replicas that were asked to stop had done all they had."""
        for life in self.lives:
            if life.asked_s < inf and life.gone_s == inf and self.fleet.replicas[life.number].ends_s == inf:
                ends = [end_s for _, end_s, number, *_ in log if number == life.number]
                life.gone_s = max([life.asked_s, *ends])

    def _recommended(self, in_flight: int) -> int:
        per_replica = in_flight / self.size / self.rule.target
        within = 0.9 <= per_replica <= 1.1
        return self.size if within else ceil(in_flight / self.rule.target)

    def _resize(self) -> None:
        """Grow at once, at most to twice as many or by 4; shrink to what was the most in 300 s."""
        latest, highest = self.history[-1], max(self.history[-21:])
        size = self.size
        if latest > self.size:
            size = min(latest, max(2 * self.size, self.size + 4))
        elif highest < self.size:
            size = highest
        self.size = max(self.rule.least, min(size, self.rule.most))
