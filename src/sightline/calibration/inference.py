"""What inference engines reach beyond single operators, fitted to measured generations.

Every case is priced once; only the engine's constants vary, which are few and have priors. An engine's constants are
its deviation from the prior that all engines share; those of a release line are its deviation from the engine's.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import conformal_spread, error_statistics, likeness
from sightline.calibration.fits import Array, Constants, Prior, SupportedFit, priors_of, supported_fit
from sightline.calibration.manifest import manifest
from sightline.calibration.residuals import held_out_errors
from sightline.content import record
from sightline.cost.prices import OperatorCost, Prices
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import PricedGeneration
from sightline.prediction.generation.policies import Latencies, Workers, latencies
from sightline.prediction.generation.replica import PricedPass, slowdown_of, time_in_engine, worker_of
from sightline.prediction.generation.uncertainty import format_of, kind_of
from sightline.prediction.pass_times import PassTimes
from sightline.program import Collective, MatrixVector, Operator
from sightline.quantities import larger, significant
from sightline.scenario import GenerationScenario


class EnginePrices(dict[int, OperatorCost]):
    """Prices of a pass in an engine, of each operator when it is first asked for."""

    def __init__(self, of: "TabledPass", constants: InferenceConstants) -> None:
        super().__init__()
        self.of, self.constants = of, constants

    def __missing__(self, key: int) -> OperatorCost:
        """The price of the operator of this identity."""
        alone = self.of.prices[key]
        time_s = larger(time_in_engine(self.of.known[key], alone, self.constants), alone.least_s)
        self[key] = alone._replace(time_s=time_s)
        return self[key]


@record
class TabledPass(PricedPass):
    """A priced pass without matrix-vector kernels: a time is ``alone x slowdown + gap``, or the floor."""

    known: dict[int, Operator]
    examples: Sequence[Operator]
    """One of all that constants treat alike."""
    kinds: Array
    """Which of them stands for each operator."""
    counts: Array
    alone: Array
    least: Array
    gaps: Array
    """Gaps that come after it: its kernels, or for a collective 1 where ranks wait for each other."""
    bound: Array
    """1 where arithmetic bounds an operator."""
    sends: Array
    """1 where it is a collective."""
    launches: float

    @classmethod
    def of(cls, priced: PricedPass) -> Self:
        """The columns of a pass."""
        pairs = [(block.count, op) for block in priced.program.blocks for op in block.operators]
        operators, prices = [op for _, op in pairs], [priced.prices[id(op)] for _, op in pairs]
        alike: dict[Hashable, int] = {}
        kinds = [alike.setdefault(_kind(op), len(alike)) for op in operators]
        counts = np.array([float(count) * op.count for count, op in pairs], dtype=float)
        kernels = np.array([op.kernels for op in operators], dtype=float)
        alone = np.array([price.time_s for price in prices], dtype=float)
        sends = np.array([isinstance(op, Collective) for op in operators], dtype=float)
        return cls(
            **{f.name: getattr(priced, f.name) for f in fields(PricedPass)},
            known={id(op): op for op in operators},
            examples=[operators[kinds.index(number)] for number in range(len(alike))],
            kinds=np.array(kinds),
            counts=counts,
            alone=alone,
            least=np.array([price.least_s for price in prices], dtype=float),
            gaps=np.where(sends > 0, alone > 0, kernels),
            bound=np.array([price.compute_s >= price.memory_s for price in prices], dtype=float),
            sends=sends,
            launches=float(counts @ kernels),
        )

    def in_engine(self, constants: InferenceConstants) -> Prices:
        """Return the prices as the engine runs the operators, when they are asked for."""
        return EnginePrices(self, constants)

    def times(self, prices: Prices) -> PassTimes:
        """Return the seconds of the pass, as `PricedPass.times` does."""
        if not isinstance(prices, EnginePrices):
            return PricedPass.times(self, prices)
        c = prices.constants
        slowdown = np.array(
            [c.collective_slowdown if isinstance(op, Collective) else slowdown_of(op, c) for op in self.examples]
        )
        gap_s = np.where(self.sends > 0, c.synchronization_s, c.kernel_gap_s)
        seconds = self.counts * np.maximum(self.alone * slowdown[self.kinds] + self.gaps * gap_s, self.least)
        work = seconds * (1.0 - self.sends)
        compute_s, work_s = float(work @ self.bound), float(work.sum())
        return PassTimes(compute_s, work_s - compute_s, float(seconds @ self.sends), self.launches)


def tabled(workers: Workers) -> Workers:
    """Return workers whose passes are columns, as far as these say all."""
    all_of = (workers.prefilling, workers.decoding, workers.lighter)
    found = {id(priced): _tabled(priced) for priced in all_of if priced is not None}
    lighter = None if workers.lighter is None else found[id(workers.lighter)]
    return replace(
        workers, prefilling=found[id(workers.prefilling)], decoding=found[id(workers.decoding)], lighter=lighter
    )


def _tabled(priced: PricedGeneration) -> PricedGeneration:
    return replace(priced, passes={phase: _columns(of) for phase, of in priced.passes.items()})


def _columns(priced: PricedPass) -> PricedPass:
    own_kernels = any(isinstance(op, MatrixVector) for op in priced.program.operators)
    return priced if own_kernels else TabledPass.of(priced)


def _kind(op: Operator) -> Hashable:
    """What constants of engines tell operators apart by."""
    return (type(op), *(getattr(op, name, None) for name in ("dtype", "kernel", "decode")))


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
    asked: Mapping[str, Prior]
    """Priors of the constants that were asked for."""
    constants: Mapping[str, Any]
    residuals: Mapping[str, Mapping[str, float]]

    @property
    def measured(self) -> Array:
        """Measured values."""
        return np.array([case.value for case in self.cases])

    @property
    def weights(self) -> Array:
        """How much each case counts."""
        return np.array([case.weight for case in self.cases])

    def errors_without(self, groups: Sequence[object]) -> Array:
        """Return logarithmic errors as they would be without the group that a case belongs to, one linear step away."""
        kept = {name: self.asked[name] for name in self.supported.constants}
        if not kept:
            return np.log(self.predict({}) / self.measured)
        return held_out_errors(self.predict, self.supported.constants, self.measured, self.weights, kept, list(groups))

    def errors_fitted_without(self, groups: Sequence[str]) -> Array:
        """Return logarithmic errors in fits without the group that a case belongs to, each searched for from the start.

        Where most of the cases leave, constants move too far for a linear step, and other ones may be held.
        """
        errors = np.empty(len(groups))
        for group in dict.fromkeys(groups):
            own = np.array([name == group for name in groups])
            found = supported_fit(
                lambda values, kept=~own: self.predict(values)[kept],  # type: ignore[misc]
                self.measured[~own],
                self.weights[~own],
                self.asked,
                starts=[SLOW_HOST],
            )
            errors[own] = np.log(self.predict(found.constants) / self.measured)[own]
        return errors


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
    cases: Sequence[MeasuredGeneration], free: Sequence[str], priors: Mapping[str, Prior] = PRIORS
) -> InferenceFit:
    """Return the constants ``free`` fitted to measured generations, the others at their priors.

    The spreads are conformal: four in five errors of the fit's cases lie within them, of first tokens and of the rest,
    each as it would be without its group, and counting groups whose errors resemble each other for fewer. Cases that
    the source leaves two readings of say nothing on how far off the right one is.
    """
    base = {name: prior.value for name, prior in priors.items()} | _seen(cases)
    columns = [replace(case, workers=tabled(case.workers)) for case in cases]

    def predict_with(values: Mapping[str, float]) -> Array:
        return predicted_values(columns, InferenceConstants.from_mapping(base | dict(values)))

    measured, weights = (np.array([getattr(case, name) for case in cases]) for name in ("value", "weight"))
    asked = {name: priors[name] for name in free}
    found = supported_fit(predict_with, measured, weights, asked, starts=[SLOW_HOST])
    constants = base | dict(found.constants)
    fit = InferenceFit(
        cases=columns,
        predict=predict_with,
        supported=found,
        asked=asked,
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
        "fitted_experts": sorted({worker_of(s).formats.parts["experts"] for s in asked if s.model.experts is not None}),
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


def _groups(cases: Sequence[MeasuredGeneration]) -> Sequence[object]:
    """What is left out together: what the cases say, else those of a device, or each on its own where these are few."""
    stated = [case.group for case in cases]
    if all(case.pair for case in cases) and len(set(stated)) < FEWEST_GROUPS:
        return range(len(cases))
    if all(stated):
        return stated
    devices = [case.scenario.cluster.device.name for case in cases]
    return devices if len(set(devices)) >= FEWEST_GROUPS else range(len(cases))
