"""Loads: the requests of a serving scenario, drawn or read from a trace, in parts that fit in memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.loading.sources import stated_path
from sightline.loading.traces import Columns, Trace, open_trace
from sightline.loading.traces.documents import OnRemark
from sightline.scenario import Arrival, GenerationPlan, RequestShape, Serve, ServingScenario, Sessions
from sightline.scenario.lengths import Lengths

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def _none() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """A part of a load, sorted by arrival; every column has one entry per request.

    A load is an iterable of such parts, each as long as its maker likes, so that a trace need not fit in memory.
    """

    arrival_s: Floats
    """Seconds from the load's begin. In a closed loop: the earliest that the client would send it."""
    prompt_tokens: Integers
    """Tokens of the whole prompt, shared ones included."""
    output_tokens: Integers
    prefix_id: Integers = field(default_factory=_none)
    """Requests of one number begin with the same tokens; -1: with tokens of their own. Empty: all are -1."""
    prefix_tokens: Integers = field(default_factory=_none)
    """How many of the prompt's first tokens that are."""
    session_id: Integers = field(default_factory=_none)
    """Turns of one conversation, in order: each prompt begins with the previous turn's prompt and answer. -1: none."""
    transcript: Integers = field(default_factory=_none)
    """Which transcript of its conversation a turn goes on with: behind the shared prefix, only turns of the same number
    begin alike."""
    think_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Of a turn: seconds between the end of the previous answer and this prompt; ``arrival_s`` is then the earliest."""
    priority: Integers = field(default_factory=_none)
    """Smaller goes first where the engine schedules by priority."""
    adapter: Integers = field(default_factory=_none)
    """Which LoRA adapter answers; -1: the model alone."""
    slo_class: Integers = field(default_factory=_none)
    """The number of its class in the objective."""

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    def __post_init__(self) -> None:
        """Fill columns that were left out."""
        n = self.arrival_s.size
        for name, neutral in _NEUTRAL.items():
            if getattr(self, name).size != n:
                object.__setattr__(self, name, np.full(n, neutral, np.float64 if name == "think_s" else np.int64))

    def __getitem__(self, rows: "slice | Integers") -> "Requests":
        """Some of the requests."""
        return Requests(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})


_NEUTRAL = {"prefix_id": -1, "session_id": -1, "adapter": -1, "think_s": 0.0}
_NEUTRAL |= dict.fromkeys(("prefix_tokens", "transcript", "priority", "slo_class"), 0)


def joined(parts: Sequence[Requests]) -> Requests:
    """Return parts as one."""
    if len(parts) == 1:
        return parts[0]
    return Requests(**{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Requests)})


MOST = 1 << 20
"""Requests that a mean is of at most: more hardly change it."""


class MeanLengths(NamedTuple):
    """Means over the requests of a load, as they are sent: the prompt of a later turn begins with the earlier ones."""

    prompt_tokens: float = 1.0
    output_tokens: float = 1.0
    prefix_tokens: float = 0.0
    """At the beginning of a prompt, that others have too, or the request before in its conversation."""
    requests_per_s: float = 0.0
    """Arrivals per second between the first and the last one; 0 where all come at once."""
    longest_prompt: int = 1
    """Tokens of the longest prompt."""
    turns: float = 1.0
    """Requests of a conversation; 1 where each is one of its own."""
    pause_s: float = 0.0
    """Seconds between an answer and the next request of its conversation or client, in which the first counts as 0."""

    def talking(self, rate: float, latency_s: float) -> float:
        """Return the requests of conversations in progress: a rate times how long one lasts; 0 where there are none."""
        return rate * self.turns * (latency_s + self.pause_s) if self.turns > 1.0 else 0.0


def mean_lengths(load: Iterable[Requests]) -> MeanLengths:
    """Return the mean lengths of a load; of a long load only the beginning counts, an empty one has one token each."""
    count, prompt, output, prefix, longest, begun, first_s, last_s, pause_s = 0, 0, 0, 0, 1, 0, 0.0, 0.0, 0.0
    for part in load:
        if not len(part):
            continue
        first_s = first_s if count else float(part.arrival_s[0])
        count += len(part)
        prompt += int(part.prompt_tokens.sum())
        output += int(part.output_tokens.sum())
        longest = max(longest, int(part.prompt_tokens.max()))
        alone = part.session_id < 0
        begun += int(alone.sum()) + len(np.unique(part.session_id[~alone]))
        prefix += int(_known_tokens(part).sum())
        pause_s += float(part.think_s.sum())
        last_s = float(part.arrival_s[-1])
        if count >= MOST:
            break
    if not count:
        return MeanLengths()
    rate = (count - 1) / (last_s - first_s) if last_s > first_s else 0.0
    mean = max(prompt / count, 1.0), max(output / count, 1.0), prefix / count
    return MeanLengths(*mean, rate, longest, count / begun, pause_s / count)


def _known_tokens(part: Requests) -> Integers:
    """The tokens of each prompt that its shared prefix has, or what was said before it in its transcript."""
    order = np.argsort(part.session_id, kind="stable")
    session, transcript = part.session_id[order], part.transcript[order]
    follows = (session[1:] == session[:-1]) & (transcript[1:] == transcript[:-1]) & (session[1:] >= 0)
    before, known = order[:-1][follows], part.prefix_tokens.copy()
    known[order[1:][follows]] = part.prompt_tokens[before] + part.output_tokens[before]
    return np.minimum(np.maximum(known, part.prefix_tokens), part.prompt_tokens - 1)


class Arrivals:
    """Draws the arrival times of one load, in any number of calls."""

    def __init__(self, arrival: Arrival, random: "np.random.Generator", requests: float = 1.0) -> None:
        """Begin at 0 seconds; each arrival brings so many ``requests`` in the mean."""
        self._requests = requests
        self._arrival = arrival
        self._random = random
        self._passed = 0.0
        self._curve = _Curve(arrival)

    def next(self, count: int) -> Floats:
        """Return the arrival of so many further requests in seconds, rising.

        The gaps of a process have a mean of 1 and become seconds by the rate, so that at another rate the same load
        comes faster. The first request of a Poisson or gamma process comes after a gap, of a constant one at 0.
        """
        if self._arrival.process in ("closed", "all_at_once", "trace"):
            return np.zeros(count)
        gaps = self._gaps(count)
        gaps[:1] += self._passed
        passed = np.cumsum(gaps)
        self._passed = float(passed[-1]) if count else self._passed
        return self._curve.seconds(self._requests * (passed - (self._arrival.process == "constant")))

    def _gaps(self, count: int) -> Floats:
        """Gaps with a mean of 1."""
        match self._arrival.process:
            case "constant":
                return np.ones(count)
            case "gamma":
                shape = 1.0 / self._arrival.cv**2
                return self._random.standard_gamma(shape, count) / shape
        return self._random.standard_exponential(count)


class _Curve:
    """The times until which so many requests are expected.

    A process whose rate changes is one of rate 1 in another time (Cinlar 1975, Introduction to Stochastic Processes,
    section 4.7).
    """

    def __init__(self, arrival: Arrival) -> None:
        stages = arrival.ramp or ((0.0, arrival.rate or 1.0),)
        self._begins = np.array([begin for begin, _ in stages])
        self._rates = np.array([rate for _, rate in stages])
        lengths = np.diff(self._begins)
        self._expected = np.concatenate([[0.0], np.cumsum(lengths * self._rates[:-1])])

    def seconds(self, expected: Floats) -> Floats:
        """Return the times until which so many requests are expected."""
        # Of stages without requests the last that begins with as many expected is meant: it is the one that goes on.
        stage = np.searchsorted(self._expected, expected, side="right") - 1
        return np.asarray(self._begins[stage] + (expected - self._expected[stage]) / self._rates[stage])


ARRIVALS, PROMPTS, OUTPUTS, TURNS, PREFIXES, ADAPTERS, CALLS, TOOLS, PAUSES, CLASSES = range(10)
"""Streams of random numbers: each has its own, so that a change of one leaves the others as they are."""

CONVERSATIONS = 4096
"""Conversations that are drawn at once."""
GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""The golden ratio, whose multiples are spread evenly."""


