"""Serving: requests that arrive over time, answered by an engine on a cluster."""

from dataclasses import dataclass
from math import prod
from typing import Annotated, ClassVar, Literal

from sightline.content import description
from sightline.quantities import RATE, SECONDS
from sightline.scenario.cluster import Question
from sightline.scenario.generation import GenerationPlan, Sampling
from sightline.scenario.lengths import Lengths
from sightline.scenario.model import Model
from sightline.validators import Key, anything, percentage, quantity, share, text, tokens, whole

Process = Literal["trace", "poisson", "gamma", "constant", "closed", "all_at_once"]
"""When requests arrive; ``trace`` means at the times of the trace."""


@description
class RequestShape:
    """How many requests there are, and how long."""

    count: Annotated[int, Key(whole(), needs="requests of the whole load, a whole number of 1 or more")]
    """Requests of the whole load; with sessions each turn is one."""
    prompt_tokens: Annotated[int | Lengths, Key(anything, needs="tokens of each prompt: a number or a distribution")]
    """Tokens of each prompt; with sessions the new tokens of each turn."""
    output_tokens: Annotated[int | Lengths, Key(anything, needs="tokens of each answer: a number or a distribution")]
    """Tokens of each answer."""


@description
class Arrival:
    """When requests arrive."""

    process: Process = "all_at_once"
    """poisson, gamma, constant (open: they do not wait for answers), closed (each of ``concurrency`` clients sends when
    its last request is answered), all_at_once, trace (the times of the trace). Left out: what other keys imply."""
    rate: Annotated[float | None, quantity(RATE)] = None
    """Requests per second in the long run; with a trace and its own times: these are scaled to that mean rate."""
    cv: Annotated[float, quantity(RATE)] = 1.0
    """Of gamma: standard deviation of the gaps over their mean; 1 is a Poisson process, more comes in bursts."""
    concurrency: Annotated[int | None, whole()] = None
    """Of closed: clients, each with one conversation at a time. With a rate or a trace's times: requests in flight at
    most; each waits for a place before it is sent, and its latency counts from then, as
    `vllm bench serve --max-concurrency` sends and counts (vLLM 0.11, benchmarks/serve.py)."""
    think_time_s: Annotated[float, Key(quantity(SECONDS, zero=True), "think_time")] = 0.0
    """Constant seconds that a client or a conversation waits after an answer."""
    ramp_up_s: Annotated[float, Key(quantity(SECONDS, zero=True), "ramp_up")] = 0.0
    """Of closed: seconds over which the clients begin, evenly one after the other; 0: all at once."""
    ramp: Annotated[tuple[tuple[float, float], ...], anything] = ()
    """Instead of ``rate``: stages [seconds, requests per second], one after the other, such as [[60, 2], [60, 8]]; the
    last goes on. Where the first is 0 seconds, they are the times at which the rates begin."""

    @property
    def is_capped(self) -> bool:
        """Whether requests that arrive wait for a place among those in flight."""
        return self.concurrency is not None and self.process != "closed"


@description
class Sessions:
    """Conversations: each turn's prompt begins with all that was said before."""

    turns: Annotated[int | Lengths, Key(anything, needs="turns of each conversation: a number or a distribution")] = 1
    """Turns of each conversation."""
    prefix_tokens: Annotated[int, tokens(0)] = 0
    """Tokens that conversations begin with and share, such as a system prompt; they come before the first turn's."""
    prefixes: Annotated[int, whole()] = 1
    """How many different ones of those there are; a conversation has one of them, chosen evenly."""
    calls: Annotated[int | Lengths, anything] = 1
    """Calls of each turn: of an agent that goes on with what a tool answered, one after the other."""
    tool_tokens: Annotated[int | Lengths, anything] = 1
    """Of agents: new tokens of each further call of a turn, the tool's answer."""
    tool_time_s: Annotated[float | Lengths, Key(anything, "tool_time")] = 0.0
    """Of agents: seconds that a tool takes between two calls: a number or a distribution."""
    context_tokens: Annotated[int | None, tokens()] = None
    """Longest prompt with its answer, by default the model's; before a longer one all that was said behind the prefix
    becomes a summary."""
    summary_tokens: Annotated[int, tokens(0)] = 0
    """Tokens of that summary."""
    agents: Annotated[int, whole()] = 1
    """Agents that begin together and have the same prefix, each with turns of its own."""

    @property
    def requests(self) -> float:
        """The mean number of requests of a conversation, of all its agents."""
        counts = (of if isinstance(of, int) else of.drawn(LONGEST).mean() for of in (self.turns, self.calls))
        return float(prod(counts)) * self.agents


