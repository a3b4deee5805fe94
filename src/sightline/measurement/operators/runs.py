"""Measure operators, each stored as a run: what a scenario file asks for, or a suite of very many."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.loading import operation_from_mapping
from sightline.measurement.machine.record import require
from sightline.measurement.operators.measure import ONE, SEVERAL
from sightline.measurement.operators.suite import COLLECTIVES, HOW
from sightline.measurement.processes.results import Measured, profile_of
from sightline.measurement.processes.suite import Case, OnStep, Settings, case_of, run_suite
from sightline.progress import SILENT, Progress
from sightline.runs import Store
from sightline.scenario import OperatorScenario

GROUP = 48
"""Operators of a suite that share a process: starting one takes longer than measuring a small operator."""
SECONDS_EACH = 60.0
ROUNDS = 3
"""Times that a brief suite goes through a group's operators; processes of a collective take too long to start."""


def cases_of(scenarios: Sequence[OperatorScenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario; raises `InputError` where PyTorch is missing."""
    require("torch")
    asked: dict[str, Any] = {"implementation": settings.implementation, "quick": settings.quick}
    return [case_of(scenario, ONE, **asked) for scenario in scenarios]


def measure_suite(
    suite: str,
    scenarios: Sequence[Mapping[str, Any]],
    store: Store,
    *,
    quick: bool = False,
    brief: bool = False,
    rerun: bool = False,
    on_step: OnStep = lambda _: None,
    progress: Progress = SILENT,
) -> tuple[list[Measured], list[str]]:
    """Measure the suite's scenarios, a group of the same operator in a process.

    Groups that are stored are not repeated.

    A scenario's mapping may also say how it is measured (``HOW``). ``brief`` takes a moment for each.

    Returns what was measured, and a sentence for each operator or group that was not.
    """
    require("torch")
    groups = grouped(scenarios)
    cases = [
        Case(
            name=f"{suite} {group[0]['workload']['operator']}",
            entry=SEVERAL,
            arguments={
                "operators": [asked(mapping) for mapping in group],
                "quick": quick,
                "brief": brief,
                **({"rounds": ROUNDS} if brief and group[0]["workload"]["operator"] not in COLLECTIVES else {}),
            },
            limit_s=SECONDS_EACH * len(group),
        )
        for group in groups
    ]
    runs = run_suite(cases, store, suite=suite, rerun=rerun, on_step=on_step, progress=progress)
    found, missing = [], []
    for group, run in zip(groups, runs, strict=True):
        if run.status != "ok":
            missing.append(f"{run.name}: {run.reason}")
            continue
        for mapping, result in zip(group, run.result["results"], strict=True):
            if "reason" in result:
                missing.append(result["reason"])
                continue
            scenario = operation_from_mapping(asked(mapping)["scenario"])
            found.append(Measured(scenario=scenario, run=run, profile=profile_of(scenario, result)))
    return found, missing


def asked(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a case is asked for an entry of a suite: its scenario, and how it is measured."""
    return {"scenario": {k: v for k, v in mapping.items() if k != HOW}, **mapping.get(HOW, {})}


def grouped(scenarios: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return scenarios of the same operator together, up to as many as share a process."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for mapping in scenarios:
        kinds.setdefault(mapping["workload"]["operator"], []).append(mapping)
    return [kind[first : first + GROUP] for kind in kinds.values() for first in range(0, len(kind), GROUP)]