def stream(seed: int, of: int) -> "np.random.Generator":
    """Return the random generator of a load for one purpose."""
    return np.random.default_rng((seed, of))


def drawn_parts(workload: Serve, plan: GenerationPlan, part: int, context_tokens: int) -> Iterator[Requests]:
    """Yield the requests of a workload without a trace, in parts of ``part`` requests.

    Conversations are no longer than ``context_tokens``, unless they state something else.
    """
    shape, sessions = workload.requests, workload.sessions
    if shape is None:
        return
    if sessions is None:
        source: _Single | _Sessions = _Single(workload, shape)
    else:
        source = _Sessions(workload, shape, sessions, sessions.context_tokens or context_tokens)
    adapters, classes = Adapters(workload.seed, plan), Classes(workload)
    for begin in range(0, shape.count, part):
        yield classes.chosen(adapters.chosen(source.next(min(part, shape.count - begin))))


class Drawn:
    """Draws lengths of one kind, in any number of calls."""

    def __init__(self, lengths: float | Lengths, random: "np.random.Generator") -> None:
        """Draw from lengths, or from seconds; a number is always that one."""
        self._lengths = lengths
        self._random = random

    def next(self, count: int, *, whole: bool = True) -> Any:
        """Return so many further numbers; seconds need not be ``whole``."""
        of = self._lengths
        drawn = of.sampled(self._random, count, whole=whole) if isinstance(of, Lengths) else np.full(count, of, float)
        return drawn.astype(np.int64) if whole else drawn


