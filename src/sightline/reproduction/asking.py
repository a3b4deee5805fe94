"""What findings and tables ask of the model: predictions and simulations, each made once."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from itertools import product
from typing import Any, Protocol

from sightline.anchors.corrected import predict, simulate
from sightline.exploration.study_answer import StudyAnswer
from sightline.loading import load_all
from sightline.planning.plan_answer import PlanAnswer
from sightline.planning.search import plan
from sightline.profile import Profile
from sightline.progress import SILENT, Progress
from sightline.reproduction.outcomes import Choice, Interpretation, OpenSetting, ReproducedTable, Status, table, taken
from sightline.runs import Store
from sightline.scenario import ServingScenario
from sightline.validation.cases import Result
from sightline.validation.evaluation import validate

Asked = Mapping[str, Any]
"""A scenario as a file would hold it."""
Row = Mapping[str, Any]
"""A row of a table, by column."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Answers scenarios; the same one asked again is not worked out again."""

    small: bool = False
    """Smaller loads and coarser studies: shows that all works, in a minute."""
    progress: Progress = SILENT
    _profiles: dict[str, Profile] = field(default_factory=dict)
    _studies: dict[str, StudyAnswer] = field(default_factory=dict)
    _plans: dict[str, PlanAnswer] = field(default_factory=dict)
    _suites: dict[str, Sequence[Result]] = field(default_factory=dict)

    def profile(self, scenario: Asked) -> Profile:
        """Return the prediction of a scenario of any task; a served load is simulated."""
        key = json.dumps(scenario, sort_keys=True)
        if key not in self._profiles:
            self._profiles[key] = _answered(scenario)
            self.progress.check()
        return self._profiles[key]

    def study(self, name: str, view: str | None = None) -> StudyAnswer:
        """Return the answer of a built-in study of hardware."""
        key = f"{name} {view}"
        if key not in self._studies:
            from sightline.exploration.run import explore

            self._studies[key] = explore(name, quick=self.small, view=view)
            self.progress.check()
        return self._studies[key]

    def plan(self, scenario: Asked, *, launchable: bool = True) -> PlanAnswer:
        """Return the best plans of training of all that a scenario leaves open.

        ``launchable``: only those that frameworks launch today; none of them trains on heterogeneous devices.
        """
        key = f"{json.dumps(scenario, sort_keys=True)} {launchable}"
        if key not in self._plans:
            self._plans[key] = plan(scenario, launchable=launchable)
            self.progress.check()
        return self._plans[key]

    def suite(self, name: str) -> Sequence[Result]:
        """Return the errors of a suite of published results that the catalog holds, of both its parts."""
        if name not in self._suites:
            self._suites[name] = validate(name)
            self.progress.check()
        return self._suites[name]


def _answered(scenario: Asked) -> Profile:
    (asked,) = load_all([dict(scenario)])
    if isinstance(asked, ServingScenario):
        return simulate(asked, intervals=False)
    return predict(asked)


Answer = Callable[[Any], list[Interpretation]]
"""Answers a finding in each of its interpretations."""


class Findings(dict[str, Answer]):
    """What answers findings, by id."""

    def add(
        self, *settings: OpenSetting[Any], last_first: bool = False
    ) -> Callable[[Callable[..., Interpretation]], Answer]:
        """Return a decorator that adds a finding, called as its function, in every combination of open settings.

        The function gets an `Ask` and a choice of each setting, and returns the interpretation; its own choices follow
        those. ``last_first`` names choices from the last setting to the first.
        """

        def added(interpret: Callable[..., Interpretation]) -> Answer:
            @wraps(interpret)
            def answer(ask: Any) -> list[Interpretation]:
                return [
                    _chosen(interpret(ask, *choices), choices[:: -1 if last_first else 1])
                    for choices in product(*settings)
                ]

            self[interpret.__name__.upper()] = answer
            return answer

        return added


def _chosen(found: Interpretation, choices: Sequence[Choice[Any]]) -> Interpretation:
    return replace(found, choices={**taken(*choices), **found.choices})


TableOf = Callable[[Ask], ReproducedTable]
"""Makes a table."""


class Tables(dict[str, TableOf]):
    """What makes tables, by id."""

    def add(self, id_: str, title: str, **stated: Any) -> Callable[[Callable[[Ask], Iterable[Row]]], TableOf]:
        """Return a decorator that adds the table of a function's rows; what is ``stated`` is as `table` has it."""

        def added(rows: Callable[[Ask], Iterable[Row]]) -> TableOf:
            @wraps(rows)
            def made(ask: Ask) -> ReproducedTable:
                return table(id_, title, rows(ask), **stated)

            self[id_] = made
            return made

        return added

    def add_study(self, study: str, id_: str = "", view: str | None = None, status: Status = "predicted only") -> None:
        """Add a built-in study as it is, under its own name or another id."""
        name = id_ or study
        self[name] = lambda ask: ReproducedTable(id=name, answer=ask.study(study, view), status=status)


class Measured(Protocol):
    """What measures a source's tables on the machine at hand."""

    def __call__(self, store: Store, *, small: bool, progress: Progress) -> Sequence[ReproducedTable]:
        """Return the tables; runs are kept in the store, and ``small`` has few of them."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """What is assumed of settings that a source does not state."""

    sentence: str
    about: Collection[str] = ()
    """Ids of the findings and tables that rest on it; empty where all of the source do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What reproduces a source."""

    findings: Mapping[str, Answer]
    tables: Mapping[str, TableOf]
    assumptions: Sequence[Assumption]
    measured: Measured | None = None
    """None where nothing of it can be measured."""
    without_pictures: Collection[str] = ()
    """Ids of the tables that are rows alone."""

    def assumed(self, ids: Collection[str]) -> Sequence[str]:
        """Return what is assumed for findings and tables."""
        return [one.sentence for one in self.assumptions if not one.about or not set(ids).isdisjoint(one.about)]
