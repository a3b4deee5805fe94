"""Measure training, each scenario stored as a run with the samples of all its repeats."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.loading import to_mapping
from sightline.measurement.machine.devices import machine_of
from sightline.measurement.machine.record import missing, require
from sightline.measurement.models.build import check_checkpoint
from sightline.measurement.processes.case import Limits, UnsupportedCaseError
from sightline.measurement.processes.isolation import run_case
from sightline.measurement.processes.results import Measured, measured, profile_of
from sightline.measurement.processes.suite import VARIABLES, Case, Step, run_suite
from sightline.measurement.training.case import ENTRY, resolved
from sightline.measurement.training.frameworks import LIBRARIES, way_of
from sightline.measurement.training.nodes import Nodes, rendezvous_of
from sightline.measurement.training.times import LEVELS
from sightline.profile import Profile
from sightline.runs import Store
from sightline.scenario import Scenario

OnStep = Callable[[Step], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is measured of each scenario; the defaults are those of arXiv 2311.03687."""

    warm_up: int = 30
    steps: int = 100
    repeats: int = 3
    """Independent runs, each by new processes."""
    levels: Sequence[str] = ("end-to-end", "module")
    limit_s: float = 3600.0
    """What a scenario may take, all repeats together."""


QUICK = Effort(warm_up=3, steps=10, repeats=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for all scenarios of a request."""

    effort: Effort = field(default_factory=Effort)
    weights: str | None = None
    """Folder of a checkpoint; None draws random weights."""
    force: bool = False
    """Run also what is predicted not to fit."""
    nodes: Nodes = field(default_factory=Nodes)


def measure_trainings(
    scenarios: Iterable[Scenario],
    store: Store,
    settings: Settings,
    *,
    suite: str = "",
    rerun: bool = True,
    on_step: OnStep = lambda _: None,
) -> list[Measured]:
    """Measure every scenario in processes of its own; how each one ended is in its run.

    What is predicted not to fit ends as out of memory without running, unless ``settings.force``.

    Raises:
        InputError: A package is missing, the machine has not what some scenario asks, or the checkpoint is another
            model's.
        WorkError: A run could not be stored.
    """
    asked = [resolved(scenario)[0] for scenario in scenarios]
    _check(asked, settings)
    cases = [_case(scenario, settings, number) for number, scenario in enumerate(asked)]
    with ExitStack() as nodes:
        rendezvous = nodes.enter_context(rendezvous_of(settings.nodes)) if settings.nodes.count > 1 else None

        def tell(step: Step) -> None:
            if step.run is None and rendezvous is not None:
                rendezvous.announce(cases.index(step.case))
            on_step(step)

        runs = run_suite(cases, store, suite=suite, rerun=rerun, on_step=tell)
    return measured(asked, runs, store)


def follow(scenarios: Iterable[Scenario], settings: Settings) -> list[str]:
    """Run this node's ranks of what the first node announces; return how scenarios ended that did not end well.

    Raises:
        InputError: As `measure_trainings`.
        WorkError: The first node is gone.
    """
    asked = [resolved(scenario)[0] for scenario in scenarios]
    _check(asked, settings)
    failed = []
    with rendezvous_of(settings.nodes) as rendezvous:
        for number in rendezvous.announced():
            case = _case(asked[number], settings, number)
            outcome = run_case(case.entry, case.arguments, case.limits, variables=case.variables)
            if outcome.status == "interrupted":
                raise KeyboardInterrupt
            if outcome.status != "ok":
                failed.append(f"{case.name}: {outcome.reason}")
    return failed


def measure_training(scenario: Scenario, settings: Settings) -> Profile:
    """Measure one scenario, of which nothing is stored.

    Raises:
        InputError: As `measure_trainings`, or the scenario cannot be measured.
        WorkError: Memory or time ran out, or a process crashed.
    """
    asked = resolved(scenario)[0]
    _check([asked], settings)
    case = _case(asked, settings, 0)
    outcome = run_case(case.entry, case.arguments, case.limits, variables=case.variables)
    if outcome.status == "unsupported":
        raise InputError(outcome.reason)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.status != "ok":
        raise WorkError(outcome.reason)
    return profile_of(asked, outcome.result, outcome.result["rows"])


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
