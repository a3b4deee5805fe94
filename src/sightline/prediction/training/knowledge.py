"""What is known when a training step is predicted: its constants, how far off it may be, and what that rests on."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from math import log10
from typing import Any

import numpy as np

from sightline.catalog import entry, names
from sightline.content import record
from sightline.cost.collectives.libraries import Group, data_group, pipeline_boundary, ring_neighbours, tensor_group
from sightline.cost.device_model import DeviceModel
from sightline.cost.l2 import least_s
from sightline.cost.prices import OperatorCost, Prices
from sightline.frameworks.behavior import read_framework
from sightline.frameworks.framework import Ideal
from sightline.prediction.beliefs import Beliefs, Gradient
from sightline.prediction.common_figures import ADD_YOUR_OWN, EVIDENCE, not_calibrated, understood
from sightline.prediction.pass_times import in_setting
from sightline.prediction.training.constants import (
    NOTHING,
    TrainingConstants,
    believed_constants,
    effects_family,
    gradient,
    prior_spread,
    shipped_beliefs,
    shipped_coverage,
    stated_set,
)
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.operators import GRADIENTS_OF_LINEAR
from sightline.program.techniques.context_parallel import head_ranks
from sightline.quantities import FOUR_IN_FIVE, Number, either, larger
from sightline.scenario import Scenario


@record
class Knowledge:
    """Beliefs about a framework's constants, at a site that they learned from or at one that nobody measured."""

    stated: Beliefs | None = None
    """None: what the catalog's measurements taught."""
    site: str = ""

    @property
    def beliefs(self) -> Beliefs:
        """What is believed of effects."""
        return shipped_beliefs() if self.stated is None else self.stated

    def constants(self, scenario: Scenario) -> TrainingConstants:
        """Return the constants that a scenario is predicted with."""
        return believed_constants(scenario, self.beliefs, self.site)

    def spread(self, scenario: Scenario, seconds: Callable[[TrainingConstants], Number]) -> Any:
        """Return the logarithmic half-width of a time's 80 % interval; ``seconds`` predicts it."""
        stated = stated_set(scenario)
        if stated is not None:
            return stated[0].spread
        known = _with_unmeasured(self.beliefs)
        _, slopes = gradient(seconds, scenario, known, self.site)
        other = _variance_of_another(slopes) if scenario.plan.framework.is_like else 0.0
        return FOUR_IN_FIVE * np.sqrt(known.variance(slopes) + other + case_variance() + variance_beyond(scenario))

    def missing(self, scenario: Scenario) -> dict[str, str]:
        """Return what would have to be measured for the framework's constants to be calibrated on the device."""
        if scenario.plan.framework.is_like:
            return {"framework": NO_STEP_OF_OWN}
        known = scenario.plan.framework.is_bound or stated_set(scenario)
        sentence = "" if known else lacking_measurements(scenario)
        return {"framework": sentence} if sentence else {}

    def evidence(self, scenario: Scenario) -> str:
        """Return what the framework's constants rest on."""
        if scenario.plan.framework.is_bound:
            return "datasheet"
        stated, is_like = stated_set(scenario), scenario.plan.framework.is_like
        lacking = "extrapolated" if is_like or (stated is None and lacking_measurements(scenario)) else "calibrated"
        return understood(lacking if stated is None else min(lacking, stated[1], key=EVIDENCE.index), scenario)


NO_STEP_OF_OWN = "no measured step of a framework like this one; add one with --anchor"
_OF_A_FRAMEWORK = ("framework", "code")


def _variance_of_another(slopes: Gradient) -> Any:
    """The variance that a framework of somebody's own adds: the one between frameworks."""
    own = {effect: slope for effect, slope in slopes.items() if effect.split("/")[1] in _OF_A_FRAMEWORK}
    return NOTHING.variance(own) if own else 0.0


@lru_cache(maxsize=8)
def _with_unmeasured(beliefs: Beliefs) -> Beliefs:
    return replace(beliefs, prior=spread_unmeasured)


