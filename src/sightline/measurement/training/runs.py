"""Training: scenarios as cases, one of them alone, and those that another node decides on."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.loading import to_mapping
from sightline.measurement.machine.devices import machine_of
from sightline.measurement.machine.record import missing, require
from sightline.measurement.models.build import check_checkpoint
from sightline.measurement.processes.case import Limits, UnsupportedCaseError
from sightline.measurement.processes.nodes import rendezvous_of
from sightline.measurement.processes.results import profile_of
from sightline.measurement.processes.suite import LEVELS, VARIABLES, Case, Settings
from sightline.measurement.training.case import ENTRY, resolved
from sightline.measurement.training.steps import LIBRARIES, way_of
from sightline.profile import Profile
from sightline.scenario import Scenario


def cases_of(scenarios: Iterable[Scenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario; what is predicted not to fit ends as out of memory, unless ``settings.force``.

    Raises:
        InputError: A package is missing, the machine has not what some scenario asks, or the checkpoint is another
            model's.
    """
    asked = [resolved(scenario)[0] for scenario in scenarios]
    _check(asked, settings)
    return [_case(scenario, settings, number) for number, scenario in enumerate(asked)]


def follow(scenarios: Iterable[Scenario], settings: Settings) -> list[str]:
    """Run this node's ranks of what the first node announces; return how scenarios ended that did not end well.

    Raises:
        InputError: As `cases_of`.
        WorkError: The first node is gone.
    """
    cases, failed = cases_of(scenarios, settings), []
    with rendezvous_of(settings.nodes) as rendezvous:
        for number in rendezvous.announced():
            case = cases[number]
            outcome = case.run()
            if outcome.status == "interrupted":
                raise KeyboardInterrupt
            if outcome.status != "ok":
                failed.append(f"{case.name}: {outcome.reason}")
    return failed


def measure_training(scenario: Scenario, settings: Settings) -> Profile:
    """Measure one scenario, of which nothing is stored.

    Raises:
        InputError: As `cases_of`, or the scenario cannot be measured.
        WorkError: Memory or time ran out, or a process crashed.
    """
    (case,) = cases_of([scenario], settings)
    outcome = case.run()
    if outcome.status == "unsupported":
        raise InputError(outcome.reason)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.status != "ok":
        raise WorkError(outcome.reason)
    return profile_of(case.measures, outcome.result, outcome.result["rows"])


def _case(scenario: Scenario, settings: Settings, number: int) -> Case:
    effort, mapping = settings.effort, to_mapping(scenario)
    arguments: dict[str, Any] = {
        "scenario": mapping,
        "warm_up": effort.warm_up,
        "steps": effort.steps,
        "repeats": effort.repeats,
        "levels": [level for level in LEVELS if level in effort.levels],
        "weights": settings.weights,
        "force": settings.force,
        "nodes": settings.nodes.to_dict(number),
    }
    return Case(
        name=scenario.name or f"{scenario.model.name} {scenario.workload.task}",
        entry=ENTRY,
        arguments=arguments,
        scenario=mapping,
        measures=scenario,
        limits=Limits(time_s=effort.limit_s),
        variables=VARIABLES,
    )


def _check(scenarios: Sequence[Scenario], settings: Settings) -> None:
    """Refuse, before anything runs, what cannot be measured here; scenarios a framework cannot do end as unsupported."""
    require("torch", "transformers")
    problems: list[str] = []
    for scenario in scenarios:
        try:
            machine_of(scenario.cluster, settings.nodes.count, settings.nodes.local_count)
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        except InputError as error:
            problems += error.problems
        problems += _missing_extras(scenario)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def _missing_extras(scenario: Scenario) -> list[str]:
    """Sentences about packages that the scenario's framework or techniques need and that are not installed."""
    plan = scenario.plan
    try:
        way = way_of(scenario)
    except UnsupportedCaseError:
        return []
    libraries = [name.partition(".")[0] for name in LIBRARIES.get(way, ())]
    quantized = missing("bitsandbytes", what="plan.quantization") if plan.quantization != "none" else []
    adapted = missing("peft", what="plan.adapter") if plan.adapter is not None else []
    return [*missing(*libraries, what=f"plan.framework {plan.framework.name}"), *quantized, *adapted]
