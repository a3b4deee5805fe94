"""Measure scenarios of any task: one in a call, or several that are stored as runs."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sightline.errors import InputError
from sightline.measurement import generated
from sightline.measurement.operators import operator_suite as operators
from sightline.measurement.operators.operator_suite import measure_operator
from sightline.measurement.processes.cases import (
    QUICK,
    Case,
    Effort,
    Measured,
    OnStep,
    Serving,
    Settings,
    Step,
    measured,
    rendezvous_of,
    run_suite,
)
from sightline.measurement.serving import case as serving
from sightline.measurement.timing import FULL
from sightline.measurement.timing import QUICK as QUICK_OPERATOR
from sightline.measurement.training import runs as training
from sightline.profile import Profile
from sightline.progress import SILENT, Progress
from sightline.runs import Store
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario


def measure(
    scenario: object, *, implementation: str | None = None, quick: bool = False, url: str = "", api_key_env: str = ""
) -> Profile:
    """Run the scenario on this machine and return its profile; ``sightline measure`` also stores it as a run.

    Training takes processes of its own, everything else this one. ``implementation`` names one of several ways that
    PyTorch has; ``quick`` asks for fewer repeats. Of serving, ``url`` is that of a server that runs, and
    ``api_key_env`` the environment variable with its key; without one the plan's engine is started.

    Raises:
        InputError: it is of another task, PyTorch is missing, or this machine cannot do what is asked.
        WorkError: memory ran out, or a process of a collective failed.
    """
    settings = Settings(
        implementation=implementation,
        quick=quick,
        effort=QUICK if quick else Effort(),
        serving=Serving(url=url, key_variable=api_key_env),
    )
    if isinstance(scenario, GenerationScenario):
        return generated.measure_generation(scenario, settings)
    if isinstance(scenario, ServingScenario):
        return serving.measure_serving(scenario, settings)
    if isinstance(scenario, Scenario):
        return training.measure_training(scenario, settings)
    if not isinstance(scenario, OperatorScenario):
        task = getattr(getattr(scenario, "workload", None), "task", type(scenario).__name__)
        raise InputError(f"workload.task is '{task}'; allowed: pretrain, finetune, generate, serve, operator")
    return measure_operator(scenario, implementation, QUICK_OPERATOR if quick else FULL)


def measure_scenarios(
    scenarios: Sequence[Any],
    store: Store,
    settings: Settings,
    *,
    suite: str = "",
    rerun: bool = True,
    on_step: OnStep = lambda _: None,
    progress: Progress = SILENT,
) -> list[Measured]:
    """Measure scenarios of one task, each in processes of its own; how each one ended is in its run.

    With ``settings.nodes``, the other nodes are told what is run next.

    Raises:
        InputError: A package is missing, or the machine cannot do what some scenario asks.
        WorkError: A run could not be stored.
    """
    cases = _cases_of(scenarios, settings)
    with ExitStack() as nodes:
        rendezvous = nodes.enter_context(rendezvous_of(settings.nodes)) if settings.nodes.count > 1 else None

        def tell(step: Step) -> None:
            if step.run is None and rendezvous is not None:
                rendezvous.announce(cases.index(step.case))
            on_step(step)

        runs = run_suite(cases, store, suite=suite, rerun=rerun, on_step=tell, progress=progress)
    if scenarios and isinstance(scenarios[0], ServingScenario):
        return serving.measured_loads(cases, runs, store)
    return measured(cases, runs, store)


def _cases_of(scenarios: Sequence[Any], settings: Settings) -> list[Case]:
    if not scenarios:
        return []
    if isinstance(scenarios[0], Scenario):
        return training.cases_of(scenarios, settings)
    if isinstance(scenarios[0], GenerationScenario):
        return generated.cases_of(scenarios, settings)
    if isinstance(scenarios[0], ServingScenario):
        return serving.cases_of(scenarios, settings)
    return operators.cases_of(scenarios, settings)
