"""Constants of engines fitted to generations that were measured: the fits, the catalog's sets, and their entries."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.error_figures import conformal_spread, error_statistics, likeness
from sightline.calibration.fits import ORDINARY_ERROR, Array, Constants, Prior, fit_with_priors, priors_of
from sightline.calibration.manifest import manifest
from sightline.calibration.parts.part import DATE
from sightline.calibration.training_constants import FULL_WEIGHT
from sightline.catalog import entry
from sightline.catalog.index import minor_release
from sightline.content import record
from sightline.cost.prices import OperatorCost, Prices
from sightline.prediction.beliefs import Beliefs, Gradient, learned
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.phases import PricedGeneration
from sightline.prediction.generation.policies import Latencies, Workers, latencies
from sightline.prediction.generation.replica import (
    PricedPass,
    in_bulk_s,
    slowdowns_of,
    slowed,
    time_in_engine,
    worker_of,
)
from sightline.prediction.generation.sites import NOTHING, RATES, EngineAtSite, shifts, source_site
from sightline.prediction.generation.uncertainty import (
    format_of,
    kind_of,
)
from sightline.prediction.pass_times import PassTimes
from sightline.program import Collective, MatrixVector, Operator
from sightline.quantities import larger, significant
from sightline.scenario import GenerationScenario

FEWEST_ROWS = 5
"""Distinct measurements that a free constant moves."""


MOVED_BY, NOTICED = 1.1, 0.01
"""A measurement notices a constant if a value larger by this factor changes its prediction by this share."""


AT_BOUND = 0.02
"""Distance of logarithms within which a constant lies on its bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFit:
    """The constants that measurements support, and why others are held."""

    constants: Mapping[str, float]
    rows: Mapping[str, int]
    """Distinct measurements that notice each."""
    held: Mapping[str, str]
    """Why a constant that was asked for is at its prior."""


def supported_fit(
    predict: Callable[[Constants], Array],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    *,
    starts: Sequence[Constants] = (),
) -> SupportedFit:
    """Fit the constants named in ``priors``, without those that too few rows notice and those that end on a bound.

    ``predict`` takes a constant that it is not given at its prior's value. Of those on a bound the one that fewest rows
    notice is held first, because it may have pushed the others there.
    """
    free, held = dict(priors), dict[str, str]()
    fitted = fit_with_priors(predict, measured, weights, free, starts=starts)
    while True:
        rows = {name: noticing_rows(predict, fitted, name, prior.value) for name, prior in free.items()}
        lacking = {n: f"{k} of {FEWEST_ROWS} rows notice it" for n, k in rows.items() if k < FEWEST_ROWS}
        if not lacking:
            bound = [name for name in free if _on_bound(fitted[name], free[name])]
            lacking = {min(bound, key=rows.__getitem__): "ends on its bound"} if bound else {}
        if not lacking:
            return SupportedFit(constants=fitted, rows=rows, held=held)
        held |= lacking
        free = {name: prior for name, prior in free.items() if name not in lacking}
        fitted = fit_with_priors(predict, measured, weights, free, near=fitted) if free else {}


def noticing_rows(predict: Callable[[Constants], Array], fitted: Constants, name: str, usual: float) -> int:
    """Return how many distinct predictions change by `NOTICED` where a constant grows by `MOVED_BY`.

    From where it was fitted or from its ``usual`` value, whichever more notice: measurements that would notice a usual
    time of the host and do not show one support that it is small.
    """
    return max(_noticing(predict, {**fitted, name: value}, name) for value in (fitted[name], usual))


def _noticing(predict: Callable[[Constants], Array], values: Constants, name: str) -> int:
    before, after = predict(values), predict({**values, name: values[name] * MOVED_BY})
    moved = np.abs(np.log(after / before)) >= np.log1p(NOTICED)
    return len({float(f"{value:.9g}") for value in before[moved]})


def _on_bound(value: float, prior: Prior) -> bool:
    return bool(min(np.log(value / prior.low), np.log(prior.high / value)) < AT_BOUND)


