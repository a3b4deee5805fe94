"""What inference engines reach beyond single operators, fitted to measured generations.

Every case is priced once; only the engine's constants vary, which are few and have priors. An engine's constants are
its deviation from the prior that all engines share; those of a release line are its deviation from the engine's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import conformal_spread, error_statistics, likeness
from sightline.calibration.fits import Array, Constants, Prior, priors_of
from sightline.calibration.manifest import manifest
from sightline.calibration.priced_once import tabled
from sightline.calibration.residuals import held_out_errors
from sightline.calibration.supported_fit import SupportedFit, supported_fit
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.latencies import Latencies, latencies
from sightline.prediction.generation.policies import Workers
from sightline.prediction.generation.uncertainty import format_of, kind_of
from sightline.quantities import significant
from sightline.scenario import GenerationScenario

PRIORS: Mapping[str, Prior] = priors_of(manifest("inference")["priors"])
"""Where each constant lies before anything is measured."""
LINE_SHARE = 0.5
"""Spread of a release line's constants around its engine's, over that of engines around the prior (estimate)."""

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
    """The model on the device, where cases are left out by themselves if groups are few."""
    sure: bool = True
    """Whether the source says what was run; else there is another reading of it, and the case's error is no spread."""
    source: str = ""
    """Who measured it."""

    @property
    def scenario(self) -> GenerationScenario:
        """What was run."""
        return self.workers.scenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InferenceFit:
    """A set of constants, what it was fitted to, and what that leaves unexplained."""

    cases: Sequence[MeasuredGeneration]
    predict: Callable[[Constants], Array] = field(repr=False)
    supported: SupportedFit
    priors: Mapping[str, Prior]
    """Of the constants that are free."""
    constants: Mapping[str, Any]
    residuals: Mapping[str, Mapping[str, float]]

    @property
    def measured(self) -> Array:
        """Measured values."""
        return np.array([case.value for case in self.cases])

    def errors_without(self, groups: Sequence[object]) -> Array:
        """Logarithmic errors as they would be without the group that a case belongs to."""
        weights = np.array([case.weight for case in self.cases])
        if not self.priors:
            return np.log(self.predict({}) / self.measured)
        return held_out_errors(
            self.predict, self.supported.constants, self.measured, weights, self.priors, list(groups)
        )


def _latencies(workers: Workers, constants: InferenceConstants) -> Latencies:
    return latencies(workers, constants.running_on(workers.scenario.cluster))


def predicted_values(cases: Sequence[MeasuredGeneration], constants: InferenceConstants) -> Array:
    """Predicted value of each case's quantity."""
    return np.array([float(getattr(_latencies(case.workers, constants), case.quantity)) for case in cases])


def priors_around(own: Mapping[str, Any]) -> dict[str, Prior]:
    """Return the priors of a release line: nearer to the ``own`` constants of its engine than engines are to theirs."""
    return {
        name: prior._replace(value=float(own[name]), spread=prior.spread * LINE_SHARE) if name in own else prior
        for name, prior in PRIORS.items()
    }


def fit_inference(
    cases: Sequence[MeasuredGeneration],
    free: Sequence[str],
    given: Mapping[str, Any],
    own: Mapping[str, Any] | None = None,
    *,
    known: SupportedFit | None = None,
) -> InferenceFit:
    """Return the constants ``free`` fitted to measured generations, the others as ``given`` or at their priors.

    ``own`` are the engine's constants where a release line of it is fitted; ``known`` is what an earlier fit of the
    same cases found, which is then not searched again. The spreads are conformal: four in five
    errors of the fit's cases lie within them, of first tokens and of the rest, each as it would be without its group,
    and counting groups whose errors resemble each other for fewer. Cases that the source leaves two readings of say
    nothing on how far off the right one is.
    """
    priors = priors_around(own or {})
    base = {name: prior.value for name, prior in priors.items()} | _seen(cases) | dict(given)
    columns = [replace(case, workers=tabled(case.workers)) for case in cases]

    def predict_with(values: Mapping[str, float]) -> Array:
        return predicted_values(columns, InferenceConstants.from_mapping(base | dict(values)))

    measured = np.array([case.value for case in cases])
    weights = np.array([case.weight for case in cases])
    asked = {name: priors[name] for name in free}
    found = known or supported_fit(predict_with, measured, weights, asked, starts=[SLOW_HOST])
    kept = {name: asked[name] for name in found.constants}
    constants = base | dict(found.constants)
    fit = InferenceFit(
        cases=cases,
        predict=predict_with,
        supported=found,
        priors=kept,
        constants=constants,
        residuals={"fit": error_statistics(predict_with(found.constants), measured)},
    )
    constants |= _spreads(fit)
    return fit


def _seen(cases: Sequence[MeasuredGeneration]) -> dict[str, Any]:
    """What the cases cover: devices, kinds of models, formats, context, and links that collectives ran over."""
    asked = [case.scenario for case in cases]
    linked = [s for s in asked if max(s.plan.tensor_parallel, s.plan.data_parallel) > 1]
    return {
        "fitted_devices": sorted({s.cluster.device.name for s in asked}),
        "fitted_kinds": sorted({kind_of(s.model) for s in asked}),
        "fitted_formats": sorted({format_of(s.plan) for s in asked}),
        "fitted_context": max(s.workload.prompt_tokens + s.workload.output_tokens for s in asked),
        "fitted_links": sorted({s.cluster.intra_node.topology for s in linked}),
    }


def _spreads(fit: InferenceFit) -> dict[str, float]:
    """How far off further cases are, of which those of a group resemble each other."""
    cases = fit.cases
    groups = [str(group) for group in _groups(cases)]
    errors = fit.errors_without(groups)
    sure = np.array([case.sure for case in cases])
    first = np.array([case.quantity == "ttft_s" for case in cases])
    pools = np.array([case.scenario.plan.disaggregate is not None for case in cases])
    spreads = {
        "ttft_spread": _spread(errors, groups, first),
        "tpot_spread": _spread(errors, groups, ~first & ~pools),
        "shared_share": significant(likeness(errors, groups)),
    }
    return spreads | ({"pools_spread": _spread(errors, groups, pools & sure)} if pools.any() else {})


def _spread(errors: Array, groups: Sequence[str], chosen: NDArray[np.bool_]) -> float:
    """The spread of the chosen errors, or of all where none is chosen."""
    kept = chosen if chosen.any() else ~chosen
    return conformal_spread(errors[kept], [group for group, is_kept in zip(groups, kept, strict=True) if is_kept])


def groups_of(fit: InferenceFit) -> list[str]:
    """What is left out together where the fit's own spreads are found."""
    return [str(group) for group in _groups(fit.cases)]


def _groups(cases: Sequence[MeasuredGeneration]) -> Sequence[object]:
    """What is left out together: what the cases say, else those of a device, or each on its own where these are few."""
    stated = [case.group for case in cases]
    if all(case.pair for case in cases) and len(set(stated)) < FEWEST_GROUPS:
        return range(len(cases))
    if all(stated):
        return stated
    devices = [case.scenario.cluster.device.name for case in cases]
    return devices if len(set(devices)) >= FEWEST_GROUPS else range(len(cases))
