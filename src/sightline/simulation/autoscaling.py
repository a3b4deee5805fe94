"""Autoscaling: starts and stops replicas with the load, by the rules of Kubernetes' Horizontal Pod Autoscaler."""

from collections import deque
from dataclasses import dataclass, fields
from math import ceil
from typing import Final, NamedTuple

import numpy as np

from sightline.simulation.engine.state import NEXT, READY, RUNNING, SERVES_FROM, STARTED, WAITING, Facts, Replica, renew
from sightline.simulation.outcome import Lifetimes

SYNC_S: Final = 15.0
"""Seconds between two looks at the load (--horizontal-pod-autoscaler-sync-period)."""
TOLERANCE: Final = 0.1
"""Relative distance from the target within which nothing changes (--horizontal-pod-autoscaler-tolerance)."""
WINDOW_S: Final = 300.0
"""Seconds for which the highest recommendation holds (--horizontal-pod-autoscaler-downscale-stabilization)."""
MOST_AT_ONCE: Final = (2, 4)
"""From one look to the next replicas become at most so many times as many, or so many more, whichever is more."""
CONCURRENCY: Final = 100
"""Requests in flight that a replica is meant for (Knative: container-concurrency-target-default), unless its engine
runs fewer."""
UTILIZATION: Final = 0.7
"""Share of them from which on further replicas are asked for (Knative: container-concurrency-target-percentage)."""


class Scaling(NamedTuple):
    """Bounds and target of an autoscaled deployment."""

    least: int
    most: int
    startup_s: float
    """From the decision until a new replica takes requests."""
    target: float
    """Requests, waiting or running, that each replica should have."""


def usual_target(max_sequences: int) -> float:
    """Return the default target of requests in flight per replica, as Knative sets it."""
    return UTILIZATION * min(CONCURRENCY, max_sequences)


@dataclass(slots=True)
class _Lifetime:
    """One replica, from the request for it to its end."""

    place: int
    started_s: float
    serves_s: float
    asked_to_stop_s: float = np.inf
    stopped_s: float = np.inf


class Autoscaler:
    """Looks at a fleet every `SYNC_S`, and starts and stops its replicas."""

    def __init__(self, rule: Scaling, fleet: Replica, facts: Facts, begin_s: float) -> None:
        """Begin with the least replicas, ready; the first look is `SYNC_S` after ``begin_s``."""
        self._rule, self._fleet, self._facts, self._begin_s = rule, fleet, facts, begin_s
        self._looks = 0
        self._wanted = rule.least
        self._recommended = deque([rule.least], maxlen=1 + int(WINDOW_S / SYNC_S))
        """Those of the window, the latest one included."""
        self._all = [_Lifetime(place, -np.inf, -np.inf) for place in range(rule.least)]
        self._there = list(self._all)
        """Replicas that take requests or will, in the order in which they were started."""
        self._stopping: list[_Lifetime] = []
        fleet.clocks[rule.least :, SERVES_FROM] = np.inf

    @property
    def next_s(self) -> float:
        """When it looks at the fleet next."""
        return self._begin_s + (self._looks + 1) * SYNC_S

    def look(self) -> None:
        """Start and stop replicas by the load that there is at `next_s`."""
        now = self.next_s
        self._looks += 1
        self._wanted = self._recommendation()
        for replica in self._there[self._wanted :]:
            self._stop(replica, now)
        del self._there[self._wanted :]
        self._let_go()
        # What is being stopped keeps its devices until it is done.
        taken = {replica.place for replica in (*self._there, *self._stopping)}
        free = [place for place in range(self._rule.most) if place not in taken]
        for place in free[: self._wanted - len(self._there)]:
            self._start(place, now)

    def _recommendation(self) -> int:
        """Replicas for the requests in flight, within what may change at once."""
        rule, now, requests = self._rule, self._wanted, self._requests()
        ratio = requests / (rule.target * now)
        wanted = now if 1.0 - TOLERANCE <= ratio <= 1.0 + TOLERANCE else ceil(requests / rule.target)
        self._recommended.append(wanted)
        highest = min(max(self._recommended), now)
        times, more = MOST_AT_ONCE
        return min(max(wanted, highest, rule.least), max(times * now, now + more), rule.most)

    def _requests(self) -> int:
        """Requests of the replicas that take any."""
        places = [replica.place for replica in self._there]
        return int(self._fleet.counts[places][:, [RUNNING, WAITING, READY]].sum())

    def _start(self, place: int, now: float) -> None:
        renew(self._fleet, place, self._facts)
        replica = _Lifetime(place, now, now + self._rule.startup_s)
        self._fleet.clocks[place, SERVES_FROM] = replica.serves_s
        self._there.append(replica)
        self._all.append(replica)

    def _stop(self, replica: _Lifetime, now: float) -> None:
        replica.asked_to_stop_s = now
        self._fleet.clocks[replica.place, SERVES_FROM] = np.inf
        self._stopping.append(replica)

    def _let_go(self) -> None:
        """Note which replicas have finished what they had, and since when."""
        for replica in self._stopping:
            if self._fleet.clocks[replica.place, NEXT] == np.inf:
                # An idle replica last began when it found nothing to do.
                replica.stopped_s = max(replica.asked_to_stop_s, float(self._fleet.clocks[replica.place, STARTED]))
        self._stopping = [replica for replica in self._stopping if replica.stopped_s == np.inf]

    def lifetimes(self, later_s: float) -> Lifetimes:
        """Return all replicas so far, their times later by what precedes the engine's queue."""
        self._let_go()
        columns = {f.name: np.array([getattr(one, f.name) for one in self._all]) for f in fields(_Lifetime)}
        places = columns.pop("place")
        return Lifetimes(replica=places, **{name: times_s + later_s for name, times_s in columns.items()})