def held_out_errors(
    predict: Callable[[Mapping[str, float]], Array],
    fitted: Mapping[str, float],
    measured: Array,
    weights: Array,
    priors: Mapping[str, Prior],
    groups: Sequence[object],
) -> Array:
    """Return the logarithmic errors that measurements would have had in a fit without their group.

    The fit is taken as linear near its end: with the hat matrix H, a group's errors become ``(1 - H_gg)^-1 e_g``, as
    leaving out is for least squares (Cook and Weisberg 1982). Few measurements and many constants widen them much.
    """
    errors = np.log(predict(fitted) / measured)
    step = 0.02
    moved = [np.log(predict({**fitted, name: fitted[name] * np.exp(step)}) / measured) for name in priors]
    slopes = (np.array(moved) - errors).T / step
    scale = weights / weights.mean()
    prior = np.diag([(ORDINARY_ERROR / p.spread) ** 2 for p in priors.values()])
    spread = np.linalg.inv(slopes.T @ (scale[:, None] * slopes) + prior)
    out = np.empty_like(errors)
    for group in set(groups):
        own = np.array([g == group for g in groups])
        hat = slopes[own] @ spread @ slopes[own].T * scale[own]
        out[own] = np.linalg.solve(np.eye(int(own.sum())) - hat, errors[own])
    return out


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
    in_bulk: Array
    """Seconds of the leg that binds an operator in bulk."""
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
            in_bulk=np.array([float(in_bulk_s(op, price)) for op, price in zip(operators, prices, strict=True)]),
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
        slowdowns = np.array(
            [
                (c.collective_slowdown,) * 2 if isinstance(op, Collective) else slowdowns_of(op, c)
                for op in self.examples
            ]
        )
        few, bulk = slowdowns[self.kinds].T
        gap_s = np.where(self.sends > 0, c.synchronization_s, c.kernel_gap_s)
        seconds = self.counts * np.maximum(slowed(self.alone, self.in_bulk, few, bulk) + self.gaps * gap_s, self.least)
        work = seconds * (1.0 - self.sends)
        compute_s, work_s = float(work @ self.bound), float(work.sum())
        return PassTimes(compute_s, work_s - compute_s, float(seconds @ self.sends), self.launches)


def tabled(workers: Workers) -> Workers:
    """Return workers whose passes are columns, as far as these say all."""
    found = {id(of): _tabled(of) for of in (workers.prefilling, workers.decoding, *workers.lighter)}
    lighter = [found[id(of)] for of in workers.lighter]
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


FEWEST_LEFT = 10
"""Cases that a fit keeps where something is left out; fewer hold constants to their priors and say nothing of it."""


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

    The spreads are conformal: four in five errors of the fit's cases lie within them, of first tokens, of dense models
    and of mixtures, each as it would be without its group, and counting groups whose errors resemble each other for
    fewer. Cases that the source leaves two readings of say nothing on how far off the right one is.
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
    steady, mixtures = ~first & ~pools, np.array([case.scenario.model.experts is not None for case in cases])
    apart = min((steady & mixtures).sum(), (steady & ~mixtures).sum()) >= FEWEST_LEFT
    usual = steady & ~mixtures if apart else steady
    spreads = {
        "ttft_spread": _spread(errors, groups, first if first.any() else usual),
        "tpot_spread": _spread(errors, groups, usual),
        "shared_share": significant(likeness(errors, groups)),
    }
    spreads |= {"experts_spread": _spread(errors, groups, steady & mixtures)} if apart else {}
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


LEAST = 0.005
"""Shifts of a logarithm below this are none."""


def site_shifts(fits: Sequence[tuple[str, InferenceFit]]) -> dict[str, dict[str, float]]:
    """Return the shifts of constants' logarithms by site, over all engines' sets and those of their release lines."""
    rows: dict[str, list[tuple[EngineAtSite, str, float]]] = defaultdict(list)
    for engine, fit in fits:
        base = InferenceConstants.from_mapping(fit.constants)
        for case in fit.cases:
            if case.scenario.plan.engine.name == engine:
                site = source_site(case.source, engine, case.scenario.cluster.device)
                at = EngineAtSite(scenario=case.scenario, workers=case.workers, base=base, site=site)
                rows[site].append((at, case.quantity, case.value))
    return {site: found for site, of in sorted(rows.items()) if (found := _shifts(site, of))}


def _shifts(site: str, rows: Sequence[tuple[EngineAtSite, str, float]]) -> dict[str, float]:
    """The shifts at one site."""

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [at.gradient(quantity, beliefs) for at, quantity, _ in rows]
        return np.array([logarithm for logarithm, _ in found]), [slopes for _, slopes in found]

    measured = np.log([1.0 / value if quantity in RATES else value for _, quantity, value in rows])
    noise = np.eye(len(rows)) * entry("generation", "constants")["case"] ** 2 * max(1.0, len(rows) / FULL_WEIGHT)
    found = learned(NOTHING, predict, measured, noise, robust=True)
    return {name: round(value, 3) for name, value in shifts(found, site).items() if abs(value) >= LEAST}


