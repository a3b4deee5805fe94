"""Suites of measured runs: each run is simulated once, and every figure of it is a case.

A run is test but where its source has a fit part, to which constants are fitted in another way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, get_args

import numpy as np

from sightline.errors import SightlineError
from sightline.simulation.outcome import Outcome
from sightline.validation.serving.logs import Log, MeasuredRun, measured_figure, served_figure
from sightline.validation.suite import Answer, Case, Result, Split, result_of

if TYPE_CHECKING:
    from sightline.simulation.server import Server

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
