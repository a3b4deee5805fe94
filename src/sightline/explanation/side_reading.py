"""Profiles and stored results become sides of a comparison."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sightline.errors import InputError
from sightline.explanation.side import Cell, Side
from sightline.loading import to_mapping
from sightline.profile import TASKS, Profile, Task, task_of

_IDLE_PHASES = ("host", "pipeline_bubble")
"""Phases in which no module runs; they are compared as phases."""


def side_of_profile(profile: Profile, name: str = "") -> Side:
    """Return a profile of one plan as a side."""
    if not isinstance(profile, Profile):
        raise InputError(f"compare takes profiles, runs and files, not {type(profile).__name__}")
    kind = _kind(profile.scenario.workload.task, name or "the profile")
    return Side(
        name=name or profile.source,
        title=profile.scenario.name,
        source=profile.source,
        kind=kind,
        scenario=to_mapping(profile.scenario),
        figures=_numbers({key: getattr(profile, key) for key in kind.headline}),
        phases=_numbers(profile.phases),
        memory_bytes=_numbers(profile.memory_bytes),
        intervals=_intervals(profile.interval),
        cells=_running(Cell(row.phase, row.module, row.operator, float(row.exposed_s)) for row in profile.rows),
    )


def side_of_result(
    result: Mapping[str, Any],
    name: str,
    *,
    scenario: Mapping[str, Any] | None = None,
    rows: Iterable[Mapping[str, Any]] = (),
    environment: Mapping[str, Any] | None = None,
) -> Side:
    """Return documented result keys as a side; ``scenario`` and ``rows`` where they lie elsewhere.

    Raises:
        InputError: It is no result of one scenario.
    """
    asked = scenario or result.get("scenario") or {}
    kind = _kind_of_result(result, asked, name)
    found = environment or result.get("environment") or {}
    return Side(
        name=name,
        title=str(asked.get("name", "")),
        source=str(result.get("source", "measured")),
        kind=kind,
        scenario=asked,
        figures=_numbers({key: result.get(key) for key in kind.headline} | _derived(result, kind)),
        phases=_numbers(result.get("phases") or {}),
        memory_bytes=_numbers(result.get("memory_bytes") or {}),
        intervals=_intervals(result.get("interval") or {}),
        cells=_running(_cell(row) for row in rows or result.get("rows") or ()),
        is_contended=bool(found.get("contended")),
        warnings=_disturbances(name, found),
    )


def is_result(mapping: Mapping[str, Any]) -> bool:
    """Whether a mapping holds an answer rather than a question."""
    return mapping.get("source") in ("predicted", "measured") and any(kind.whole in mapping for kind in TASKS)


def _kind(task: str, name: str) -> Task:
    kind = task_of(task)
    if kind is None:
        raise InputError(f"{name} is of task {task}; compare takes {', '.join(t for k in TASKS for t in k.workloads)}")
    return kind


def _kind_of_result(result: Mapping[str, Any], scenario: Mapping[str, Any], name: str) -> Task:
    task = (scenario.get("workload") or {}).get("task")
    if task is not None:
        kind = _kind(str(task), name)
    else:
        kind = next((kind for kind in TASKS if kind.whole in result), TASKS[0])
    if kind.whole not in result:
        several = result.get("results")
        held = f"{len(several)} operators of a suite" if isinstance(several, Sequence) else f"no {kind.whole}"
        raise InputError(f"'{name}' holds {held}; compare takes the result of one scenario")
    return kind


def _derived(result: Mapping[str, Any], kind: Task) -> dict[str, float]:
    """Rates of an operator, which a stored measurement leaves to the reader."""
    seconds = result.get("time_s")
    if kind.name != "operator" or not seconds:
        return {}
    return {f"{of}_per_s": result[of] / seconds for of in ("flops", "bytes") if of in result}


def _running(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.phase not in _IDLE_PHASES]


def _cell(row: Mapping[str, Any]) -> Cell:
    return Cell(
        str(row.get("phase", "")),
        str(row.get("module", "")),
        str(row.get("operator", "")),
        float(row.get("exposed_s", row.get("time_s")) or 0.0),
        row.get("low_s"),
        row.get("high_s"),
    )


def _numbers(mapping: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in mapping.items() if value is not None}


def _intervals(mapping: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    return {key: (float(ends[0]), float(ends[1])) for key, ends in mapping.items()}


def _disturbances(name: str, environment: Mapping[str, Any]) -> tuple[str, ...]:
    reasons = environment.get("contention") or () if environment.get("contended") else ()
    return tuple(f"{name} was measured on a busy machine: {reason}" for reason in reasons)
