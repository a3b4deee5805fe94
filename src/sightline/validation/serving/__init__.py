"""Engines under load: real runs, request by request, beside what the simulator makes of the same requests.

Each run is simulated once, and every figure of it is a case. A run is test but where its source has a fit part, to
which constants are fitted in another way.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import SightlineError
from sightline.simulation.load import Floats, Requests
from sightline.simulation.outcome import Outcome
from sightline.simulation.results.times import request_times
from sightline.validation.cases import Answer, Case, Result, Split, results_by_split

if TYPE_CHECKING:
    from sightline.prediction.generation.batch_profile import Knowledge
    from sightline.simulation.anchoring import ServedLoad
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
    """Return a figure of a run, measured or simulated."""
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
    """One figure of all runs of a source, with the decisions made to read them."""

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
    return results_by_split(suite.name, suite.quantity, suite.answers()[suite.quantity], "serving")


def answers_of(log: Log, runs: Sequence[MeasuredRun]) -> Answers:
    """Return the answers of every figure of a log's runs."""
    answers: dict[str, list[Answer]] = {figure: [] for figure in log.figures}
    for run in runs:
        try:
            server, outcomes = _served(run)
        except SightlineError as error:
            for figure in log.figures:
                answers[figure].append(Answer(case=_case(run, figure), reason=str(error)))
            continue
        for figure in log.figures:
            answers[figure].append(_answer(run, figure, server, outcomes))
    return answers


def _answer(run: MeasuredRun, figure: str, server: "Server", outcomes: Sequence[Outcome]) -> Answer:
    from sightline.simulation.simulate import joined_interval

    values = [served_figure(figure, run, of.requests, of.first_token_s, of.last_token_s) for of in outcomes]
    case = _case(run, figure)
    if not np.isfinite(values).all():
        return Answer(case=case, reason="the engine refuses requests")
    value, *ends = values
    if not ends:
        return Answer(case=case, predicted=value)
    waiting = server.ends_beyond_iterations(figure.split(".", maxsplit=1)[0], value)
    low, high = joined_interval(value, (value, value), (ends[0], ends[1]), *waiting)
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
    paced = (server, *(server.at_pace(*factors) for factors in server.end_factors))
    return server, [each.serve(scenario, [run.requests]) for each in paced]


FIRST = 50
"""Requests of a single run that teach."""
GOALS_ON_A_RUN = {"ttft_s": "median 12 %", "tpot_s": "median 5 %", "latency_s": "median 5 %"}
"""By time; the middle of each is compared."""
GOALS_ON_REQUESTS = {"mean": "4 %", "p90": "10 %"}
"""By figure of a time."""
MEANS = ("ttft_s", "tpot_s")
ON_A_RUN = "Simulated with what the first run on the device taught, by the order of the source; that run is no case."
ON_REQUESTS = f"Simulated with what the first {FIRST} requests taught; figures are of the others."


def anchored_on_runs(log: Log) -> tuple[Log, ...]:
    """Return the runs of each device that a source has several runs on, anchored on the first of them."""
    return tuple(_of_device(log, device) for device, runs in Counter(log.devices).items() if runs > 1)


def anchored_on_requests(log: Log) -> Log:
    """Return the runs of a log, each anchored on its own first requests."""
    goals = {figure: GOALS_ON_REQUESTS.get(figure.split(".")[1], "") for figure in log.figures}
    anchored = _anchored(log, "anchored", ON_REQUESTS, goals)
    return replace(anchored, read=lambda: [_after_first(run) for run in log.read()])


def _of_device(log: Log, device: str) -> Log:
    def read() -> Sequence[MeasuredRun]:
        first, *others = (run for run, of in zip(log.read(), log.devices, strict=True) if of == device)
        return _taught(_load_of(first), others)

    devices = [of for of in log.devices if of == device]
    middles = [figure for figure in log.figures if figure.endswith((".mean", ".p50"))]
    goals = {figure: GOALS_ON_A_RUN[figure.split(".")[0]] for figure in middles}
    return replace(_anchored(log, f"anchored-{device}", ON_A_RUN, goals), devices=devices[1:], read=read)


def _anchored(log: Log, name: str, decision: str, goals: Mapping[str, str]) -> Log:
    """The same log by another name, of which the figures are compared that have goals."""
    decisions = (*log.decisions, decision)
    return replace(log, name=f"{log.name}-{name}", decisions=decisions, figures=tuple(goals), goals=goals)


def _after_first(run: MeasuredRun) -> MeasuredRun:
    (known,) = _taught(_load_of(run).of_first(FIRST), [run])
    return replace(known, counted=run.counted & (np.arange(len(run.requests)) >= FIRST))


def _taught(load: "ServedLoad", runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """The runs, with what a load taught about their servers."""
    from sightline.prediction.anchoring.anchored import learn
    from sightline.simulation.anchoring import anchor_of_load

    known = learn([anchor_of_load(load)]).requests
    return [replace(run, known=known) for run in runs]


def _load_of(run: MeasuredRun) -> "ServedLoad":
    """A run as an anchor takes it: with the times of its requests, or their means where the source has no log."""
    from sightline.loading.serving import serving_from_mapping
    from sightline.simulation.anchoring import ServedLoad

    return ServedLoad(
        name=run.name,
        scenario=serving_from_mapping(run.scenario),
        requests=run.requests,
        first_token_s=run.first_token_s,
        last_token_s=run.last_token_s,
        means={key: run.stated[f"{key}.mean"] for key in MEANS if f"{key}.mean" in run.stated},
        kv_tokens=run.kv_tokens,
    )


def serving_suites(data: Path | str | None) -> tuple[ServingSuite, ...]:
    """Return the suites of engines under load that a data folder has logs for; none without one."""
    if data is None:
        return ()
    runs, figures, rtx4090, *others = serving_logs(data)
    anchored = (*anchored_on_runs(runs), *anchored_on_runs(figures), anchored_on_requests(rtx4090))
    return tuple(suite for log in (runs, figures, rtx4090, *anchored, *others) for suite in serving_suites_of(log))


def serving_logs(data: Path | str) -> tuple[Log, ...]:
    """Return the logs of real servers in a data folder, each with its runs."""
    from sightline.validation.serving.aiconfigurator import aiconfigurator_pools, aiconfigurator_runs
    from sightline.validation.serving.vllm import llmservingsim_log, vllm_figures, vllm_logs, vllm_saturated

    folder = Path(data)
    logs = (vllm_logs(folder), vllm_figures(folder), llmservingsim_log(folder))
    return (*logs, vllm_saturated(folder), aiconfigurator_runs(folder), aiconfigurator_pools(folder))
