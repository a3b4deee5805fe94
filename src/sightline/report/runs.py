"""What lists of stored runs say of each: its id, age, task, model, main figure and how it ended."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sightline.errors import SightlineError
from sightline.profile import TASKS
from sightline.profile.results import figure_of
from sightline.report.summary import NOTHING, shown
from sightline.runs import Run

_HEADLINES = [task.whole for task in TASKS]
"""Result keys shown in a list; the first that a run has."""

_PARTS = ("model", "cluster")
"""Of a scenario, what the catalog has by name."""
FAILED = ("crashed", "out of memory", "timeout", "unsupported", "interrupted")
"""What a list says of runs that gave no result."""


def summary(run: Run) -> dict[str, Any]:
    """Return what a list says of a run."""
    key = next((key for key in _HEADLINES if isinstance(figure_of(run.result, key), int | float)), None)
    said = {name: getattr(run, name) for name in ("id", "name", "suite", "status", "reason", "created", "ended")}
    said["contended"] = bool(run.environment.get("contended", False))
    return said | ({key: figure_of(run.result, key)} if key else {})


def columns_of(runs: Sequence[Run], now: datetime | None = None) -> dict[str, list[str]]:
    """Return what a list shows of each run by heading: the start of its id, age, task, model, figure, how it ended."""
    moment, ids = now or datetime.now(UTC), [run.id for run in runs]
    return {
        "run": [short_id(run.id, ids) for run in runs],
        "age": [age(run, moment) for run in runs],
        "task": [str((run.scenario.get("workload") or {}).get("task") or NOTHING) for run in runs],
        "model": [_model(run) for run in runs],
        "result": [_headline(run) for run in runs],
        "status": [_status(run) for run in runs],
    }


def label_of(run: Run) -> str:
    """Return a run's name, and why it failed."""
    return f"{run.name}: {run.reason}" if run.reason else run.name


def short_id(name: str, others: Collection[str]) -> str:
    """Return how a run's id begins, as far as it takes to tell it from the ids of ``others``."""
    words = name.split("-")
    starts = ("-".join(words[:count]) for count in range(2, len(words)))
    return next((start for start in starts if sum(other.startswith(start) for other in others) <= 1), name)


def age(run: Run, now: datetime | None = None) -> str:
    """Return how long ago a run began."""
    try:
        passed = ((now or datetime.now(UTC)) - datetime.fromisoformat(run.created)).total_seconds()
    except ValueError:
        return NOTHING
    steps = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
    return next((f"{passed / size:.0f} {unit}" for size, unit in steps if passed >= size), f"{max(passed, 0.0):.0f} s")


def _model(run: Run) -> str:
    """The model's name, or the operator; for runs of suites how many there are."""
    model = run.scenario.get("model")
    if model:
        return str(model.get("name") or "unnamed") if isinstance(model, Mapping) else str(model)
    return str((run.scenario.get("workload") or {}).get("operator") or NOTHING)


def _headline(run: Run) -> str:
    """Its main figure with the unit, or how many operators it measured."""
    if several := run.result.get("results"):
        return f"{len(several):,} operators"
    for task in TASKS:
        found = figure_of(run.result, task.whole)
        if isinstance(found, int | float):
            metric = task.figures[task.whole]
            return f"{metric.label} {shown(found, metric.unit)}"
    return NOTHING


def _status(run: Run) -> str:
    busy = ", contended" if run.environment.get("contended") else ""
    return run.status.replace("_", " ") + busy


def choices(runs: Sequence[Run], now: datetime | None = None) -> list[tuple[str, str]]:
    """Return the ids of runs, each with the words by which it is chosen."""
    columns = columns_of(runs, now)
    told = zip(runs, columns["age"], columns["result"], columns["status"], strict=True)
    return [
        (run.id, ", ".join((run.name, f"{since} ago", figure if figure != NOTHING else status)))
        for run, since, figure, status in told
    ]


def texts_of_scenario(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return a stored scenario as dotted keys with texts: what is of the catalog by its name, all else in full."""
    import json

    from sightline.report.plans.asked import texts_of

    named = _by_name(scenario)
    whole = {key: json.dumps(value) for key, value in named.items() if key in _PARTS and isinstance(value, Mapping)}
    return {key: text for key, text in {**texts_of(named), **whole}.items() if text != ""}


def _by_name(scenario: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scenario with the names of its model and cluster, where they stand for the same."""
    names = {key: part["name"] for key in _PARTS if isinstance(part := scenario.get(key), Mapping) and "name" in part}
    whole = _resolved(scenario)
    for tried in (names, *({key: name} for key, name in names.items())):
        if tried and whole is not None and _resolved(short := {**scenario, **tried}) == whole:
            return short
    return scenario


def _resolved(scenario: Mapping[str, Any]) -> Any:
    from sightline.loading import load, to_mapping

    try:
        found = load(dict(scenario))
    except SightlineError:
        return None
    return None if isinstance(found, list) else to_mapping(found)
