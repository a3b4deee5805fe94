"""Suites of measured runs: each run is simulated once, and every figure of it is a case.

A run is test but where its source has a fit part, to which constants are fitted in another way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.errors import SightlineError
from sightline.simulation.load import Floats, Requests
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.times import request_times
from sightline.validation.suite import Answer, Case, Result, Split, result_of

if TYPE_CHECKING:
    from sightline.prediction.generation.batch_profile import Knowledge
    from sightline.simulation.server import Server

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


Answers = Mapping[str, Sequence[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSuite:
    """One figure of all runs of a source, and what had to be decided to read them."""

    name: str
    source: str
    decisions: tuple[str, ...]
    quantity: str
    goal: str
    runs: int
    answers: Callable[[], Answers] = field(repr=False)
    """Simulates the runs; the answers of all figures."""


def serving_suites_of(log: Log) -> tuple[ServingSuite, ...]:
    """Return a suite for each figure of a log's runs; none where the data folder lacks them."""

    @cache
    def answers() -> Answers:
        return answers_of(log, log.read())

    return tuple(
        ServingSuite(
            name=f"{log.name}-{figure.replace('_s.', '-').replace('_', '-')}",
            source=log.source,
            decisions=log.decisions,
            quantity=figure,
            goal=log.goals.get(figure, ""),
            runs=log.runs,
            answers=answers,
        )
        for figure in log.figures
        if log.runs
    )


def serving_results(suite: ServingSuite) -> list[Result]:
    """Return the errors of a suite's parts."""
    answers = suite.answers()[suite.quantity]
    by_split = {split: [answer for answer in answers if answer.case.split == split] for split in get_args(Split)}
    return [result_of(suite.name, suite.quantity, split, part, "serving") for split, part in by_split.items() if part]


def answers_of(log: Log, runs: Sequence[MeasuredRun]) -> Answers:
    """Return the answers of every figure of a log's runs."""
    found: dict[str, list[Answer]] = {figure: [] for figure in log.figures}
    for run in runs:
        try:
            server, outcomes = _served(run)
        except SightlineError as error:
            for figure in log.figures:
                found[figure].append(Answer(case=_case(run, figure), reason=str(error)))
            continue
        for figure in log.figures:
            found[figure].append(_answer(run, figure, server, outcomes))
    return found


def _answer(run: MeasuredRun, figure: str, server: "Server", outcomes: Sequence[Outcome]) -> Answer:
    from sightline.simulation.simulate import joined_interval

    values = [served_figure(figure, run, of.requests, of.first_token_s, of.last_token_s) for of in outcomes]
    case = _case(run, figure)
    if not np.isfinite(values).all():
        return Answer(case=case, reason="the engine refuses requests")
    value, *ends = values
    if not ends:
        return Answer(case=case, predicted=value)
    before_queue = server.before_queue(figure.split(".", maxsplit=1)[0], value)
    low, high = joined_interval(value, (value, value), (ends[0], ends[1]), before_queue)
    return Answer(case=case, predicted=value, interval=(low, value if high is None else high))


def _case(run: MeasuredRun, figure: str) -> Case:
    scenario = {"name": run.name, **run.scenario}
    return Case(scenario=scenario, measured=measured_figure(figure, run), split=run.split)


def _served(run: MeasuredRun) -> "tuple[Server, list[Outcome]]":
    """What becomes of the requests, and the same at the fast and the slow end of the iteration times."""
    from sightline.loading.serving import serving_from_mapping
    from sightline.simulation.server import server_of

    scenario = serving_from_mapping(run.scenario)
    server = server_of(scenario, run.known, [run.requests]).with_kv_tokens(run.kv_tokens)
    factors = ((1.0, 1.0), *server.end_factors)
    return server, [server.serve(scenario, [run.requests], each) for each in factors]
