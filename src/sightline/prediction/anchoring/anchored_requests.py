"""Requests on one's own cluster: what they teach of an engine's constants there, and predictions with it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log, sqrt

import numpy as np

from sightline.catalog import entry
from sightline.content import record
from sightline.cost.device_model import device_model
from sightline.prediction.anchoring.anchor import MeasuredLoad
from sightline.prediction.anchoring.posterior import (
    Cases,
    Corrections,
    Unexplained,
    contradicting,
    corrections_of,
    described,
    plan_spreads,
    widest,
)
from sightline.prediction.anchoring.timed import Timed
from sightline.prediction.beliefs import Array, Beliefs, Gradient, Predict, Slopes
from sightline.prediction.generation.batch_profile import engine_constants
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.generation.policies import Latencies, latencies, price_workers
from sightline.prediction.generation.sites import NOTHING, PACE, EngineAtSite, at_pace, constants_at, shifts
from sightline.prediction.generation.uncertainty import extrapolated_terms, fitted_spreads
from sightline.prediction.training.step_rows import matmul_weights
from sightline.program.formats import formats_of
from sightline.quantities import FOUR_IN_FIVE, Number
from sightline.scenario import GenerationScenario

REPEATED = 0.01
"""What two runs of one load at one server differ by, as a standard deviation of the logarithm; an estimate."""
HALVINGS = 6
"""Of the share of what a load taught at which none of its times passes its measurement."""
CASE = "case"
"""What errors of plans that resemble each other have in common."""


def weight_format(scenario: GenerationScenario) -> tuple[float, float]:
    """Return the fewest bytes of a matmul weight, and the highest peak of products with it in FLOP/s."""
    plan, device = scenario.plan, scenario.cluster.device
    used = formats_of(scenario.model, plan.quantization, plan.dtype, device, whole_model=True)
    fewest = min(operand.weight_bytes for operand in used.operands.values())
    # Kernels for weights below 16 bits may multiply in any type that the device has.
    highest = max(device.peak_flops.values())
    plain = used.operands[used.plain]
    peak = highest if fewest < plain.weight_bytes else device.peak_flops.get(plain.compute_dtype, highest)
    return fewest, float(peak)


def site_of(scenario: GenerationScenario) -> str:
    """Return the site of an anchor or of a plan: one's own cluster of one device, with one engine."""
    return f"own {scenario.plan.engine.name} on {scenario.cluster.device.name}"


def engine_at_site(scenario: GenerationScenario) -> EngineAtSite:
    """Return a scenario's engine, ready for many sets of constants."""
    workers = price_workers(scenario)
    base, _ = engine_constants(scenario)
    return EngineAtSite(scenario=scenario, workers=workers, base=base, site=site_of(scenario))


