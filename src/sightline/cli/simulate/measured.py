"""Simulations beside a measured run, request by request."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.profiles import ProfilesReport
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.profile import Profile
    from sightline.scenario import ServingScenario
    from sightline.simulation.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedRun:
    """A measured load."""

    name: str
    scenario: "ServingScenario"
    outcome: "Outcome"


def served_run(asked: str, store: str | None) -> ServedRun:
    """Return a stored run of serving.

    Raises:
        InputError: There is no such run, it measured something else, or it did not end well.
    """
    from sightline.loading.serving import serving_from_mapping
    from sightline.runs import open_store
    from sightline.simulation.replay import outcome_of

    runs = open_store(store)
    run = runs.find(asked)
    if run.scenario.get("workload", {}).get("task") != "serve":
        raise InputError(f"run '{run.id}' is not a serving run; --replay needs a run of task serve")
    if run.status != "ok":
        raise InputError(f"run '{run.id}' is {run.status}; --replay needs a run with status ok")
    scenario = serving_from_mapping(dict(run.scenario))
    return ServedRun(name=run.id, scenario=scenario, outcome=outcome_of(runs.samples(run).to_dicts()))


def replayed(run: ServedRun, profile: "Profile", path: str | None) -> list[dict[str, Any]]:
    """Return measured and simulated times beside each other; every request goes into the file at ``path``."""
    from sightline.runs.store import as_parquet
    from sightline.simulation.replay import compared_requests, compared_statistics

    if profile.outcome is None:
        return []
    if path is not None:
        output.write_file(path, as_parquet(compared_requests(run.outcome, profile.outcome)))
    return compared_statistics(run.outcome, profile.outcome)


@dataclass(frozen=True, kw_only=True)
class ReplayReport(ProfilesReport):
    """The simulation of a measured run's requests, beside that run."""

    run: ServedRun
    rows: list[dict[str, Any]]
    """Measured and simulated times; none where the plan does not fit."""

    @classmethod
    def of(cls, profile: "Profile", run: ServedRun, rows: list[dict[str, Any]]) -> "ReplayReport":
        """Return the report of one simulation."""
        more = {"replay": rows} if rows else {}
        documents = lambda shown: [one.to_dict() | more for one in shown]  # noqa: E731
        return cls(answers=[profile], documents=documents, is_list=False, run=run, rows=rows)

    def tables(self) -> Any:
        """Return the simulation's tables, and both runs beside each other."""
        from sightline.report.terminal.replay import replay_table

        yield from super().tables()
        if self.rows:
            yield replay_table(self.rows)

    def chart(self, *room: Any) -> dict[str, Any] | None:
        """Draw every request as measured and as simulated."""
        from sightline.report.charts.serving.replay import replay_chart

        return replay_chart(self.run.outcome, self.answers[0], *room)
