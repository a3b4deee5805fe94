"""Loads that are drawn: requests of stated lengths, alone or in conversations."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sightline.scenario import GenerationPlan, RequestShape, Serve, Sessions
from sightline.scenario.lengths import Lengths
from sightline.simulation.load.arrivals import Arrivals, every_part
from sightline.simulation.requests import Integers, Requests, joined

ARRIVALS, PROMPTS, OUTPUTS, TURNS, PREFIXES, ADAPTERS = range(6)
"""Streams of random numbers: each has its own, so that a change of one leaves the others as they are."""

CONVERSATIONS = 4096
"""Conversations that are drawn at once."""
LONGEST = 10**12
"""More than any length."""


def stream(seed: int, of: int) -> np.random.Generator:
    """Return the random numbers of a load for one purpose."""
    return np.random.default_rng((seed, of))


def drawn_parts(workload: Serve, plan: GenerationPlan, part: int) -> Iterator[Requests]:
    """Yield the requests of a workload without a trace, in parts of ``part`` requests."""
    shape = workload.requests
    if shape is None:
        return
    sessions = workload.sessions
    source = _Single(workload, shape) if sessions is None else _Sessions(workload, shape, sessions)
    adapters = Adapters(workload.seed, plan)
    for count in every_part(shape.count, part):
        yield adapters.chosen(source.next(count))


class Drawn:
    """Whole numbers of one kind, drawn in as many calls as one likes."""

    def __init__(self, lengths: int | Lengths, random: np.random.Generator) -> None:
        """Draw from lengths; a number is always that one."""
        self._lengths = lengths
        self._random = random

    @property
    def mean(self) -> float:
        """Their mean, of a thousand quantiles."""
        if isinstance(self._lengths, Lengths):
            return float(self._lengths.drawn(LONGEST).mean())
        return float(self._lengths)

    def next(self, count: int) -> Integers:
        """Return so many further numbers."""
        if isinstance(self._lengths, Lengths):
            return self._lengths.sampled(self._random, count).astype(np.int64)
        return np.full(count, self._lengths)


class Adapters:
    """Which adapter each request asks for."""

    def __init__(self, seed: int, plan: GenerationPlan) -> None:
        """Choose among the adapters of a plan."""
        self._count = 0 if plan.lora_adapters is None else plan.lora_adapters.count
        self._random = stream(seed, ADAPTERS)

    def chosen(self, requests: Requests) -> Requests:
        """Return requests that ask for adapters, all as often as each other; as they are where there are none.

        A conversation keeps its adapter. What an adapter computed of a prefix, no other can use.
        """
        if not self._count:
            return requests
        adapter = (self._random.random(len(requests)) * self._count).astype(np.int64)
        session, prefix = requests.session_id, requests.prefix_id
        adapter = np.where(session < 0, adapter, session % self._count)
        return replace(
            requests, adapter=adapter, prefix_id=np.where(prefix < 0, prefix, prefix * self._count + adapter)
        )


class _Single:
    """Requests that have nothing to do with each other."""

    def __init__(self, workload: Serve, shape: RequestShape) -> None:
        self._prompts = Drawn(shape.prompt_tokens, stream(workload.seed, PROMPTS))
        self._outputs = Drawn(shape.output_tokens, stream(workload.seed, OUTPUTS))
        self._arrivals = Arrivals(workload.arrival, stream(workload.seed, ARRIVALS))
        self._think_s = workload.arrival.think_time_s

    def next(self, count: int) -> Requests:
        """Return so many further requests."""
        return Requests(
            arrival_s=self._arrivals.next(count),
            prompt_tokens=self._prompts.next(count),
            output_tokens=self._outputs.next(count),
            think_s=np.full(count, self._think_s),
        )


class _Sessions:
    """Turns of conversations: those of one follow each other, and all have the arrival of the first.

    The rate of the load is that of requests, so that conversations begin at that rate over their mean turns.
    """

    def __init__(self, workload: Serve, shape: RequestShape, sessions: Sessions) -> None:
        self._sessions = sessions
        self._turns = Drawn(sessions.turns, stream(workload.seed, TURNS))
        self._prompts = Drawn(shape.prompt_tokens, stream(workload.seed, PROMPTS))
        self._outputs = Drawn(shape.output_tokens, stream(workload.seed, OUTPUTS))
        self._prefixes = stream(workload.seed, PREFIXES)
        self._arrivals = Arrivals(workload.arrival, stream(workload.seed, ARRIVALS), self._turns.mean)
        self._think_s = workload.arrival.think_time_s
        self._closed = workload.arrival.process == "closed"
        self._begun = 0
        self._ready: list[Requests] = []

    def next(self, count: int) -> Requests:
        """Return so many further turns."""
        while sum(map(len, self._ready)) < count:
            self._ready.append(self._conversations(CONVERSATIONS))
        ready = joined(self._ready)
        self._ready = [ready[count:]]
        return ready[:count]

    def _conversations(self, count: int) -> Requests:
        """So many further conversations, all their turns."""
        turns = self._turns.next(count)
        session = np.repeat(np.arange(count), turns)
        first = np.repeat(np.cumsum(turns) - turns, turns)
        outputs = self._outputs.next(session.size)
        # A prompt begins with the prefix and with all that was said before.
        said = np.cumsum(self._prompts.next(session.size) + outputs)
        before = (said - outputs) - np.concatenate([[0], said])[first]
        prefix = (self._prefixes.random(count) * self._sessions.prefixes).astype(np.int64)
        shared = np.full(session.size, self._sessions.prefix_tokens)
        thinks = self._closed | (np.arange(session.size) > first)
        self._begun += count
        return Requests(
            arrival_s=self._arrivals.next(count)[session],
            prompt_tokens=before + shared,
            output_tokens=outputs,
            prefix_id=prefix[session] if self._sessions.prefix_tokens else np.full(session.size, -1),
            prefix_tokens=shared,
            session_id=session + self._begun - count,
            think_s=np.where(thinks, self._think_s, 0.0),
        )
