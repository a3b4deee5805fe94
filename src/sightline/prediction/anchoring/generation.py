"""Requests on one's own cluster: what they teach of an engine's constants there, and predictions with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from sightline.catalog import entry
from sightline.cost.device_model import device_model
from sightline.prediction.anchoring.distance import likeness
from sightline.prediction.anchoring.posterior import Posterior, posterior
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.policies import price_workers
from sightline.prediction.generation.predict import engine_constants
from sightline.prediction.generation.sites import NOTHING, PACE, EngineAtSite, constants_at, shifts
from sightline.prediction.generation.uncertainty import extrapolated_terms
from sightline.prediction.training.flops import matmul_weights
from sightline.program.shapes import ELEMENT_BYTES
from sightline.quantities import FOUR_IN_FIVE, Number
from sightline.scenario import GenerationScenario


def weight_format(scenario: GenerationScenario) -> tuple[float, float]:
    """Return the bytes of a matmul weight, and the highest peak of products with it in FLOP/s."""
    plan, peaks = scenario.plan, scenario.cluster.device.peak_flops
    packed = [word for word in (*(plan.quantization or ()), scenario.model.weights) if not word.startswith("kv-")]
    if any("4" in word for word in packed):
        return 0.5, float(max(peaks.values()))
    if any("8" in word for word in (*packed, plan.dtype)):
        return 1.0, float(max(peaks.values()))
    return ELEMENT_BYTES.get(plan.dtype, 2.0), float(peaks.get(plan.dtype, max(peaks.values())))


def site_of(scenario: GenerationScenario) -> str:
    """Return the site of an anchor or of a plan: one's own cluster of one device, with one engine."""
    return f"own {scenario.plan.engine.name} on {scenario.cluster.device.name}"


def engine_at_site(scenario: GenerationScenario) -> EngineAtSite:
    """Return a scenario's engine, ready for many sets of constants."""
    workers = price_workers(scenario)
    base, _ = engine_constants(scenario)
    return EngineAtSite(scenario=scenario, workers=workers, base=base, site=site_of(scenario))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnchoredRequests:
    """What is known of generation once requests on one's own cluster were measured."""

    posterior: Posterior
    alternatives: Sequence["AnchoredRequests"] = ()
    """Where anchors contradict each other: what each teaches alone."""

    def constants(self, scenario: GenerationScenario, base: InferenceConstants) -> InferenceConstants:
        """Return the engine's constants at the scenario's site."""
        return constants_at(base, shifts(self.posterior.beliefs, site_of(scenario)))

    def pace(self, scenario: GenerationScenario, quantity: str) -> Number:
        """Return the factor on a result's seconds: the site's, and what near anchors left."""
        plan = Unexplained.of(scenario, quantity)
        shared = [plan.shared_with(Unexplained.of(one.scenario, one.quantity)) for one in self.posterior.timed]
        near = self.posterior.shift(shared)
        pace: Number = np.exp(self.posterior.beliefs.mean_of(f"{PACE}/site/{site_of(scenario)}") + near)
        return pace

    def narrowed(self, scenario: GenerationScenario, usual: Mapping[str, float]) -> dict[str, float]:
        """Return the logarithmic half-widths of intervals, the widest where anchors contradict.

        ``usual`` are those without anchors.
        """
        if not usual:
            return {}
        engine, base = engine_at_site(scenario), ("ttft_s", "tpot_s", "latency_s")
        left = {key: max(own.share_left(engine, key) for own in (self, *self.alternatives)) for key in base}
        left["output_tokens_per_s"] = left["tpot_s" if scenario.workload.continuous else "latency_s"]
        return {key: spread * sqrt(left[key]) for key, spread in usual.items()}

    def share_left(self, engine: EngineAtSite, quantity: str) -> float:
        """Return the variance of a result's logarithm over what it is without anchors."""
        _, slopes = engine.gradient(quantity, self.posterior.beliefs)
        _, before = engine.gradient(quantity, self.posterior.before)
        plan = Unexplained.of(engine.scenario, quantity)
        shared = [float(plan.shared_with(Unexplained.of(one.scenario, one.quantity))) for one in self.posterior.timed]
        return self.posterior.share_left(slopes, before, shared, plan.variance)

    def evidence(self, scenario: GenerationScenario, usual: str) -> str:
        """Return what the constants rest on: one's own run where it is of the same device and engine."""
        own = any(site_of(one.scenario) == site_of(scenario) for one in self.posterior.timed)
        return "calibrated" if own else usual


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unexplained:
    """What effects do not explain of a time: its parts as variances of its logarithm."""

    timed: Timed[GenerationScenario]
    case: float
    """Of a case like those that the engine was fitted to, beyond what cases of one deployment have in common."""
    common: float
    """Of all cases of a deployment unlike those: another source, device, kind of model, format."""

    @classmethod
    def of(cls, scenario: GenerationScenario, quantity: str) -> "Unexplained":
        """Return the parts for a result of a scenario, whose plans may be arrays."""
        constants, _ = engine_constants(scenario)
        spread = constants.ttft_spread if quantity == "ttft_s" else constants.tpot_spread
        terms = [] if np.ndim(scenario.workload.batch) else extrapolated_terms(scenario, constants).values()
        return cls(
            timed=Timed(scenario=scenario, quantity=quantity, seconds=0.0),
            case=max((1.0 - constants.shared_share) * (spread / FOUR_IN_FIVE) ** 2, _case() ** 2),
            common=sum(sd**2 for sd in terms),
        )

    @property
    def variance(self) -> float:
        """All of it."""
        return self.case + self.common

    def shared_with(self, anchor: "Unexplained") -> Number:
        """Return the covariance with an anchor's."""
        mine = self.timed.scenario
        near = _shared() * sqrt(self.case * anchor.case) * likeness(anchor.timed, mine, self.timed.quantity)
        same = site_of(mine) == site_of(anchor.timed.scenario)
        return near + (sqrt(self.common * anchor.common) if same else 0.0)


