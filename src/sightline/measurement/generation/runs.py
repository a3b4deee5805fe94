"""Generation: scenarios as cases, and one scenario in this process."""

from collections.abc import Sequence
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
from sightline.measurement.processes.results import profile_of
from sightline.measurement.processes.suite import VARIABLES, Case, Settings
from sightline.prediction.generation.predict import predict_generation
from sightline.profile import Profile
from sightline.scenario import GenerationScenario

LONGEST_S = 3600.0
"""A case may take so long."""


def cases_of(scenarios: Sequence[GenerationScenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario.

    Raises:
        InputError: A package is missing, the machine cannot do what some scenario asks, or a model does not fit into it.
    """
    return [
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
            measures=scenario,
            limits=Limits(time_s=LONGEST_S),
            variables=VARIABLES,
        )
        for scenario, way in zip(scenarios, _checked(scenarios, settings), strict=True)
    ]


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
