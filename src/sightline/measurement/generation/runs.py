"""Measure generation, each scenario stored as a run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.loading.clusters.this_machine import processor
from sightline.measurement.generation.case import CASE, Asked, measure_generation_run
from sightline.measurement.generation.loop import way_of
from sightline.measurement.generation.results import result_of
from sightline.measurement.models.build import check_checkpoint
from sightline.measurement.processes.case import FORCED, Limits, UnsupportedCaseError
from sightline.measurement.processes.results import Measured, measured, profile_of
from sightline.measurement.processes.suite import VARIABLES, Case, RowStore, Step, complain, require, run_suite
from sightline.prediction.generation.predict import predict_generation
from sightline.profile import Profile
from sightline.scenario import GenerationScenario

LONGEST_S = 3600.0
"""A case may take so long."""


def measure_generations(
    scenarios: Sequence[GenerationScenario],
    store: RowStore,
    *,
    implementation: str | None = None,
    weights: str | None = None,
    quick: bool = False,
    force: bool = False,
    on_step: Callable[[Step], None] = lambda _: None,
) -> list[Measured]:
    """Measure every scenario in processes of its own, again even where it was measured before.

    Args:
        scenarios: What to measure.
        store: Where runs go.
        implementation: Which way of `WAYS`; None leaves it to the plan.
        weights: Folder of a checkpoint; None draws random weights.
        quick: One run instead of three, and fewer repeats.
        force: Run also what is predicted not to fit.
        on_step: Called when a case begins and when it has been stored.

    Raises:
        InputError: A package is missing, the machine cannot do what some scenario asks, or a model does not fit into it.
        WorkError: memory or time ran out, or a process crashed; what was measured is stored.
    """
    runs = run_generations(
        scenarios, store, implementation=implementation, weights=weights, quick=quick, force=force, on_step=on_step
    )
    complain(runs)
    return measured(scenarios, runs, store)


def run_generations(
    scenarios: Sequence[GenerationScenario],
    store: RowStore,
    *,
    implementation: str | None = None,
    weights: str | None = None,
    quick: bool = False,
    force: bool = False,
    suite: str = "",
    rerun: bool = True,
    on_step: Callable[[Step], None] = lambda _: None,
) -> list[Any]:
    """Measure every scenario as `measure_generations` does and return the stored runs, however each of them ended.

    Args:
        scenarios: What to measure.
        store: Where runs go.
        implementation: Which way of `WAYS`.
        weights: Folder of a checkpoint.
        quick: One run instead of three.
        force: Run also what is predicted not to fit.
        suite: Name that the runs bear.
        rerun: Measure also what an earlier run finished.
        on_step: Called when a case begins and when it has been stored.
    """
    ways = _checked(scenarios, implementation, weights, force=force)
    cases = [
        Case(
            name=scenario.name or f"{scenario.model.name} generate",
            entry=CASE,
            arguments={
                "scenario": (mapping := to_mapping(scenario)),
                "way": way,
                "quick": quick,
                "weights": weights,
                "threads": processor().cores,
            },
            scenario=mapping,
            limits=Limits(time_s=LONGEST_S),
            variables=VARIABLES,
        )
        for scenario, way in zip(scenarios, ways, strict=True)
    ]
    return run_suite(cases, store, suite=suite, rerun=rerun, on_step=on_step)


def measure_generation(
    scenario: GenerationScenario, implementation: str | None = None, *, weights: str | None = None, quick: bool = False
) -> Profile:
    """Measure one scenario in this process: a single run, of which nothing is stored.

    Raises:
        InputError: A package is missing, the machine cannot do what is asked, or the model does not fit into it.
        WorkError: Memory ran out.
    """
    (way,) = _checked([scenario], implementation, weights)
    asked = Asked(way=way, quick=quick, weights=weights)
    try:
        run = measure_generation_run(scenario, asked, lambda _: None)
    except UnsupportedCaseError as error:
        raise InputError(str(error)) from error
    result = result_of(scenario, [run])
    return profile_of(scenario, result, result["rows"])


def _checked(
    scenarios: Sequence[GenerationScenario], implementation: str | None, weights: str | None, *, force: bool = False
) -> list[str]:
    """Each scenario's way; everything that keeps one from being measured is a problem of its own."""
    require("torch", "transformers")
    ways, problems = [], []
    for scenario in scenarios:
        try:
            ways.append(way_of(scenario, implementation))
            if weights is not None:
                check_checkpoint(scenario.model, Path(weights))
        except (UnsupportedCaseError, InputError) as error:
            problems += str(error).splitlines()
            continue
        predicted = predict_generation(scenario)
        if not predicted.fits and not force:
            advice = list(predicted.advice) or ["it does not fit in this machine's memory"]
            problems += [f"{'; '.join(advice)}; {FORCED}"]
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return ways
