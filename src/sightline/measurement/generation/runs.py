"""Measure generation, each scenario stored as a run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.loading.clusters.this_machine import processor
from sightline.measurement.generation.case import CASE, Asked, measure_generation_run
from sightline.measurement.generation.loop import way_of
from sightline.measurement.generation.results import result_of
from sightline.measurement.machine.record import require
from sightline.measurement.models.build import check_checkpoint
from sightline.measurement.processes.case import FORCED, Limits, UnsupportedCaseError
from sightline.measurement.processes.results import Measured, measured, profile_of
from sightline.measurement.processes.suite import VARIABLES, Case, Step, run_suite
from sightline.prediction.generation.predict import predict_generation
from sightline.profile import Profile
from sightline.runs import Store
from sightline.scenario import GenerationScenario

LONGEST_S = 3600.0
"""A case may take so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What holds for all scenarios of a request."""

    implementation: str | None = None
    """Which way of `WAYS`; None leaves it to the plan."""
    weights: str | None = None
    """Folder of a checkpoint; None draws random weights."""
    quick: bool = False
    """One run instead of three, and fewer repeats."""
    force: bool = False
    """Run also what is predicted not to fit."""


def measure_generations(
    scenarios: Sequence[GenerationScenario],
    store: Store,
    settings: Settings,
    *,
    suite: str = "",
    rerun: bool = True,
    on_step: Callable[[Step], None] = lambda _: None,
) -> list[Measured]:
    """Measure every scenario in processes of its own; how each one ended is in its run.

    Raises:
        InputError: A package is missing, the machine cannot do what some scenario asks, or a model does not fit into it.
        WorkError: A run could not be stored.
    """
    ways = _checked(scenarios, settings)
    cases = [
        Case(
            name=scenario.name or f"{scenario.model.name} generate",
            entry=CASE,
            arguments={
                "scenario": (mapping := to_mapping(scenario)),
                "way": way,
                "quick": settings.quick,
                "weights": settings.weights,
                "threads": processor().cores,
            },
            scenario=mapping,
            limits=Limits(time_s=LONGEST_S),
            variables=VARIABLES,
        )
        for scenario, way in zip(scenarios, ways, strict=True)
    ]
    return measured(scenarios, run_suite(cases, store, suite=suite, rerun=rerun, on_step=on_step), store)


def measure_generation(scenario: GenerationScenario, settings: Settings) -> Profile:
    """Measure one scenario in this process: a single run, of which nothing is stored.

    Raises:
        InputError: A package is missing, the machine cannot do what is asked, or the model does not fit into it.
        WorkError: Memory ran out.
    """
    (way,) = _checked([scenario], settings)
    asked = Asked(way=way, quick=settings.quick, weights=settings.weights)
    try:
        run = measure_generation_run(scenario, asked, lambda _: None)
    except UnsupportedCaseError as error:
        raise InputError(str(error)) from error
    result = result_of(scenario, [run])
    return profile_of(scenario, result, result["rows"])


def _checked(scenarios: Sequence[GenerationScenario], settings: Settings) -> list[str]:
    """Each scenario's way; everything that keeps one from being measured is a problem of its own."""
    require("torch", "transformers")
    ways, problems = [], []
    for scenario in scenarios:
        try:
            ways.append(way_of(scenario, settings.implementation))
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        except (UnsupportedCaseError, InputError) as error:
            problems += str(error).splitlines()
            continue
        predicted = predict_generation(scenario)
        if not predicted.fits and not settings.force:
            advice = list(predicted.advice) or ["it does not fit in this machine's memory"]
            problems += [f"{'; '.join(advice)}; {FORCED}"]
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return ways