class Adapters:
    """Assigns a LoRA adapter to each request."""

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


class Classes:
    """Assigns each request to a class of the objective, with its priority."""

    def __init__(self, workload: Serve) -> None:
        """Choose among the classes of a workload."""
        self._classes = () if workload.slo is None else workload.slo.classes
        self._random = stream(workload.seed, CLASSES)

    def chosen(self, requests: Requests, *, stated: bool = False) -> Requests:
        """Return requests by their shares, a conversation in one class; or by priorities that are ``stated``."""
        if not self._classes:
            return requests
        priorities = np.array([each.priority for each in self._classes])
        if stated:
            own = requests.priority[:, None] == priorities
            if (others := requests.priority[~own.any(axis=1)]).size:
                known = ", ".join(map(str, priorities))
                raise InputError(f"workload.trace has priority {others[0]}; workload.slo.classes have {known}")
            return replace(requests, slo_class=own.argmax(axis=1))
        drawn = self._random.random(len(requests))
        drawn = np.where(requests.session_id < 0, drawn, requests.session_id * GOLDEN % 1.0)
        ends = np.cumsum([each.share for each in self._classes])[:-1]
        chosen = np.searchsorted(ends, drawn, side="right")
        return replace(requests, slo_class=chosen, priority=priorities[chosen])


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

    The rate of the load is that of requests, so that conversations begin at that rate over their mean turns, times the
    calls of each for agents.
    """

    def __init__(self, workload: Serve, shape: RequestShape, sessions: Sessions, context_tokens: int) -> None:
        self._sessions, self._longest = sessions, context_tokens - sessions.prefix_tokens
        self._turns = Drawn(sessions.turns, stream(workload.seed, TURNS))
        self._calls = Drawn(sessions.calls, stream(workload.seed, CALLS))
        self._tools = Drawn(sessions.tool_tokens, stream(workload.seed, TOOLS))
        self._pauses = Drawn(sessions.tool_time_s, stream(workload.seed, PAUSES))
        self._prompts = Drawn(shape.prompt_tokens, stream(workload.seed, PROMPTS))
        self._outputs = Drawn(shape.output_tokens, stream(workload.seed, OUTPUTS))
        self._prefixes = stream(workload.seed, PREFIXES)
        self._arrivals = Arrivals(workload.arrival, stream(workload.seed, ARRIVALS), sessions.requests)
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
        """So many further conversations of each agent, all their turns."""
        agents = self._sessions.agents
        turns = self._turns.next(count * agents)
        calls = self._calls.next(int(turns.sum()))
        # Of each call its agent's conversation, and whether it is the first of a turn, and of the conversation.
        session = np.repeat(np.repeat(np.arange(count * agents), turns), calls)
        asked = np.concatenate([np.arange(1), np.cumsum(calls)[:-1]])
        begun = np.concatenate([np.arange(1), np.flatnonzero(np.diff(session)) + 1])
        new, outputs = self._prompts.next(session.size), self._outputs.next(session.size)
        thinks = np.full(session.size, self._think_s)
        if asked.size < session.size:
            tool = np.delete(np.arange(session.size), asked)
            new[tool], thinks[tool] = self._tools.next(tool.size), self._pauses.next(tool.size, whole=False)
        if not self._closed:
            thinks[begun] = 0.0
        shared = self._sessions.prefix_tokens
        prompts, transcript = _said(new, outputs, begun, self._longest, self._sessions.summary_tokens)
        prefix = np.repeat((self._prefixes.random(count) * self._sessions.prefixes).astype(np.int64), agents)
        self._begun += count * agents
        return Requests(
            arrival_s=self._arrivals.next(count)[session // agents],
            prompt_tokens=prompts + shared,
            output_tokens=outputs,
            prefix_id=prefix[session] if shared else np.full(session.size, -1),
            prefix_tokens=np.full(session.size, shared),
            session_id=session + self._begun - count * agents,
            transcript=transcript,
            think_s=thinks,
        )


def _said(new: Integers, outputs: Integers, begun: Integers, longest: int, summary: int) -> tuple[Integers, Integers]:
    """The tokens of each prompt behind the shared prefix, and the number of its transcript.

    A prompt has all that was said before it; where that and its answer would be longer than ``longest``, a ``summary``
    of it. ``begun`` are the first rows of conversations.
    """
    so_far = np.cumsum(new + outputs)
    rows = np.diff(np.append(begun, new.size))
    prompts = so_far - outputs - np.repeat(np.concatenate([[0], so_far])[begun], rows)
    transcript = np.zeros(new.size, np.int64)
    for first, last in zip(begun.tolist(), (begun + rows).tolist(), strict=True):
        row = first + 1
        while (beyond := np.flatnonzero((prompts + outputs)[row:last] > longest)).size:
            row += int(beyond[0])
            prompts[row:last] += summary + new[row] - prompts[row]
            transcript[row:last] += 1
            row += 1
    return prompts, transcript


PART = 65_536
"""Requests of a part."""


def load_of(
    scenario: ServingScenario, part: int = PART, on_remark: Callable[[str], None] = lambda _: None
) -> Iterator[Requests]:
    """Yield the requests of a scenario, in order of arrival, in parts of ``part`` requests.

    The parts put together are the same whatever their size. At another rate the same random numbers are used: lengths
    are equal and gaps are scaled. ``on_remark`` takes sentences about what of a trace was left out.

    Raises:
        InputError: The trace cannot be read, or a row of it is wrong.
    """
    workload, plan = scenario.workload, scenario.plan
    if workload.trace is None:
        yield from drawn_parts(workload, plan, part, scenario.model.max_positions)
        return
    yield from replayed_parts(workload, plan, workload.trace, part, on_remark)


COLUMNS = tuple(f.name for f in fields(Requests))


def replayed_parts(
    workload: Serve, plan: GenerationPlan, path: str, part: int, on_remark: OnRemark
) -> Iterator[Requests]:
    """Yield the requests of a trace in parts of ``part`` requests; ``on_remark`` takes sentences on what was left out.

    Raises:
        InputError: The file is no trace, or a row of it is wrong.
    """
    trace = open_trace(stated_path(Path(), path))  # what is to be said of its kind is among the remarks of loading
    sent = _Sent(workload, trace)
    adapters = Adapters(workload.seed, plan)
    for requests in _evenly(map(sent.requests, trace.columns(on_remark)), part):
        yield requests if (requests.adapter >= 0).any() else adapters.chosen(requests)


class _Sent:
    """When the requests of a trace are sent."""

    def __init__(self, workload: Serve, trace: Trace) -> None:
        self._arrival = workload.arrival
        self._own_times = workload.arrival.process == "trace"
        self._arrivals = Arrivals(workload.arrival, stream(workload.seed, ARRIVALS))
        self._slower = _stretch(workload.arrival, trace) if self._own_times else 1.0
        self._classes = Classes(workload)

    def requests(self, columns: Columns) -> Requests:
        """Return the requests of some rows."""
        kept = {name: columns[name] for name in COLUMNS if name in columns}
        count = columns["prompt_tokens"].size
        if self._own_times:
            kept["arrival_s"] = self._slower * columns.get("arrival_s", np.zeros(count))
        else:
            kept["arrival_s"] = self._arrivals.next(count)
        if self._arrival.think_time_s:
            kept["think_s"] = np.full(count, self._arrival.think_time_s)
        return self._classes.chosen(Requests(**kept), stated="priority" in kept)


def _stretch(arrival: Arrival, trace: Trace) -> float:
    """What the times of a trace are multiplied by for the stated mean rate: its requests over the time they came in.

    The trace is read once for that.
    """
    if arrival.rate is None:
        return 1.0
    count, first, last = 0, 0.0, 0.0
    for columns in trace.columns():
        times = columns.get("arrival_s", np.zeros(1))
        first = first if count else float(times[0])
        last = float(times[-1])
        count += columns["prompt_tokens"].size
    if last == first:
        raise InputError(
            f"workload.arrival.rate is {arrival.rate:g}, but all requests of {trace.path} arrive at once; "
            "allowed: a trace with times, or workload.arrival.process poisson, gamma or constant"
        )
    return (count - 1) / (last - first) / arrival.rate


def _evenly(blocks: Iterable[Requests], part: int) -> Iterator[Requests]:
    """The same requests in parts of one size."""
    ready: list[Requests] = []
    for block in blocks:
        ready.append(block)
        if sum(map(len, ready)) >= part:
            whole = joined(ready)
            cut = len(whole) // part * part
            yield from (whole[begin : begin + part] for begin in range(0, cut, part))
            ready = [whole[cut:]]
    if ready and len(rest := joined(ready)):
        yield rest
