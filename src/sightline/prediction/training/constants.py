"""What a training framework reaches beyond single operators: its constants, and the effects that shift them.

A constant is its value in the catalog, shifted by one effect of each cause that it depends on: on a logarithmic scale,
fractions by their log-odds. Effects of causes were estimated together over all published series of measurements; a
site's - one series, one user's cluster - is unknown to everybody else, so it widens an interval and moves no value.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from sightline.catalog import entry, names
from sightline.content import description
from sightline.cost.elementwise import ElementwiseConstants
from sightline.cost.families import Stated
from sightline.frameworks.framework import Ideal
from sightline.prediction.beliefs import Beliefs, Gradient, stated_spread, stated_spreads
from sightline.quantities import Number, as_python
from sightline.scenario import Device, Scenario


@description
class TrainingConstants(Stated):
    """Of one framework on one device; numbers, or arrays of one length."""

    matmul_slowdown: Number
    """Time of a matmul inside a long training run over that of the benchmark: clocks, cold caches, older libraries."""
    unsharded_head_slowdown: Number
    """Time of the head's matmuls without tensor parallelism over that of other matmuls; observed, not explained."""
    attention_slowdown: Number
    """The same for fused attention."""
    memory_fraction: Number
    """Share of the memory bandwidth that element-wise kernels reach."""
    kernel_latency_s: Number
    """Ramp-up and drain of an element-wise kernel on the device."""
    launch_forward_s: Number
    """Host time per kernel in a forward pass, which runs from Python."""
    launch_backward_s: Number
    """Host time per kernel in a backward pass, which the autograd engine runs."""
    synchronization_s: Number
    """Time that ranks lose by synchronization in a tensor-parallel collective, per doubling of the group."""
    vector_fraction: Number
    """Share of the vector units' rate that element-wise arithmetic (exponentials, random numbers) reaches."""
    micro_batch_s: Number
    """Host time per micro-batch that the device waits for: data, bookkeeping, loss."""
    step_s: Number
    """Host time per optimizer step that the device waits for: gradient norm, overflow check, logging."""
    overlap_slowdown: Number
    """Share of a hidden collective's time by which it slows the compute that it overlaps with."""
    collective_slowdown: Number
    """Time of a collective inside training over that of the benchmark: stragglers, contention, unpinned streams."""

    mxfp8_slowdown: Number = 1.05
    """Time of a product of operands with a scale per 32 elements over that of fp8 kernels with one per tensor."""
    nvfp4_slowdown: Number = 1.25
    """Time of a product of 4-bit operands over what the constants of fp8 kernels give at the 4-bit rate."""

    expert_matmul_slowdown: Number = 1.0
    """Time of the experts' products, a kernel each on several streams, over that of one kernel for all of them."""
    spread: float = 0.0
    """Four in five measured steps lie within exp(+-spread) of the prediction; 0 where nobody knows."""

    exact_gradients_slowdown: Number = 1.0
    """Time of an fp8 product for a gradient, whose sums are kept in fp32 throughout, over that of one that rounds them
    on the way as forward ones may (fast accumulation, on matrix units of Hopper); where 1 it is part of
    ``matmul_slowdown``."""

    @property
    def element_wise(self) -> ElementwiseConstants:
        """Those of element-wise kernels, which are bound by bytes in training, so that the cache helps them in full."""
        return ElementwiseConstants(
            memory_fraction=self.memory_fraction,
            cache_gain=1.0,
            vector_fraction=self.vector_fraction,
            kernel_latency_s=self.kernel_latency_s,
        )

    def format_slowdown(self, kernel: str) -> Number:
        """Time of a product in a format that nobody tabulated over that of the format it borrows constants from."""
        return {"mxfp8": self.mxfp8_slowdown, "nvfp4": self.nvfp4_slowdown}.get(kernel, 1.0)


def attention_kernel(scenario: Scenario) -> str:
    """Return the generation of fused attention kernels: the plan's, else what the framework takes on the device."""
    plan = scenario.plan
    return plan.attention_kernel or plan.framework.attention_kernel(scenario.cluster.device.calibration)


ANY = "any"
"""Key of the set that stands for every framework without its own."""
FORMER_ANY = "reference"
"""The same in sets that older versions wrote, before the framework of that name was a bound."""
_WEAKEST = ("estimated", "extrapolated", "calibrated")


def stated_set(scenario: Scenario) -> tuple[TrainingConstants, str] | None:
    """Return the set that the device's calibration states for the framework, and its evidence; None where it has none.

    Processors have one, for all frameworks, and so has a device that was fitted to its owner's runs (``sightline
    calibrate``). None applies to a bound, which is what a device could do, not what somebody measured on it.
    """
    device, framework = scenario.cluster.device, scenario.plan.framework
    if framework.is_bound:
        return None
    for family in (device.calibration, *device.relatives):
        if f"{family}/training" in names("calibrations"):
            sets = entry("calibrations", f"{family}/training")["frameworks"]
            chosen = next((sets[key] for key in (framework.name, ANY, FORMER_ANY) if key in sets), None)
            if chosen is not None:
                own = "calibrated" if family == device.calibration else "extrapolated"
                return TrainingConstants.from_mapping(chosen), min(own, str(chosen["evidence"]), key=_WEAKEST.index)
    return None


