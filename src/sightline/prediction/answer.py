"""The one way in: a scenario of any task to its answer."""

from typing import overload

from sightline.cost.training_constants import TrainingConstants
from sightline.operator_profile import Answer, OperatorProfile
from sightline.prediction.operator import predict_operator
from sightline.prediction.predict import predict as predict_step
from sightline.profile import Profile
from sightline.scenario import OperatorScenario, Scenario


@overload
def predict(scenario: Scenario, constants: TrainingConstants | None = None) -> Profile: ...
@overload
def predict(scenario: OperatorScenario) -> OperatorProfile: ...
def predict(scenario: Scenario | OperatorScenario, constants: TrainingConstants | None = None) -> Answer:
    """Predict a training step of a `Scenario`, or the single operator of an `OperatorScenario`.

    Sizes, degrees and the device's numbers may be arrays that broadcast; then every number of the answer is an array.
    ``constants`` replace those of the catalog's calibration of a training step, as a fit does.

    Raises:
        InputError: no micro-batch divides the batch.
    """
    if isinstance(scenario, OperatorScenario):
        return predict_operator(scenario)
    return predict_step(scenario, constants)
