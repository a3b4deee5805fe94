"""Figures that answers to several tasks have: intervals, rows of operators, energy."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import Any, NamedTuple, Protocol

import numpy as np

from sightline.cost.collectives.libraries import collective_evidence
from sightline.cost.device_model import DeviceModel
from sightline.cost.families import Evidence
from sightline.cost.l2 import l2_s
from sightline.cost.power import watts_of
from sightline.cost.prices import OperatorCost, Prices
from sightline.profile import IDLE_PHASES, LEVELS, Profile, Row
from sightline.program import Collective, Operator
from sightline.quantities import Number, added_up, larger
from sightline.scenario import Cluster, Scenario
from sightline.scenario.cluster import Question

MEASURED_DTYPES = ("fp16", "bf16")
"""Compute dtypes of the tables behind the calibrations, number formats of matmuls aside."""
FEWEST_ROWS, FEWEST_SOURCES = 10, 2
"""Measurements, and sources of them, that a framework's constants rest on where they are called calibrated."""

ADD_YOUR_OWN = "; add your own with --anchor"
"""What remedies a lack of measurements."""


def not_calibrated(rows: int, sources: int, kind: str, of: str, known: str = "") -> str:
    """Return what a framework's constants lack to be calibrated; empty where they rest on enough.

    ``kind`` is what was measured, a step or a run, ``of`` the framework and the device; ``known`` is what was measured
    instead, in words.
    """
    if rows >= FEWEST_ROWS and sources >= FEWEST_SOURCES:
        return ""
    if not rows:
        return f"no published measurement of {of}{f' ({known})' if known else ''}{ADD_YOUR_OWN}"
    needed = "two sources" if sources < FEWEST_SOURCES else f"{FEWEST_ROWS} {kind}s"
    measured = f"{rows} {kind}{'s' * (rows > 1)} of {of} from {sources} source{'s' * (sources > 1)}"
    return f"only {measured}, `calibrated` requires {needed}{ADD_YOUR_OWN}"


def within(evidence: Evidence, *, measured: bool) -> Evidence:
    """The evidence of constants, less where they are used outside what was measured."""
    return evidence if measured or evidence == "datasheet" else "extrapolated"


def understood(evidence: str, scenario: Question) -> str:
    """Return the evidence of constants: estimated at best where something of the scenario was not understood."""
    return min(evidence, "estimated", key=EVIDENCE.index) if scenario.is_assumed else evidence


EVIDENCE = ("datasheet", "estimated", "extrapolated", "calibrated", "given")
"""From the weakest on."""