PACE = "pace"
"""A site's slowdown of everything."""
STEP = 0.03
"""By how much an effect is moved to see what it does: far above rounding, below where bounds give way to each other."""


@description
class Prior:
    """A constant before anything is measured."""

    value: float
    fraction: bool
    """A share below 1, whose scale is that of log-odds."""
    host: bool
    """Time of the host's code."""
    relative: bool
    """A ratio of other constants."""
    spreads: Mapping[str, float]
    """Standard deviation of its effects by cause."""


@cache
def priors() -> dict[str, Prior]:
    """Return what the catalog states of each constant, and of a site's pace."""
    spreads = stated_spreads("training")
    return {name: _prior(stated, spreads[name]) for name, stated in entry("training", "constants")["constants"].items()}


def _prior(stated: Mapping[str, Any], spreads: Mapping[str, float]) -> Prior:
    flags = {name: stated.get(name, False) for name in ("fraction", "host", "relative")}
    return Prior(value=stated["value"], spreads=spreads, **flags)


def prior_spread(effect: str) -> float:
    """Return the standard deviation of an effect before anything is measured; its name is CONSTANT/CAUSE/WHICH."""
    return stated_spread("training", effect)


NOTHING = Beliefs(names=(), mean=np.zeros(0), covariance=np.zeros((0, 0)), prior=prior_spread)
"""Before anything is measured."""


@cache
def shipped_beliefs() -> Beliefs:
    """Return what the catalog's measurements taught, with the effects of the sites that they are of."""
    stated = entry("training", "effects")
    names, (means, spreads) = tuple(stated["effects"]), np.transpose(list(stated["effects"].values()))
    size = len(names)
    lower = np.zeros((size, size))
    lower[np.tril_indices(size, -1)] = np.array(stated["correlation_per_mille"]) / 1000
    covariance = (lower + lower.T + np.eye(size)) * np.outer(spreads, spreads)
    return replace(NOTHING, names=names, mean=means, covariance=covariance)


def site_of(source: str, device: Device) -> str:
    """Return the name of a site: what one source measured on one family of devices."""
    return f"{source} on {device.calibration}"


@cache
def beliefs_at_sites() -> Beliefs:
    """Return what the catalog's measurements taught, also of the sites that they are of."""
    sites: Mapping[str, tuple[float, float]] = entry("training", "effects")["sites"]
    known = shipped_beliefs()
    own = known.with_effects(list(sites))
    mean = np.concatenate([known.mean, [mean for mean, _ in sites.values()]])
    spreads = np.concatenate([np.zeros(len(known.mean)), [spread for _, spread in sites.values()]])
    covariance = own.covariance.copy()
    places = np.arange(len(known.mean), len(mean))
    covariance[places, places] = spreads[places] ** 2
    return replace(own, mean=mean, covariance=covariance)


def shipped_coverage() -> Mapping[str, Any]:
    """Return what frameworks were measured on, by lineage.

    The largest number of ``devices`` and of ``tokens`` of a sample, ``formats``, whether ``experts``, and how many
    ``rows`` of how many ``sites`` ``on`` each family of devices.
    """
    coverage: Mapping[str, Any] = entry("training", "effects")["coverage"]
    return coverage


def causes_of(scenario: Scenario, known: Beliefs, site: str = "") -> dict[str, str]:
    """Return which device, relative, framework and site a scenario's effects are of; a stated set's only of a site."""
    if stated_set(scenario) is not None:
        return {"site": site}
    if scenario.plan.framework.is_bound:
        return {}
    own, lent = effects_family(scenario.cluster.device, known)
    kernel = f"{attention_kernel(scenario)} on {own}"
    framework = scenario.plan.framework
    by_code = {"framework": framework.lineage, "code": framework.model_code}
    causes = {"all": "", "device": own, "kernel": kernel, **by_code, "site": site}
    return causes | ({"lent": lent} if lent else {})


def effects_family(device: Device, known: Beliefs) -> tuple[str, str]:
    """Return the family whose effects a device has, and its own name where that is a relative's."""
    measured = _devices(known.names)
    family = next((family for family in (device.calibration, *device.relatives) if family in measured), None)
    if family is None:
        return device.calibration, ""
    return family, "" if device.name.startswith(family) else device.name


@lru_cache(maxsize=64)
def _devices(names: tuple[str, ...]) -> frozenset[str]:
    """The families that have effects of their own."""
    return frozenset(which for _, cause, which in (name.split("/", 2) for name in names) if cause == "device")


