"""Serving: requests that arrive over time, answered by an engine on a cluster."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from sightline.content import description
from sightline.scenario.cluster import Question
from sightline.scenario.generation import GenerationPlan
from sightline.scenario.lengths import Lengths
from sightline.scenario.model import Model

Process = Literal["trace", "poisson", "gamma", "constant", "closed", "all_at_once"]
"""When requests arrive; ``trace`` means at the times of the trace."""


@description
class RequestShape:
    """How many requests there are, and how long."""

    count: int
    """Requests of the whole load; with sessions each turn is one."""
    prompt_tokens: int | Lengths
    """Of each prompt; with sessions the new tokens of each turn."""
    output_tokens: int | Lengths


@description
class Arrival:
    """When requests arrive."""

    process: Process = "all_at_once"
    rate: float | None = None
    """Requests per second in the long run. Of a trace: its times are scaled to this mean rate; None keeps them."""
    cv: float = 1.0
    """Standard deviation of the gaps over their mean (gamma); 1 is a Poisson process, more comes in bursts."""
    concurrency: int | None = None
    """Clients of a closed loop: each sends its next request when its last is answered."""
    think_time_s: float = 0.0
    """Seconds that a client of a closed loop, or a session between its turns, waits after an answer."""
    ramp_up_s: float = 0.0
    """Seconds over which clients of a closed loop begin, evenly one after the other."""
    ramp: tuple[tuple[float, float], ...] = ()
    """Rates that change: from so many seconds on, so many requests per second; the first begins at 0 and the last goes
    on. Empty: ``rate`` all the time."""


@description
class Sessions:
    """Conversations: each turn's prompt begins with all that was said before."""

    turns: int | Lengths = 1
    """Of each conversation."""
    prefix_tokens: int = 0
    """Tokens that conversations begin with and share, such as a system prompt; they come before the first turn's."""
    prefixes: int = 1
    """Different ones of those; a conversation has one of them, chosen evenly."""


@description
class Slo:
    """What a user is promised; a limit that is None promises nothing."""

    ttft_s: float | None = None
    """Seconds from a request's arrival to its first token."""
    tpot_s: float | None = None
    """Mean seconds per token after the first."""
    latency_s: float | None = None
    """Seconds from a request's arrival to its last token."""
    percentile: float = 90.0
    """Percent of the requests that must keep every limit."""


@description
class Serve:
    """A load: requests of stated shapes, or those of a trace."""

    task: ClassVar[str] = "serve"
    requests: RequestShape | None = None
    """None where a trace states them."""
    trace: str | None = None
    """Path of a file of requests."""
    arrival: Arrival = Arrival()
    sessions: Sessions | None = None
    slo: Slo | None = None
    seed: int = 0
    """Of everything that is drawn; the same seed gives the same load."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServingScenario(Question):
    """A question about serving, fully resolved."""

    model: Model
    workload: Serve
    plan: GenerationPlan
