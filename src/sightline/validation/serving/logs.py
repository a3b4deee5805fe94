"""What a log of a server under load says: the scenario, the requests as they were sent, and when their tokens came."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.simulation.requests import Floats, Requests
from sightline.simulation.results.request_times import request_times
from sightline.validation.suite import Split

if TYPE_CHECKING:
    from sightline.prediction.generation.predict import Knowledge

RATE = "requests_per_s"
"""The figure of all that were answered, in place of a time of each."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRun:
    """One run of a real server."""

    name: str
    scenario: Mapping[str, Any]
    """As a scenario file would hold it; its load is that of ``requests``."""
    kv_tokens: int | None = None
    """Capacity of the server's KV cache, where the source states it."""
    requests: Requests
    """In order of arrival."""
    first_token_s: Floats = field(default_factory=lambda: np.zeros(0))
    """NaN where a request failed; empty where the source states figures only."""
    last_token_s: Floats = field(default_factory=lambda: np.zeros(0))
    stated: Mapping[str, float] = field(default_factory=dict)
    """Figures as the source states them."""
    counted: NDArray[np.bool_]
    """Requests that times are of: not the first ones, which a cold server answers, and none that failed."""
    until_s: float = inf
    """When the first client gave up, up to which answers are counted: a simulation goes on with what it asked for."""
    known: "Knowledge | None" = field(default=None, repr=False)
    """What another load taught about the server."""
    split: Split = "test"
    """The part of its source that the run is of: constants are fitted to no run but those of the fit part."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Log:
    """Runs of one source."""

    name: str
    source: str
    decisions: tuple[str, ...]
    figures: Sequence[str]
    """What is compared: a time of requests and a figure of it, as ``ttft_s.p50``, or ``RATE``."""
    goals: Mapping[str, str]
    """What the project set itself, by figure."""
    devices: Sequence[str]
    """The kind of each run's devices."""
    read: Callable[[], Sequence[MeasuredRun]] = field(repr=False)

    @property
    def runs(self) -> int:
        """How many there are."""
        return len(self.devices)


def measured_figure(name: str, run: MeasuredRun) -> float:
    """Return a figure of a run as it was stated, or of its log."""
    if name in run.stated:
        return run.stated[name]
    return served_figure(name, run, run.requests, run.first_token_s, run.last_token_s)


def served_figure(name: str, run: MeasuredRun, requests: Requests, first_s: Floats, last_s: Floats) -> float:
    """Return a figure of a run, or of what a simulation makes of its requests."""
    if name == RATE:
        return answered_per_s(last_s, run.until_s)
    return figure_of(name, requests, first_s, last_s, run.counted)


def answered_per_s(last_s: Floats, until_s: float = inf) -> float:
    """Return the requests that were answered up to a moment per second, from the load's begin to the last of them."""
    ended_s = last_s[last_s <= until_s]
    return float(ended_s.size / ended_s.max()) if ended_s.size else 0.0


def figure_of(name: str, requests: Requests, first_s: Floats, last_s: Floats, counted: NDArray[np.bool_]) -> float:
    """Return a figure of the counted requests: ``ttft_s``, ``tpot_s`` or ``latency_s``, their mean or a percentile."""
    quantity, figure = name.split(".")
    output = requests.output_tokens
    times = request_times(requests.arrival_s, first_s, last_s, output)[quantity]
    # Answers of one token have no time per further token; of refused requests there is no figure.
    times = times[counted & (output > 1) if quantity == "tpot_s" else counted]
    return float(times.mean() if figure == "mean" else np.quantile(times, float(figure.removeprefix("p")) / 100.0))