WRITTEN_BY = "python scripts/fit_inference.py --data DIR"
KINDS: Mapping[str, Mapping[str, Prior]] = {
    kind: priors_of(stated) for kind, stated in {"": {}, **manifest("inference")["kinds"]}.items()
}
"""Priors of engines that launch kernel by kernel from Python, and of those whose loop is compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSet:
    """One set of constants: an engine's, or that of one of its release lines."""

    engine: str
    line: str = ""
    others: Sequence[str] = ()
    """Engines that run the same kernels from the same host code, whose cases count as the engine's."""
    suites: Sequence[str]
    free: Sequence[str]
    apart: bool = False
    """The line is another program than the engine's own set is of: its constants lie around the prior."""
    kind: str = ""
    """Which priors of its own it has; empty for none."""
    priors: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Priors of its own, in place of the usual ones."""
    lines: Sequence[str] = ()
    """Release lines whose cases count; empty for all."""
    left_out: Sequence[str] = ()
    """Release lines whose cases count in no set."""
    group: str = ""
    """What is left out together where spreads are found, as the suites were split; empty for devices or models."""


def _engine_set(told: Mapping[str, Any], groups: Mapping[str, Sequence[str]]) -> EngineSet:
    """A set of the manifest; groups of constants stand for their members."""
    return EngineSet(**{**told, "free": [name for word in told["free"] for name in groups.get(word, [word])]})


SETS = tuple(_engine_set(told, manifest("inference")["groups"]) for told in manifest("inference")["fits"])
"""Every set, an engine's own among those of its release lines."""
Fits = Mapping[str, tuple[EngineSet, InferenceFit]]
"""An engine's fits by release line: its own first, called by no name."""


def separate_lines(engine: str) -> list[str]:
    """Return the release lines of an engine that have sets of their own."""
    return [one.line for one in SETS if one.engine == engine and one.line]


def fits_of(
    engine: str, cases_of: Callable[[EngineSet], Sequence[MeasuredGeneration]]
) -> dict[str, tuple[EngineSet, InferenceFit]]:
    """Return the engine's own fit, then those of its release lines, near it."""
    found: dict[str, tuple[EngineSet, InferenceFit]] = {}
    for one in sorted((one for one in SETS if one.engine == engine), key=lambda one: bool(one.line)):
        near = found[""][1].constants if one.line and not one.apart else {}
        priors = {**(priors_around(near) if near else PRIORS), **KINDS[one.kind], **priors_of(one.priors)}
        found[one.line] = one, fit_inference(cases_of(one), one.free, priors)
    return found


def entry_of(found: Fits) -> dict[str, Any]:
    """Return the engine's catalog entry; what was measured of a line that stands apart says nothing of the others."""
    alike = [fit.constants for one, fit in found.values() if not one.apart]
    seen: dict[str, Any] = {
        name: sorted({x for constants in alike for x in constants[name]})
        for name in ("fitted_devices", "fitted_kinds", "fitted_formats", "fitted_experts")
    }
    seen["fitted_context"] = max(constants["fitted_context"] for constants in alike)
    network = "collective_slowdown" in found[""][1].supported.constants
    links = found[""][1].constants["fitted_links"] if network else []
    entry = {"written_by": WRITTEN_BY, "date": DATE, **_figures(*found[""], seen | {"fitted_links": links})}
    versions = {
        line: _figures(one, fit, {} if one.apart else seen | _links(fit, links))
        for line, (one, fit) in found.items()
        if line
    }
    return entry | ({"versions": versions} if versions else {})


def _links(fit: InferenceFit, own: Sequence[str]) -> dict[str, Any]:
    """Links that a line's factor of collectives was fitted on: its own, or where it has the engine's, that one's."""
    return {} if "collective_slowdown" in fit.supported.constants else {"fitted_links": list(own)}


def releases_of(cases: Sequence[MeasuredGeneration]) -> list[str]:
    """Return the release lines that the cases state."""
    stated = {case.scenario.plan.engine.version for case in cases} - {""}
    return sorted({minor_release(version) for version in stated})


def _figures(of: EngineSet, found: InferenceFit, seen: Mapping[str, Any]) -> dict[str, Any]:
    supported = found.supported
    return {
        "evidence": "fitted",
        "releases": releases_of(found.cases),
        "source": f"fit splits of {', '.join(of.suites)}",
        "sources": sorted({case.source for case in found.cases}),
        "free": list(supported.constants),
        "held": dict(supported.held),
        "rows": {"fitted": len(found.cases), "noticing": dict(supported.rows)},
        "residuals": {name: dict(r) for name, r in found.residuals.items()},
        "constants": {**found.constants, **seen},
    }
