"""Measure a scenario of any task."""

from sightline.errors import InputError
from sightline.measurement.generation.runs import Settings as GenerationSettings
from sightline.measurement.generation.runs import measure_generation
from sightline.measurement.machine.timing import FULL, QUICK
from sightline.measurement.operators.measure import measure_operator
from sightline.measurement.training.runs import QUICK as QUICK_TRAINING
from sightline.measurement.training.runs import Effort, Settings, measure_training
from sightline.profile import Profile
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario


def measure(scenario: object, *, implementation: str | None = None, quick: bool = False) -> Profile:
    """Run the scenario on this machine and return its profile; ``sightline measure`` also stores it as a run.

    Training takes processes of its own, everything else this one. ``implementation`` names one of several ways that PyTorch has; ``quick`` asks for fewer repeats.

    Raises:
        InputError: it is of another task, PyTorch is missing, or this machine cannot do what is asked.
        WorkError: memory ran out, or a process of a collective failed.
    """
    if isinstance(scenario, GenerationScenario):
        return measure_generation(scenario, GenerationSettings(implementation=implementation, quick=quick))
    if isinstance(scenario, Scenario):
        return measure_training(scenario, Settings(effort=QUICK_TRAINING if quick else Effort()))
    if not isinstance(scenario, OperatorScenario):
        task = getattr(getattr(scenario, "workload", None), "task", type(scenario).__name__)
        raise InputError(f"workload.task is '{task}'; measured are pretrain, finetune, generate, operator")
    return measure_operator(scenario, implementation, QUICK if quick else FULL)