@lru_cache(maxsize=1024)
def spread_unmeasured(effect: str) -> float:
    """Return the standard deviation of an effect that nothing was measured of; such devices differ by more."""
    wider = entry("training", "constants")["unmeasured"].get(effect.split("/")[1], 1.0)
    return float(wider * prior_spread(effect))


def case_variance() -> float:
    """Return the variance of one step's logarithm that no cause explains."""
    return float(entry("training", "constants")["case"]) ** 2


def variance_beyond(scenario: Scenario) -> float:
    """Return what comes on top for a scenario outside of what its framework was measured on."""
    return sum(spread**2 for spread in beyond(scenario).values())


def beyond(scenario: Scenario) -> dict[str, float]:
    """Return how far outside of what its framework was measured on a scenario lies, as standard deviations by kind."""
    spreads = entry("training", "constants")["beyond"]
    known: Any = shipped_coverage().get(scenario.plan.framework.lineage)
    if known is None:
        # The framework's own effects are unknown, which says it already.
        return {"shapes": float(spreads["shapes"]) * scenario.is_assumed}
    experts, tokens = scenario.model.experts is not None, scenario.workload.sequence_length
    mixers = {kind.mixer for kind in scenario.model.kinds}
    distances = {
        "devices": max(0.0, log10(scenario.cluster.devices / known["devices"])),
        "tokens": max(0.0, log10(float(np.max(tokens)) / known["tokens"])),
        "format": scenario.plan.dtype not in known["formats"],
        "layers": (experts and not known["experts"]) or not mixers <= set(known["mixers"]),
        "offload": bool(scenario.plan.offload) and not known["offload"],
        "shapes": scenario.is_assumed,
    }
    return {name: float(spreads[name]) * float(far) for name, far in distances.items()}


def lacking_measurements(scenario: Scenario) -> str:
    """Return what measurements of the framework on the device there would have to be; empty where there are enough.

    Enough measurements of other plans are not enough for one outside of all of them.
    """
    plan, device = scenario.plan, scenario.cluster.device
    family, lent = effects_family(device, shipped_beliefs())
    known = {} if lent else shipped_coverage().get(plan.framework.lineage, {}).get("on", {}).get(family, {})
    rows, sites = known.get("rows", 0), known.get("sites", 0)
    called = f"{plan.framework.name} {plan.framework.version}".strip()
    others = "" if rows or lent else _of_other_lines(plan.framework.name, plan.framework.lineage, family)
    few = not_calibrated(rows, sites, "step", f"{called} on {device.name}", others)
    return few or _outside(scenario, called)


OUTSIDE = {
    "devices": "as many devices",
    "tokens": "sequences this long",
    "format": "that dtype",
    "layers": "such layers",
    "offload": "anything offloaded",
    "shapes": "a model whose shapes had to be assumed",
}
"""What no measured step of a framework has, by the kind of distance (`beyond`)."""


def _outside(scenario: Scenario, called: str) -> str:
    """What a scenario has that no measured step of its framework has, in words; empty for nothing."""
    lacking = [OUTSIDE[kind] for kind, far in beyond(scenario).items() if far > 0]
    if not lacking:
        return ""
    return f"no published measurement of {called} has {' or '.join(lacking)}{ADD_YOUR_OWN}"


def _of_other_lines(name: str, lineage: str, family: str) -> str:
    """What was measured there of a framework's lines of another lineage, in words; empty for nothing."""
    if name not in names("frameworks"):
        return ""
    lines: dict[str, list[str]] = {}
    for line in entry("frameworks", name).get("versions") or {}:
        lines.setdefault(read_framework(name, str(line)).lineage, []).append(str(line))
    measured = []
    for other, releases in lines.items():
        rows = shipped_coverage().get(other, {}).get("on", {}).get(family, {}).get("rows", 0)
        if rows and other != lineage:
            measured.append(f"{rows} of release line{'s' * (len(releases) > 1)} {', '.join(releases)}")
    return " and ".join(measured)


HEAD = "head"


