"""What training frameworks reach beyond single operators, fitted to measured steps: of suites, or of stored runs.

A suite may hold few steps, so every constant has a prior: where it would lie by physics and how far it may stray. The
fit is the maximum a posteriori: robust squares of logarithmic errors plus squared distances to the priors.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sightline.calibration.fits import Array, FitResult, Prior, fit_with_priors, priors_of
from sightline.calibration.from_tables import Calibration
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import PartFit
from sightline.calibration.residuals import conformal_spread, error_statistics
from sightline.cost.device_model import device_model
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.prediction.training.framework import TrainingConstants, load_training, training_family
from sightline.prediction.training.predict import predict
from sightline.prediction.training.set_names import set_of
from sightline.runs import Run
from sightline.scenario import Scenario

PRIORS: Mapping[str, Prior] = priors_of(manifest("training")["priors"])
"""Where each constant lies before anything is measured."""

SLOW_HOSTS = ({"launch_forward_s": 8e-5, "launch_backward_s": 4e-5}, {"launch_forward_s": 4e-5})
"""Other starts of the search: interpreters that need long for every kernel, or for those of a forward pass."""
ON_PROCESSOR = ("matmul_slowdown", "attention_slowdown", "micro_batch_s", "step_s")
"""What steps on a processor tell beyond operators; their priors keep few steps from telling more than they know."""
ON_DEVICE = (*ON_PROCESSOR, "launch_forward_s", "launch_backward_s")
TRAINING_TASKS = ("pretrain", "finetune")


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
        starts=SLOW_HOSTS,
    )
    constants = base | fitted
    predicted = predict_with(fitted)
    constants["spread"] = conformal_spread(np.abs(np.log(predicted / seconds)))
    residuals = error_statistics(predicted, seconds)
    return FitResult(constants=constants, rows={"fitted": len(steps)}, residuals={"fit": residuals})


def measured_steps(runs: Iterable[Run]) -> list[MeasuredStep]:
    """Return the training steps in runs that ended well; raises `InputError` where a scenario no longer loads."""
    return [
        MeasuredStep(scenario=scenario_from_mapping(run.scenario), seconds=float(run.result["step_time_s"]))
        for run in runs
        if run.status == "ok"
        and (run.scenario.get("workload") or {}).get("task") in TRAINING_TASKS
        and "step_time_s" in run.result
    ]


def calibrate_training(steps: Sequence[MeasuredStep], source: str) -> Calibration:
    """Return the training constants of the one device and framework that ``steps`` were measured on.

    What few steps cannot tell stays as it is for the device; everything fitted has a prior.

    Raises:
        InputError: the steps are of several devices or frameworks.
    """
    first = steps[0].scenario
    for what, names in (
        ("devices", {s.scenario.cluster.device.name for s in steps}),
        ("frameworks", {s.scenario.plan.framework.name for s in steps}),
    ):
        if len(names) > 1:
            raise InputError(
                f"--from-run: the runs are of {len(names)} {what}, {', '.join(sorted(names))}; name those of one"
            )
    framework = first.plan.framework.name
    free = ON_DEVICE if device_model(first.cluster.device).asynchronous else ON_PROCESSOR
    family = training_family(first.cluster.device, framework)
    constants, _ = load_training(family, *set_of(first, family))
    result = fit_training(steps, free, asdict(constants))
    chosen = {"evidence": "calibrated", "source": source, **result.constants}
    content = {"frameworks": {framework: chosen, "reference": chosen}}
    fitted = replace(result, constants={name: result.constants[name] for name in (*free, "spread")})
    fit = PartFit(content=content, fits={framework: fitted})
    return Calibration(device=first.cluster.device.name, part="training", fit=fit, source=source, covered={})