def effects_on(constant: str, causes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the effects on a constant."""
    return tuple(
        f"{constant}/{cause}/{which}" for cause, which in causes.items() if cause in priors()[constant].spreads
    )


def shifts(beliefs: Beliefs, causes: Mapping[str, str]) -> dict[str, float]:
    """Return how far each constant is shifted."""
    return _shifts(beliefs, tuple(causes.items()))


@lru_cache(maxsize=32)
def _shifts(beliefs: Beliefs, causes: tuple[tuple[str, str], ...]) -> dict[str, float]:
    return {name: sum(map(beliefs.mean_of, effects_on(name, dict(causes)))) for name in priors()}


def shifted(scenario: Scenario, shift: Mapping[str, Number]) -> TrainingConstants:
    """Return the scenario's constants at these shifts, numbers or arrays of one length."""
    return _moved(base_constants(scenario), shift)


def _moved(base: TrainingConstants, shift: Mapping[str, Number]) -> TrainingConstants:
    names, fractions, relative = _scales()
    moves, pace = np.array([shift.get(name, 0.0) for name in names]), np.exp(shift.get(PACE, 0.0))
    axes = (1,) * (max(moves.ndim, 1 + np.ndim(pace)) - 1)
    value = np.array([getattr(base, name) for name in names]).reshape(-1, *axes)
    moved = value * np.exp(moves if moves.ndim > 1 else moves.reshape(-1, *axes))
    paced = moved * pace
    paced[relative] = moved[relative]
    paced[fractions] = np.minimum(moved[fractions] / (1 - value[fractions] + moved[fractions]) / pace, 1.0)
    constants: dict[str, Any] = dict(zip(names, paced if paced.ndim > 1 else paced.tolist(), strict=True))
    return replace(base, **constants)


@cache
def _scales() -> tuple[tuple[str, ...], list[int], list[int]]:
    """The constants but pace, and the places of those that are fractions, and of ratios, which no pace multiplies."""
    constants = {name: prior for name, prior in priors().items() if name != PACE}
    fractions = [place for place, prior in enumerate(constants.values()) if prior.fraction]
    return tuple(constants), fractions, [place for place, prior in enumerate(constants.values()) if prior.relative]


def base_constants(scenario: Scenario) -> TrainingConstants:
    """Return the constants before any effect: what is stated for the device, else the catalog's values."""
    framework, stated = scenario.plan.framework, stated_set(scenario)
    if stated is not None:
        return stated[0]
    return _usual_constants(framework.native_host) if framework.ideal is None else ideal_constants(framework.ideal)


@cache
def _usual_constants(native_host: bool) -> TrainingConstants:
    native = entry("training", "constants")["native"] if native_host else 1.0
    values = {name: p.value * (native if p.host else 1.0) for name, p in priors().items() if name != PACE}
    return TrainingConstants(**values)


@cache
def ideal_constants(ideal: Ideal) -> TrainingConstants:
    """Return the constants of a framework without time for hosts, whose ranks wait for nothing but the network."""
    values = {name: 0.0 if prior.host else 1.0 for name, prior in priors().items() if name != PACE}
    shares = {"memory_fraction": ideal.bandwidth, "vector_fraction": ideal.peak}
    return TrainingConstants(**{**values, **shares, "kernel_latency_s": 0.0, "overlap_slowdown": 0.0})


def believed_constants(scenario: Scenario, beliefs: Beliefs | None = None, site: str = "") -> TrainingConstants:
    """Return the constants at the means of what is believed: the catalog's beliefs unless others are given."""
    known = shipped_beliefs() if beliefs is None else beliefs
    return _believed(base_constants(scenario), known, tuple(causes_of(scenario, known, site).items()))


@lru_cache(maxsize=32)
def _believed(base: TrainingConstants, known: Beliefs, causes: tuple[tuple[str, str], ...]) -> TrainingConstants:
    return _moved(base, _shifts(known, causes))


def gradient(
    seconds: Callable[[TrainingConstants], Number], scenario: Scenario, beliefs: Beliefs, site: str = ""
) -> tuple[Any, Gradient]:
    """Return the logarithm of a time, and how it moves with each effect.

    All effects are moved in one array-valued prediction, along an axis in front of those of a mesh of plans.
    """
    causes = causes_of(scenario, beliefs, site)
    at, effects = shifts(beliefs, causes), _effects(tuple(causes.items()))
    moving = [place for place, of_constant in enumerate(effects) if of_constant]
    along = np.tile(np.array(list(at.values()), dtype=float), (len(moving) + 1, 1))
    along[range(1, len(moving) + 1), moving] += STEP
    plans = np.ndim(scenario.plan.replicas)
    values = along.T.reshape(len(at), -1, *(1,) * plans)
    logarithm = np.log(seconds(shifted(scenario, dict(zip(at, values, strict=True)))))
    logarithm = np.broadcast_to(logarithm, np.broadcast_shapes(logarithm.shape, (len(along), *(1,) * plans)))
    slopes = zip(moving, map(as_python, (logarithm[1:] - logarithm[0]) / STEP), strict=True)
    steep = {effect: slope for place, slope in slopes if np.any(slope) for effect in effects[place]}
    return as_python(logarithm[0]), steep


@lru_cache(maxsize=32)
def _effects(causes: tuple[tuple[str, str], ...]) -> list[tuple[str, ...]]:
    """The effects on each constant."""
    return [effects_on(name, dict(causes)) for name in priors()]
