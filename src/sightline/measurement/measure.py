"""Measure a scenario of any task that this version measures, in this process."""

from sightline.errors import InputError
from sightline.generation_profile import GenerationProfile
from sightline.measurement.generation_runs import measure_generation
from sightline.measurement.operators import measure_operator
from sightline.measurement.timing import FULL, QUICK
from sightline.operator_profile import OperatorProfile
from sightline.scenario import GenerationScenario, OperatorScenario


def measure(
    scenario: object, *, implementation: str | None = None, quick: bool = False
) -> OperatorProfile | GenerationProfile:
    """Run the scenario on this machine and return its profile; ``sightline measure`` also stores it as a run.

    ``implementation`` names one of several ways that PyTorch has; ``quick`` asks for fewer repeats.

    Raises:
        InputError: it is of another task, PyTorch is missing, or this machine cannot do what is asked.
        WorkError: memory ran out, or a process of a collective failed.
    """
    if isinstance(scenario, GenerationScenario):
        return measure_generation(scenario, implementation, quick=quick)
    if not isinstance(scenario, OperatorScenario):
        task = getattr(getattr(scenario, "workload", None), "task", type(scenario).__name__)
        raise InputError(f"workload.task is '{task}'; this version measures operator, generate")
    return measure_operator(scenario, implementation, QUICK if quick else FULL)