LONGEST = 10**12
"""More than any length."""


LIMITED = ("ttft_s", "tpot_s", "latency_s")
"""Times of a request that may be limited, by result key."""


@description
class SloClass:
    """Requests with limits of their own, such as chats beside batches."""

    name: Annotated[str, Key(text, needs="the name of the class")]
    """What results call it."""
    share: Annotated[float, Key(share, needs="its share of the requests; all are 1")]
    """Its share of the requests, drawn at random; of a trace with ``priority``, its requests are those of its own."""
    priority: Annotated[int, whole(0)] = 0
    """Smaller goes first with `plan.scheduler: priority`."""
    ttft_s: Annotated[float | None, Key(quantity(SECONDS), "ttft")] = None
    """Instead of the objective's."""
    tpot_s: Annotated[float | None, Key(quantity(SECONDS), "tpot")] = None
    """Instead of the objective's."""
    latency_s: Annotated[float | None, Key(quantity(SECONDS), "latency")] = None
    """Instead of the objective's."""


@description
class Slo:
    """What a user is promised; a limit that is None promises nothing."""

    ttft_s: Annotated[float | None, Key(quantity(SECONDS), "ttft")] = None
    """Seconds from a request's arrival to its first token."""
    tpot_s: Annotated[float | None, Key(quantity(SECONDS), "tpot")] = None
    """Mean seconds per token after the first."""
    latency_s: Annotated[float | None, Key(quantity(SECONDS), "latency")] = None
    """Seconds from a request's arrival to its last token."""
    percentile: Annotated[float, percentage] = 90.0
    """Percent of the requests, or of those of each class, that must keep every limit."""
    classes: Annotated[tuple[SloClass, ...], anything] = ()
    """Classes of requests: a list of name, share, priority (default: 0), and ttft, tpot or latency of their own."""

    @property
    def of_classes(self) -> tuple[dict[str, float], ...]:
        """The limits of each class in seconds, by result key; without classes those of all requests."""
        return tuple({**_limits(self), **_limits(each)} for each in self.classes or (self,))

    @property
    def limits(self) -> dict[str, float]:
        """The limits in seconds, by result key; of several classes the loosest of those that all have."""
        each = self.of_classes
        return {key: max(of[key] for of in each) for key in LIMITED if all(key in of for of in each)}


def _limits(of: SloClass | Slo) -> dict[str, float]:
    """The limits that are stated."""
    return {key: limit for key in LIMITED if (limit := getattr(of, key)) is not None}


MOST_PLAIN_S = {"ttft_s": 60.0, "tpot_s": 1.0, "latency_s": 3600.0}
"""By result, the seconds up to which a limit without a unit is meant: no service promises more."""


@description
class Serve:
    """A load: requests of stated shapes, or those of a trace."""

    task: ClassVar[str] = "serve"
    requests: Annotated[RequestShape | None, anything] = None
    """How many requests there are, and how long; left out where a trace states them."""
    trace: Annotated[str | None, text] = None
    """Instead of ``requests``: a file of requests, relative to the scenario's."""
    arrival: Annotated[Arrival, anything] = Arrival()
    """When requests arrive; default: at the times of the trace, else all at once."""
    sessions: Annotated[Sessions | None, anything] = None
    """Conversations instead of single requests."""
    slo: Annotated[Slo | None, anything] = None
    """Upper limits that a share of the requests must keep."""
    timeout_s: Annotated[float | None, Key(quantity(SECONDS), "timeout")] = None
    """Seconds after which a client gives a request up: the engine frees it, and it counts as refused."""
    sampling: Annotated[Sampling | None, anything] = None
    """How tokens are drawn; default: greedy."""
    seed: Annotated[int, whole(0)] = 0
    """Random seed; the same seed gives the same load."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingScenario(Question):
    """A question about serving, fully resolved."""

    model: Model
    workload: Serve
    plan: GenerationPlan
