"""What training frameworks reach beyond single operators, fitted to measured steps.

A suite may hold few steps, so every constant has a prior: where it would lie by physics and how far it may stray. The
fit is the maximum a posteriori: robust squares of logarithmic errors plus squared distances to the priors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import FitResult, error_statistics
from sightline.calibration.fits.priors import Prior, conformal_spread, fit_with_priors
from sightline.prediction.training.framework import TrainingConstants
from sightline.prediction.training.predict import predict
from sightline.scenario import Scenario

Array = NDArray[np.float64]


PRIORS: Mapping[str, Prior] = {
    # Consumer boards clock above the frequency of their datasheet, so it may be well below 1.
    "matmul_slowdown": Prior(value=1.05, spread=0.10, low=0.75, high=1.5),
    "unsharded_head_slowdown": Prior(value=1.0, spread=1.0, low=1.0, high=4.0),
    "expert_matmul_slowdown": Prior(value=1.15, spread=0.15, low=1.0, high=2.5),
    "attention_slowdown": Prior(value=1.0, spread=0.2, low=0.7, high=1.8),
    "memory_fraction": Prior(value=0.85, spread=0.1, low=0.5, high=0.95),
    "vector_fraction": Prior(value=0.25, spread=0.5, low=0.05, high=1.0),
    "kernel_latency_s": Prior(value=1.5e-6, spread=0.3, low=5e-7, high=5e-6),
    "launch_forward_s": Prior(value=2e-5, spread=1.0, low=1e-6, high=2e-4),
    "launch_backward_s": Prior(value=1e-5, spread=1.0, low=1e-6, high=2e-4),
    "synchronization_s": Prior(value=5e-5, spread=1.0, low=1e-6, high=1e-3),
    "micro_batch_s": Prior(value=1e-3, spread=1.0, low=1e-5, high=2e-2),
    "step_s": Prior(value=1e-2, spread=1.0, low=1e-3, high=0.2),
    "overlap_slowdown": Prior(value=0.2, spread=0.5, low=0.02, high=1.0),
    "collective_slowdown": Prior(value=1.2, spread=0.2, low=1.0, high=2.2),
    "mxfp8_slowdown": Prior(value=1.05, spread=0.05, low=1.0, high=1.3),
    "nvfp4_slowdown": Prior(value=1.25, spread=0.15, low=1.0, high=2.0),
}
"""Fractions and slowdowns near 1; host times between a compiled and an interpreted loop."""

SLOW_HOSTS = ({"launch_forward_s": 8e-5, "launch_backward_s": 4e-5}, {"launch_forward_s": 4e-5})
"""Other starts of the search: interpreters that need long for every kernel, or for those of a forward pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A training step somebody timed; ``weight`` evens out suites of different size."""

    scenario: Scenario
    seconds: float
    weight: float = 1.0
    quantity: str = "step_time_s"
    """What of the step was timed, by the name of the profile's attribute."""


def predicted_seconds(steps: Sequence[MeasuredStep], constants: TrainingConstants) -> Array:
    """Predicted seconds of each step."""
    return np.array([float(getattr(predict(step.scenario, constants), step.quantity)) for step in steps])


def fit_training(steps: Sequence[MeasuredStep], free: Sequence[str], given: Mapping[str, Any]) -> FitResult:
    """Return the constants ``free`` fitted to measured steps, the others as ``given`` or at their priors.

    Each step counts with its weight, normalised so that the data's total weight is their number.
    """
    base = {name: prior.value for name, prior in PRIORS.items()} | dict(given)
    seconds = np.array([step.seconds for step in steps])

    def predict_with(values: Mapping[str, float]) -> Array:
        return predicted_seconds(steps, TrainingConstants.from_mapping(base | dict(values)))

    fitted = fit_with_priors(
        predict_with,
        seconds,
        np.array([step.weight for step in steps]),
        {name: PRIORS[name] for name in free},
        starts=[{name: value for name, value in host.items() if name in free} for host in SLOW_HOSTS],
    )
    constants = base | fitted
    predicted = predicted_seconds(steps, TrainingConstants.from_mapping(constants))
    constants["spread"] = conformal_spread(np.abs(np.log(predicted / seconds)))
    residuals = error_statistics(predicted, seconds)
    return FitResult(constants=constants, rows={"fitted": len(steps)}, residuals={"fit": residuals})
