"""What inference engines reach beyond single operators, fitted to measured generations.

Every case is priced once; only the engine's constants vary, which are few and have priors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits import Array, FitResult, Prior, fit_with_priors, priors_of
from sightline.calibration.manifest import manifest
from sightline.calibration.residuals import conformal_spread, error_statistics, held_out_errors
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.latencies import Latencies, latencies
from sightline.prediction.generation.policies import Workers
from sightline.quantities import significant

PRIORS: Mapping[str, Prior] = priors_of(manifest("inference")["priors"])
"""Where each constant lies before anything is measured."""

SLOW_HOST = {"launch_s": 4e-5, "iteration_s": 1e-2}
"""Another start of the search: a host that binds, since one that never does has no gradient."""


FEWEST_GROUPS = 6
"""Fewer devices than these hold too much of a fit each for leaving one out to say something."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredGeneration:
    """One quantity of a generation that somebody measured; ``weight`` evens out suites of different size."""

    workers: Workers
    quantity: str
    """ttft_s, tpot_s, latency_s or output_tokens_per_s."""
    value: float
    weight: float = 1.0
    group: str = ""
    """What is left out together where spreads are found; its device, or model, where nothing is said."""
    pair: str = ""
    """The model on the device, where what was never fitted has a spread of its own."""
    sure: bool = True
    """Whether the source says what was run; else there is another reading of it, and the case's error is no spread."""


def _latencies(workers: Workers, constants: InferenceConstants) -> Latencies:
    return latencies(workers, constants.running_on(workers.scenario.cluster))


def predicted_values(cases: Sequence[MeasuredGeneration], constants: InferenceConstants) -> Array:
    """Predicted value of each case's quantity."""
    return np.array([float(getattr(_latencies(case.workers, constants), case.quantity)) for case in cases])


def fit_inference(cases: Sequence[MeasuredGeneration], free: Sequence[str], given: Mapping[str, Any]) -> FitResult:
    """Return the constants ``free`` fitted to measured generations, the others as ``given`` or at their priors.

    The spreads are conformal: four in five errors of the fit's cases lie within them, of first tokens and of the rest,
    each as it would be without its group, and counting groups whose errors resemble each other for fewer. Cases that
    the source leaves two readings of say nothing on how far off the right one is.
    """
    base = {name: prior.value for name, prior in PRIORS.items()} | dict(given)
    measured = np.array([case.value for case in cases])
    weights = np.array([case.weight for case in cases])
    priors = {name: PRIORS[name] for name in free}

    def predict_with(values: Mapping[str, float]) -> Array:
        return predicted_values(cases, InferenceConstants.from_mapping(base | dict(values)))

    fitted = fit_with_priors(predict_with, measured, weights, priors, starts=[SLOW_HOST])
    constants = base | fitted
    predicted = predict_with(fitted)

    def errors_without(groups: Sequence[object]) -> Array:
        return held_out_errors(predict_with, fitted, measured, weights, priors, groups)

    groups = [str(group) for group in _groups(cases)]
    errors = errors_without(groups)
    sure = np.array([case.sure for case in cases])
    first = np.array([case.quantity == "ttft_s" for case in cases])
    pools = np.array([case.workers.scenario.plan.disaggregate is not None for case in cases])
    constants |= {
        "ttft_spread": _spread(errors, groups, first),
        "tpot_spread": _spread(errors, groups, ~first & ~pools),
    }
    if pools.any():
        constants["pools_spread"] = _spread(errors, groups, pools & sure)
    pairs = [case.pair for case in cases]
    if all(pairs):
        constants["fitted_on"] = sorted(set(pairs))
    if len(set(pairs)) >= FEWEST_GROUPS:
        known, unseen = _spread(errors, groups, sure), _spread(errors_without(pairs), pairs, sure)
        constants["unseen_spread"] = significant(np.sqrt(max(unseen**2 - known**2, 0.0)))
    residuals = {"fit": error_statistics(predicted, measured)}
    return FitResult(constants=constants, rows={"fitted": len(cases)}, residuals=residuals)


def _spread(errors: Array, groups: Sequence[str], chosen: NDArray[np.bool_]) -> float:
    """The spread of the chosen errors, or of all where none is chosen."""
    kept = chosen if chosen.any() else ~chosen
    return conformal_spread(errors[kept], [group for group, is_kept in zip(groups, kept, strict=True) if is_kept])


def _groups(cases: Sequence[MeasuredGeneration]) -> Sequence[object]:
    """What is left out together: what the cases say, else those of a device, or each on its own where these are few."""
    stated = [case.group for case in cases]
    if all(case.pair for case in cases) and len(set(stated)) < FEWEST_GROUPS:
        return range(len(cases))
    if all(stated):
        return stated
    devices = [case.workers.scenario.cluster.device.name for case in cases]
    return devices if len(set(devices)) >= FEWEST_GROUPS else range(len(cases))
