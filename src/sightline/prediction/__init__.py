"""Predictions: the one way in, from a scenario of any task to its answer."""

from functools import partial
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.profile import Profile
from sightline.scenario import Cluster, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.training.constants import TrainingConstants
    from sightline.scenario import GenerationScenario, OperatorScenario, ServingScenario


A_LOAD = (
    "workload.task is 'serve'; use `sightline simulate`, or predict a single batch with task: generate, batch, "
    "prompt_tokens and output_tokens"
)
"""Why a load is not predicted."""


def needs_equal_devices(cluster: Cluster, what: str) -> None:
    """Raise `InputError` for a cluster of unlike devices where only equal ones are predicted."""
    if cluster.groups:
        raise InputError(f"cluster.devices is {cluster.in_words}; heterogeneous devices are not supported for {what}")


def predictor(
    scenarios: "Iterable[Scenario | OperatorScenario | GenerationScenario | ServingScenario]",
    *,
    anchor: "Anchored | None" = None,
) -> "Callable[[Any], Profile]":
    """Return `predict` for scenarios that are asked about one after another: training steps that are alike together."""
    steps = [one for one in scenarios if isinstance(one, Scenario)] if anchor is None else []
    if len(steps) < 2:
        return partial(predict, anchor=anchor)
    from sightline.prediction.training.together import Together

    together = Together(steps)
    return lambda scenario: together.predict(scenario) if isinstance(scenario, Scenario) else predict(scenario)


def predict(
    scenario: "Scenario | OperatorScenario | GenerationScenario | ServingScenario",
    constants: "TrainingConstants | None" = None,
    *,
    anchor: "Anchored | None" = None,
) -> Profile:
    """Predict a training step of a `Scenario`, a `GenerationScenario`, or the operator of an `OperatorScenario`.

    Sizes, degrees and the device's numbers may be arrays that broadcast; then every number of the answer is an array.
    ``constants`` replace those of the catalog's calibration of a training step, as a fit does. ``anchor`` is what runs
    measured on one's own cluster teach.

    Raises:
        InputError: no micro-batch divides the batch; an anchor teaches nothing about the scenario; devices are unlike
            where an anchor, a single operator or a mesh of plans needs equal ones; the task is serve.
    """
    # Each task's formulas are imported when asked for, so that a command starts with one task's alone.
    if not isinstance(scenario, Scenario):
        from sightline.scenario import ServingScenario

        if isinstance(scenario, ServingScenario):
            raise InputError(A_LOAD)
    if anchor is not None:
        needs_equal_devices(scenario.cluster, "anchors")
        return anchor.predict(scenario)
    if isinstance(scenario, Scenario):
        from sightline.prediction.training.step_profile import predict as predict_step

        return predict_step(scenario, constants)
    from sightline.scenario import GenerationScenario

    if isinstance(scenario, GenerationScenario):
        from sightline.prediction.generation.batch_profile import predict_generation

        return predict_generation(scenario)
    from sightline.prediction.single_operators import predict_operator

    needs_equal_devices(scenario.cluster, "a single operator")
    return predict_operator(scenario)