@record
class AnchoredRequests:
    """What is known of generation once requests on one's own cluster were measured."""

    corrections: Corrections
    cases: Cases
    alternatives: Sequence["AnchoredRequests"] = ()
    """Where anchors contradict each other: what each teaches alone."""

    def constants(self, scenario: GenerationScenario, base: InferenceConstants) -> InferenceConstants:
        """Return the engine's constants at the scenario's site."""
        return constants_at(base, shifts(self.corrections.beliefs, site_of(scenario)))

    def pace(self, scenario: GenerationScenario, quantity: str) -> Number:
        """Return the factor on a result's seconds: the site's, and what near anchors left."""
        beliefs, own = self.corrections.beliefs, unexplained(scenario, quantity)
        near = self.corrections.taken_over(own) + self.cases.taken_over(own, beliefs)
        pace: Number = np.exp(beliefs.mean_of(f"{PACE}/site/{site_of(scenario)}") + near)
        return pace

    def predicted(self, engine: EngineAtSite) -> Latencies:
        """Return what is predicted for a scenario whose engine is ready."""
        scenario = engine.scenario
        constants = self.constants(scenario, engine.base).running_on(scenario.cluster)
        answer = latencies(engine.workers, constants)
        return at_pace(answer, constants, self.pace(scenario, "ttft_s"), self.pace(scenario, "tpot_s"))

    def narrowed(self, scenario: GenerationScenario, usual: Mapping[str, float]) -> dict[str, float]:
        """Return the logarithmic half-widths of intervals; ``usual`` are those without anchors.

        They span what each anchor says alone where anchors contradict each other.
        """
        if not usual:
            return {}
        engine = engine_at_site(scenario)
        found = self.spreads(engine, usual)
        if not self.alternatives:
            return found
        here, there = self.predicted(engine), [(one.predicted(engine), one) for one in self.alternatives]
        others = [(of, one.spreads(engine, usual)) for of, one in there]
        return {
            key: widest(own, [(_apart(key, of, here), half_widths[key]) for of, half_widths in others])
            for key, own in found.items()
        }

    def spreads(self, engine: EngineAtSite, usual: Mapping[str, float]) -> dict[str, float]:
        """Return the half-widths of intervals after all anchors together."""
        known = self.corrections
        left = {}
        for key in ("ttft_s", "tpot_s", "latency_s"):
            before, after = (engine.gradient(key, beliefs)[1] for beliefs in (known.before, known.beliefs))
            own = unexplained(engine.scenario, key)
            after = {**after, **self.cases.weights(own)}
            left[key] = self.corrections.share_left(own, before, after, self.cases.known(own))
        work = engine.scenario.workload
        left["output_tokens_per_s"] = left["tpot_s" if work.continuous and work.output_tokens > 1 else "latency_s"]
        return {key: spread * sqrt(left[key]) for key, spread in usual.items()}

    def evidence(self, scenario: GenerationScenario, usual: str) -> str:
        """Return what the constants rest on: one's own run where it is of the same device and engine.

        After runs that are farther off than clusters differ, nothing is calibrated.
        """
        if self.corrections.is_surprising:
            return "extrapolated" if usual == "calibrated" else usual
        own = any(site_of(anchor.scenario) == site_of(scenario) for anchor in self.corrections.timed)
        return "calibrated" if own else usual


def _apart(key: str, one: Latencies, other: Latencies) -> float:
    return log(float(getattr(one, key)) / float(getattr(other, key)))


def unexplained(scenario: GenerationScenario, quantity: str) -> Unexplained:
    """Return what effects do not explain of a result of a scenario, whose plans may be arrays.

    Cases of a deployment unlike those that the engine was fitted to - another source, device, kind of model, format -
    err alike.
    """
    constants, _ = engine_constants(scenario)
    spread = fitted_spreads(scenario, constants)[quantity != "ttft_s"]
    terms = extrapolated_terms(scenario, constants).values()
    case = max((1.0 - constants.shared_share) * (spread / FOUR_IN_FIVE) ** 2, _case() ** 2)
    return Unexplained(
        description=described(scenario, quantity),
        noise=sqrt((1.0 - _shared()) * case),
        near={CASE: sqrt(_shared() * case)},
        common={site_of(scenario): np.sqrt(sum(sd**2 for sd in terms))},
    )


def _case() -> float:
    """What no cause explains of one run, as a standard deviation."""
    return float(entry("generation", "constants")["case"])


def own_noise() -> float:
    """Return what a time does not have in common with its next neighbours, as a standard deviation."""
    return sqrt(1.0 - _shared()) * _case()


def _shared() -> float:
    """Of the square of that: what the next neighbour has in common with it."""
    return float(entry("generation", "constants")["anchors"]["shared"])


