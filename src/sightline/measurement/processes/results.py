"""What measurements of every task share: stored runs as profiles, memory by part, limits by bound, remarks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.measurement.processes.case import FORCED
from sightline.measurement.processes.suite import Case
from sightline.profile import BOUNDS, MEMORY_PARTS, Profile, Row, task_of
from sightline.runs import Run, Store

PARTS = ("source", "fits", "phases", "limits", "memory_bytes", "evidence", "measurement")
ENERGY = ("energy_per_step_j", "energy_j")
UNSTEADY = 0.1
"""Width of an interval over its median from which a remark is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A scenario and the run it is stored in."""

    scenario: Any
    run: Run
    profile: Profile | None
    """None where the run did not end well: ``run.status`` and ``run.reason`` say why."""


def measured(cases: Sequence[Case], runs: Sequence[Run], store: Store) -> list[Measured]:
    """Return each case's scenario with its run and, where that ended well, its profile."""
    return [
        Measured(
            scenario=case.measures,
            run=run,
            profile=profile_of(case.measures, run.result, store.rows(run).to_dicts()) if run.status == "ok" else None,
        )
        for case, run in zip(cases, runs, strict=True)
    ]


def profile_of(scenario: Any, result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> Profile:
    """Return stored result keys and rows as a profile; metrics that follow from others are derived anew."""
    task = task_of(scenario.workload.task)
    metrics = {} if task is None else task.metrics
    stated: dict[str, Any] = {
        key: result[key] for key, metric in metrics.items() if metric.formula is None and key in result
    }
    given: dict[str, Any] = {key: result[key] for key in PARTS if key in result}
    return Profile(
        scenario=scenario,
        source=given.pop("source"),
        interval={
            key: (float(low), None if high is None else float(high)) for key, (low, high) in result["interval"].items()
        },
        rows=[Row.from_mapping(row) for row in rows],
        warnings=tuple(result["warnings"]),
        **given,
        **{key: float("nan") if key in ENERGY and value is None else value for key, value in stated.items()},
    )


def why_too_large(predicted: Profile) -> str:
    """Return why a scenario is not run, with the changes that would fit; empty where it is predicted to fit."""
    if predicted.fits:
        return ""
    from sightline.planning.why.unfit import nearest_to

    several = (f"{_in_words(near.set)} {near.sentence}" for near in nearest_to(predicted))
    return "; ".join((*predicted.advice, *several, FORCED))


def _in_words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in changes.items())


def held_bytes(memory: Mapping[str, float]) -> float:
    """Return the peak of the process, or of what the device's allocator took and what was taken before."""
    return memory["process"] if "process" in memory else memory["before"] + memory["reserved"]


def memory_by_part(memory: Mapping[str, float], states: Mapping[str, float]) -> dict[str, float]:
    """Return bytes by part: ``states`` such as weights, what was there before, and what a step needed on top."""
    parts = {**dict.fromkeys(MEMORY_PARTS, 0.0), **states, "framework": memory["before"]}
    if "reserved" in memory:
        parts["buffers"] = memory["reserved"] - memory["allocated"]
    parts["activations"] = max(held_bytes(memory) - sum(parts.values()), 0.0)
    return {**parts, "total": sum(parts.values())}


def limits_of(rows: Sequence[Mapping[str, Any]], whole_s: float) -> dict[str, float]:
    """Return ``whole_s`` split by what bounds it, in the proportions of the rows' seconds."""
    total = sum(row["time_s"] for row in rows)
    return {bound: sum(row["time_s"] for row in rows if row["bound"] == bound) / total * whole_s for bound in BOUNDS}


def remarks_on_times(
    low_s: float, high_s: float, median_s: float, *, stable: bool = True, what: str = "median"
) -> list[str]:
    """Return what to know before a time is believed."""
    found = [] if stable else ["times had not settled when the warm-up ended"]
    if high_s - low_s > UNSTEADY * median_s:
        share = 50 * (high_s - low_s) / median_s
        found.append(f"the {what} is uncertain by {share:.0f} %: is the machine busy?")
    return found