def in_framework(
    operators: Iterable[Operator],
    prices: Prices,
    scenario: Scenario,
    constants: TrainingConstants,
    model: DeviceModel,
) -> Prices:
    """Return the prices of operators as they run inside a training step on devices of ``model``."""
    ideal = scenario.plan.framework.ideal
    slowdowns: dict[object, Number] = {}

    def slowdown(op: Matmul) -> Number:
        kind = op.kernel, op.module, op.direction
        if kind not in slowdowns:
            own = constants.matmul_slowdown * constants.format_slowdown(op.kernel)
            slowdowns[kind] = own * _slowdown_of_module(op, scenario, constants)
        return slowdowns[kind]

    inside = partial(_time_s, slowdown=slowdown, groups=training_groups(scenario), c=constants)
    return in_setting(
        operators, prices, inside if ideal is None else partial(_ideal_time_s, ideal=ideal, model=model, others=inside)
    )


def _ideal_time_s(
    op: Operator,
    cost: OperatorCost,
    ideal: Ideal,
    model: DeviceModel,
    others: Callable[[Operator, OperatorCost], Number],
) -> Number:
    """Seconds of the largest leg: arithmetic, bytes of the memory, bytes across L2."""
    if isinstance(op, Collective):
        return others(op, cost)
    return least_s(op, cost, model, peak_share=ideal.peak, bandwidth_share=ideal.bandwidth)


def _time_s(
    op: Operator,
    cost: OperatorCost,
    slowdown: Callable[[Matmul], Number],
    groups: Callable[[str], Group],
    c: TrainingConstants,
) -> Number:
    match op:
        case Elementwise():
            return cost.time_s
        case Matmul():
            time_s = cost.time_s * slowdown(op)
            if type(cost.compute_s) is type(cost.least_s) is float and cost.least_s >= cost.compute_s:
                return time_s
            # A board that clocks above its datasheet has a slowdown below 1, but stays behind the datasheet's peak.
            return larger(time_s, cost.compute_s)
        case Collective():
            # A stage waits for the one before it in the pipeline's schedule, not here.
            if op.ranks == "stages":
                return c.collective_slowdown * cost.time_s
            # Pieces are gathered a few kernels after they were scattered, before any rank falls behind again.
            waits = op.ranks != "tensor" or op.kind != "all_gather"
            ranks = groups(op.ranks).size if waits else 1.0
            return c.collective_slowdown * cost.time_s + c.synchronization_s * np.log2(ranks)
    return cost.time_s * c.attention_slowdown


def _slowdown_of_module(op: Matmul, scenario: Scenario, c: TrainingConstants) -> Number:
    """Time of a product over that of others, by the module that it belongs to and the pass."""
    slowdown: Number = 1.0
    if op.module == HEAD:
        slowdown = either(scenario.plan.tensor_parallel == 1, c.unsharded_head_slowdown, 1.0)
    elif op.module == "experts" and scenario.plan.framework.transformer_engine.launches_each_expert:
        slowdown = c.expert_matmul_slowdown
    if op.kernel == "fp8" and op.direction in GRADIENTS_OF_LINEAR:
        slowdown = slowdown * c.exact_gradients_slowdown
    return slowdown


def training_groups(scenario: Scenario) -> Callable[[str], Group]:
    """Return who takes part in the collectives of a training pass, by the kind of ranks.

    Ranks are numbered tensor-parallel first, then context-parallel, then data-parallel.
    """
    plan, cluster = scenario.plan, scenario.cluster

    def group(ranks: str) -> Group:
        match ranks:
            case "expert":
                return data_group(plan.expert_tensor_parallel, plan.expert_parallel, cluster)
            case "expert tensor":
                return data_group(1, plan.expert_tensor_parallel, cluster)
            case "context" | "context heads":
                by_heads = ranks == "context heads"
                split = head_ranks(plan, scenario.model, cluster.per_node) if by_heads else plan.context_parallel
                return data_group(plan.tensor_parallel, split, cluster)
            case "stages":
                return pipeline_boundary(plan.tensor_parallel, plan.replicas, cluster)
            case "context ring":
                return ring_neighbours(plan.tensor_parallel * plan.context_parallel, cluster)
        return tensor_group(plan.tensor_parallel, cluster)

    return group