def learn_requests(timed: Sequence[Timed[GenerationScenario]], loads: Sequence[MeasuredLoad] = ()) -> AnchoredRequests:
    """Return what is known after the anchors: requests of one batch each, and loads of many."""
    engines = [engine_at_site(one.scenario) for one in timed]

    def predict(beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        alone = [engine.gradient(one.quantity, beliefs) for engine, one in zip(engines, timed, strict=True)]
        simulated = [load.predict(beliefs) for load in loads]
        logarithms = np.concatenate([[logarithm for logarithm, _ in alone], *(of for of, _ in simulated)])
        slopes = Slopes(
            logarithms.size, lambda: [*(slope for _, slope in alone), *(one for _, of in simulated for one in of)]
        )
        return logarithms, slopes

    every = [*timed, *(one for load in loads for one in load.timed)]
    own = [unexplained(one.scenario, one.quantity) for one in timed]
    own += [part for load in loads for part in load.unexplained]
    of_loads = {name: part for load in loads for name, part in load.cases.items()}
    cases = Cases(names=tuple(of_loads), parts=tuple(of_loads.values()), spreads=plan_spreads())
    before = NOTHING
    if loads:
        before = replace(NOTHING, names=tuple(cases.names), mean=np.zeros(len(of_loads)), covariance=cases.covariance)
    corrections = corrections_of(before, predict, every, own, plan_spreads())
    if loads:
        corrections = _short_of_measured(corrections, predict, len(timed))
    alternatives = [
        learn_requests([one for one in timed if one.name == name], [load for load in loads if load.name == name])
        for name in contradicting(corrections)
    ]
    return AnchoredRequests(corrections=corrections, cases=cases, alternatives=tuple(alternatives))


def _short_of_measured(found: Corrections, predict: Predict, alone: int) -> Corrections:
    """What was found, or as much of it as takes no mean time of a load past what was measured.

    Requests wait for each other, so that what one time teaches may move another one too far. The first ``alone``
    measurements are of no load.
    """
    measured = found.left + predict(found.beliefs)[0]
    groups = [(one.name, one.quantity) if place >= alone else None for place, one in enumerate(found.timed)]
    rows = np.array([[group == one for group in groups] for one in dict.fromkeys(groups[alone:])], dtype=float)
    means = rows / rows.sum(axis=1, keepdims=True)
    wanted = means @ (measured - found.expected)

    def at(share: float) -> tuple[Corrections, bool]:
        beliefs = replace(found.beliefs, mean=share * found.beliefs.mean)
        predicted, gradients = predict(beliefs)
        moved = means @ (predicted - found.expected)
        passed = (moved < np.minimum(0.0, wanted) - REPEATED) | (moved > np.maximum(0.0, wanted) + REPEATED)
        return replace(found, beliefs=beliefs, gradients=gradients, left=measured - predicted), bool(passed.any())

    share, (kept, passes) = 1.0, at(1.0)
    for halvings in range(1, HALVINGS + 1) if passes else ():
        share += 0.5**halvings * (-1) ** passes
        kept, passes = at(share)
    return at(share - 0.5**HALVINGS)[0] if passes else kept


def least_seconds(timed: Timed[GenerationScenario]) -> float:
    """Return the seconds below which a measurement contradicts physics; 0 where nothing is known of that.

    First tokens wait for the products of the batch's prompts at the peak of all devices - of one prompt in a steady
    loop, or where prefill has workers of its own -, a further token for its weights out of the memory of a replica's
    devices. Left out: attention, caches, collectives, the host.
    """
    scenario = timed.scenario
    if not device_model(scenario.cluster.device).asynchronous:
        return 0.0
    work, plan, device = scenario.workload, scenario.plan, scenario.cluster.device
    weights = sum(kind.count * matmul_weights(scenario.model, kind) for kind in scenario.model.kinds)
    together = 1.0 if work.continuous or plan.disaggregate is not None else float(work.batch)
    prompt_tokens = together * (float(work.prompt_tokens) - float(work.prefix_tokens))
    weight_bytes, peak = weight_format(scenario)
    first_s = 2.0 * weights * prompt_tokens / (float(peak) * scenario.cluster.devices)
    passes = 1.0 if plan.speculative is None else 1.0 + float(plan.speculative.tokens)
    ranks = float(plan.tensor_parallel * plan.pipeline_parallel * plan.data_parallel)
    further_s = weights * weight_bytes / passes / (float(device.memory_bandwidth) * ranks)
    tokens = float(work.output_tokens) - 1.0
    return {"ttft_s": first_s, "tpot_s": further_s}.get(timed.quantity, first_s + tokens * further_s)