def weakest_evidence(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the weakest evidence of any group of devices, by kind.

    Constants of frameworks and engines were measured on equal devices alone.
    """
    weakest: dict[str, str] = {}
    for part in parts:
        for kind, evidence in part.items():
            weakest[kind] = min(weakest.get(kind, evidence), evidence, key=EVIDENCE.index)
    if weakest.get("framework") == "calibrated" and len(parts) > 1:
        weakest["framework"] = "extrapolated"
    return weakest


def evidence_of_step(scenario: Scenario, model: DeviceModel) -> dict[str, str]:
    """Return what the operators of a training step rest on."""
    cluster = scenario.cluster
    inside = cluster.nodes == 1  # networks between nodes were measured on another cluster
    return {
        "matmul": model.evidence("matmul"),
        "attention": model.evidence("attention"),
        "collectives": within(collective_evidence(cluster, "all_reduce"), measured=inside),
    }


class Legs(Protocol):
    """Seconds of arithmetic at the peak and of the memory's bytes: a price, or a matmul on the roofline."""

    @property
    def compute_s(self) -> Number:
        """Arithmetic."""

    @property
    def memory_s(self) -> Number:
        """Bytes of the memory."""


class Bound(NamedTuple):
    """Where each leg of an operator is the largest; of arrays masks. Elsewhere it is the memory's."""

    compute: Any
    l2: Any

    @property
    def level(self) -> Any:
        """The level that binds, an array of names where the legs are arrays."""
        if isinstance(self.compute, np.ndarray):
            return np.where(self.compute, "compute", np.where(self.l2, "l2", "dram"))
        return "compute" if self.compute else "l2" if self.l2 else "dram"


def bound_of(price: Legs, crossing_s: Number) -> Bound:
    """Return which leg binds, with ``crossing_s`` for the bytes across L2; equal ones go to compute, then to dram."""
    compute = (price.compute_s >= price.memory_s) & (price.compute_s >= crossing_s)
    return Bound(compute, crossing_s > larger(price.compute_s, price.memory_s))


def level_of(op: Operator, price: OperatorCost, model: DeviceModel) -> str:
    """Return the level that binds an operator of plain numbers."""
    if isinstance(op, Collective):
        return "network"
    return str(bound_of(price, l2_s(op, model)).level)


def work_by_level(operators: Iterable[Operator], prices: Prices, model: DeviceModel) -> dict[str, Number]:
    """Return the seconds of one execution of each operator that is no collective, by the level that binds it."""
    compute_s: Number = 0.0
    dram_s: Number = 0.0
    crossing_s: Number = 0.0
    for op in operators:
        if isinstance(op, Collective):
            continue
        price = prices[id(op)]
        time_s, bound = op.count * price.time_s, bound_of(price, l2_s(op, model))
        compute_s = compute_s + time_s * bound.compute
        crossing_s = crossing_s + time_s * bound.l2
        dram_s = dram_s + time_s * (1.0 - bound.compute - bound.l2)
    return {"compute": compute_s, "dram": dram_s, "l2": crossing_s}


def summed(*parts: Mapping[str, Number]) -> dict[str, Number]:
    """Return the seconds of several parts by level; a part may lack levels."""
    return {level: sum((part[level] for part in parts if level in part), 0.0) for level in LEVELS}


def multiple(levels: Mapping[str, Number], factor: Number) -> dict[str, Number]:
    """Return multiples of seconds by level."""
    return {level: seconds * factor for level, seconds in levels.items()}


def streaming_level(model: DeviceModel) -> Any:
    """Return 1 where bytes that are touched once are bound by L2, which is slower than the memory, else 0."""
    if not model.asynchronous:
        return 0.0
    return 1.0 * (model.device.l2_bandwidth < model.device.memory_bandwidth)


LONGER = ("step_time_s", "run_time_s", "cost_usd")
"""Results that grow with the step."""
SHORTER = ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu", "hfu")
"""Results that fall with it."""


def intervals(profile: Profile, spreads: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Return the interval of each result from its spread (a natural logarithm); none where that is unknown or nothing.

    Symmetric in the logarithm: an error of a factor is as likely up as down. Left out: that some operators and some
    plans are known better than others.
    """
    values = {key: getattr(profile, key) for key, spread in spreads.items() if spread > 0}
    return {key: (float(v) / exp(spreads[key]), float(v) * exp(spreads[key])) for key, v in values.items() if v}


def lower_bounds(profile: Profile, keys: Sequence[str]) -> dict[str, tuple[float, None]]:
    """Return the one-sided interval of each result that is the least it can be."""
    return {key: (float(value), None) for key in keys if (value := getattr(profile, key)) is not None}


def operator_row(
    op: Operator, price: OperatorCost, model: DeviceModel, *, phase: str, communication: str, block: str, count: Number
) -> Row:
    """Return the row of ``count`` executions of an operator in ``phase`` on a device of ``model``, all exposed.

    A collective counts as ``communication`` and says which phase it runs in.
    """
    sends = isinstance(op, Collective)
    bound = "network" if sends else "compute" if price.compute_s >= price.memory_s else "memory"
    return Row(
        phase=communication if sends else phase,
        block=block,
        module=op.module,
        operator=f"{op.name} in {phase}" if sends else op.name,
        count=float(count),
        flops=float(count * op.flops),
        bytes=float(count * op.bytes),
        network_bytes=float(count * op.network_bytes),
        time_s=float(count * price.time_s),
        exposed_s=float(count * price.time_s),
        bound=bound,
        bound_level=level_of(op, price, model),
    )


COMMUNICATION_SHARE = 0.5
"""Share of a device's active power while it only exchanges gradients or activations of a training step (estimate)."""


def energy_per_step_j(scenario: Scenario, phases: Mapping[str, Number]) -> Number:
    """Joules of one step on all devices: waiting power while they wait, the cap while they work.

    Left out: hosts, network, cooling; power below the cap in memory-bound work.
    """
    power_w = power_by_phase_w(scenario.cluster, phases)
    return added_up(scenario.cluster.devices * power_w[phase] * seconds for phase, seconds in phases.items())


def power_by_phase_w(cluster: Cluster, phases: Iterable[str]) -> dict[str, Number]:
    """Return the watts that a device draws in each phase of a step."""
    watts = watts_of(cluster)
    power_w = dict.fromkeys(phases, watts.cap) | dict.fromkeys(IDLE_PHASES, watts.waiting)
    power_w["communication_exposed"] = watts.idle + COMMUNICATION_SHARE * (watts.cap - watts.idle)
    return power_w