def _case() -> float:
    """What no cause explains of one run, as a standard deviation."""
    return float(entry("generation", "constants")["case"])


def _shared() -> float:
    """Of the square of that: what the next neighbour has in common with it."""
    return float(entry("generation", "constants")["anchors"]["shared"])


def noise_of(timed: Sequence[Timed[GenerationScenario]]) -> Array:
    """Return the covariance of what effects do not explain of the anchors."""
    parts = [Unexplained.of(one.scenario, one.quantity) for one in timed]
    rows = [[float(one.shared_with(other)) for other in parts] for one in parts]
    return np.array(rows) + np.diag([(1.0 - _shared()) * one.case for one in parts])


def learn_requests(timed: Sequence[Timed[GenerationScenario]]) -> AnchoredRequests:
    """Return what is known after the anchors."""
    engines = [engine_at_site(one.scenario) for one in timed]

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        found = [engine.gradient(one.quantity, beliefs) for engine, one in zip(engines, timed, strict=True)]
        return np.array([logarithm for logarithm, _ in found]), [slopes for _, slopes in found]

    found = posterior(NOTHING, predict, timed, noise_of(timed))
    alone = [learn_requests([one]) for one in timed] if found.contradictions else []
    return AnchoredRequests(posterior=found, alternatives=tuple(alone))


def least_seconds(timed: Timed[GenerationScenario]) -> float:
    """Return the seconds below which a measurement contradicts physics; 0 where nothing is known of that.

    A first token waits for the products of one prompt at the peak of all devices, a further token for its weights out
    of the memory of a replica's devices. Left out, because policies differ: what a request waits for
    others, attention, caches, collectives, the host.
    """
    scenario = timed.scenario
    if not device_model(scenario.cluster.device).asynchronous:
        return 0.0
    work, plan, device = scenario.workload, scenario.plan, scenario.cluster.device
    weights = sum(kind.count * matmul_weights(scenario.model, kind) for kind in scenario.model.kinds)
    prompt = float(work.prompt_tokens) - float(work.prefix_tokens)
    weight_bytes, peak = weight_format(scenario)
    first_s = 2.0 * weights * prompt / (float(peak) * scenario.cluster.devices)
    passes = 1.0 if plan.speculative is None else 1.0 + float(plan.speculative.tokens)
    ranks = float(plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel)
    further_s = weights * weight_bytes / passes / (float(device.memory_bandwidth) * ranks)
    tokens = float(work.output_tokens) - 1.0
    return {"ttft_s": first_s, "tpot_s": further_s}.get(timed.quantity, first_s + tokens * further_s)
