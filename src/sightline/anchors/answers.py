"""Answers with anchors in any form: what the public API and the commands ask for."""

from typing import TYPE_CHECKING

from sightline.prediction import predict as predict_one
from sightline.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sightline.anchors.given import Given
    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.sensitivity import Sensitivity
    from sightline.prediction.training.constants import TrainingConstants
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario


def anchored(given: "Anchored | Iterable[Given] | Given", store: str | None = None) -> "Anchored":
    """Return what anchors teach, learned once for many scenarios; what was learned before stays as it is.

    Words among them are looked up in a ``store`` of runs.

    Raises:
        InputError: Some anchor cannot be read, teaches nothing, or contradicts physics.
    """
    from sightline.anchors.given import anchors_of
    from sightline.prediction.anchoring import Anchored, learn

    return given if isinstance(given, Anchored) else learn(anchors_of(given, store))


def predict(
    scenario: "Scenario | OperatorScenario | GenerationScenario",
    constants: "TrainingConstants | None" = None,
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> Profile:
    """Predict a training step of a `Scenario`, a `GenerationScenario`, or the operator of an `OperatorScenario`.

    Sizes, degrees and the device's numbers may be arrays that broadcast; then every number of the answer is an array.
    ``constants`` replace those of the catalog's calibration of a training step, as a fit does. ``anchor`` holds runs
    measured on one's own cluster - profiles, stored runs, scenarios with ``measured``, files, names -, which correct
    the prediction; what `anchored` returns for them is learned once for many scenarios.

    Raises:
        InputError: no micro-batch divides the batch; an anchor teaches nothing about the scenario.
    """
    return predict_one(scenario, constants, anchor=anchored(anchor) if anchor else None)


def sensitivity(
    scenario: "Scenario | OperatorScenario | GenerationScenario",
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> "Sensitivity":
    """Predict ``scenario``, the elasticities of its times and, for training, the neighbours of its plan.

    ``anchor`` holds runs of one's own cluster that correct all of them, as in `predict`.

    Raises:
        InputError: what `predict` raises.
    """
    from sightline.prediction.sensitivity import sensitivity as sensitivity_of

    return sensitivity_of(scenario, anchor=anchored(anchor) if anchor else None)
