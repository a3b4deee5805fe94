"""What inference engines reach beyond single operators, fitted to measured generations.

Every case is priced once; only the engine's constants vary, which are few and have priors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.fits.fitting import FitResult, error_statistics
from sightline.calibration.fits.priors import Prior, conformal_spread, fit_with_priors, held_out_errors
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.latencies import latencies
from sightline.prediction.generation.policies import Workers
from sightline.quantities import significant

Array = NDArray[np.float64]

PRIORS: Mapping[str, Prior] = {
    "matmul_slowdown": Prior(value=1.05, spread=0.1, low=0.8, high=1.6),
    "nvfp4_slowdown": Prior(value=1.25, spread=0.1, low=0.7, high=2.0),
    "fp8_block_slowdown": Prior(value=1.3, spread=0.1, low=0.7, high=2.0),
    "prefill_attention_slowdown": Prior(value=1.05, spread=0.2, low=0.6, high=2.5),
    "decode_attention_slowdown": Prior(value=1.05, spread=0.2, low=0.5, high=3.0),
    "prefill_experts_slowdown": Prior(value=1.05, spread=0.3, low=0.6, high=3.0),
    "experts_slowdown": Prior(value=1.05, spread=0.2, low=0.6, high=2.5),
    "elementwise_slowdown": Prior(value=1.0, spread=0.2, low=0.4, high=3.0),
    "collective_slowdown": Prior(value=1.0, spread=0.2, low=0.6, high=2.5),
    "long_prefill_slowdown": Prior(value=1.0, spread=2.0, low=1.0, high=10.0),
    "vector_memory_fraction": Prior(value=0.9, spread=0.1, low=0.5, high=1.0),
    "vector_unit_bandwidth": Prior(value=11.5e9, spread=0.2, low=1e9, high=1e11),
    "handover_s": Prior(value=1e-4, spread=1.0, low=1e-6, high=2e-3),
    "host_copy_bandwidth": Prior(value=6e9, spread=0.7, low=1e9, high=3e10),
    "synchronization_s": Prior(value=2e-6, spread=1.0, low=1e-7, high=1e-4),
    "kernel_gap_s": Prior(value=1e-6, spread=0.7, low=1e-7, high=2e-5),
    "launch_s": Prior(value=6e-6, spread=0.7, low=1e-6, high=1e-4),
    "iteration_s": Prior(value=1e-3, spread=1.0, low=1e-5, high=5e-2),
    "sequence_s": Prior(value=1e-5, spread=1.0, low=1e-8, high=1e-3),
    "drafting_s": Prior(value=5e-4, spread=1.0, low=1e-6, high=2e-2),
    "drafted_sequence_s": Prior(value=2e-5, spread=1.0, low=1e-8, high=1e-3),
    "prefill_s": Prior(value=5e-3, spread=1.0, low=1e-5, high=2e-1),
    "prompt_token_s": Prior(value=1e-7, spread=1.0, low=1e-9, high=1e-4),
}
"""Slowdowns near 1; host times between a compiled and an interpreted loop; what a unit reads as in llama.cpp, whose
kernels were measured on most devices."""

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


def predicted_values(cases: Sequence[MeasuredGeneration], constants: InferenceConstants) -> Array:
    """Predicted value of each case's quantity."""
    return np.array([float(getattr(latencies(case.workers, constants), case.quantity)) for case in cases])


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

    fitted = fit_with_priors(
        predict_with,
        measured,
        weights,
        priors,
        starts=[{name: value for name, value in SLOW_HOST.items() if name in free}],
    )
    constants = base | fitted
    predicted = predicted_values(cases, InferenceConstants.from_mapping(constants))

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
