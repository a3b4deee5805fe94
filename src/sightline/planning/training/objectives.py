"""What a search of training plans makes small, and the figures of its plans: arrays for blocks, floats for one plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan, prod
from typing import Any, Final, NamedTuple

import numpy as np

from sightline.errors import InputError, nearest
from sightline.planning.training.candidates import Axes
from sightline.planning.training.mesh import Block
from sightline.planning.training.money import Run, RunLimits
from sightline.profile import Profile
from sightline.quantities import Count, Number, show
from sightline.scenario import Scenario
from sightline.scenario.space import Space

OBJECTIVES: Final[Mapping[str, str]] = {
    "time": "step_time_s",
    "cost": "cost_usd",
    "energy": "energy_j",
    "memory": "memory_bytes.total",
    "batch": "global_batch",
}
"""What a search may look for, and the result key that tells it."""
UNCERTAIN: Final = ("time", "cost", "energy")
"""Objectives that no run repeats exactly; memory and batches are what they are."""
LONG_S = 1e6
"""Seconds beside which a step is short."""


_OF_REPLICAS = ("devices", "tensor_parallel", "pipeline_parallel", "context_parallel", "micro_batch")


class Evaluated(NamedTuple):
    """Figures of plans by which they are compared."""

    step_s: Number
    memory_bytes: Number
    energy_j: Number | None
    global_batch: Number
    devices: Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measure:
    """Makes figures of a space's plans: all that is to be small, by objective."""

    space: Space[Scenario]
    availability: float | None = None

    def __call__(self, objective: str, plans: Evaluated) -> Number:
        """Return what is to be small: per token where batches may differ."""
        match objective:
            case "memory":
                return plans.memory_bytes
            case "batch":
                # The largest batch; among equal ones the fastest step.
                return plans.step_s / (plans.step_s + LONG_S) - plans.global_batch
            case "energy":
                joules = self.run(plans).energy_j
                return nan if joules is None else joules / self._tokens(plans)
            case "cost":
                usd = self.run(plans).cost_usd
                return inf if usd is None else usd / self._tokens(plans)
            case _:
                return plans.step_s / self._tokens(plans)

    def _tokens(self, plans: Evaluated) -> Number:
        per_sample = self.space.scenario.workload.rows(1).real
        return plans.global_batch * per_sample

    def run(self, plans: Evaluated, steps: Number = 1.0) -> Run:
        """Return the run of so many steps."""
        cluster = self.space.scenario.cluster
        return Run(
            step_time_s=plans.step_s,
            steps=steps,
            devices=plans.devices,
            usd_per_hour=cluster.usd_per_hour,
            joules_per_step=plans.energy_j,
            availability=self.availability,
        )

    def whole_run(self, plans: Evaluated) -> Run | None:
        """Return the run over all tokens of the workload; None where it states none."""
        tokens = self.space.scenario.workload.total_tokens
        return None if tokens is None else self.run(plans, tokens / self._tokens(plans))

    def of_rows(self, axes: Axes, step_s: Number) -> Evaluated:
        """Return the figures of a mesh's rows that take so long, whatever memory and energy."""
        devices: Count = axes.rows["devices"] * 1.0
        return Evaluated(step_s, nan, None, self._batches_of(axes.rows), devices)

    def of_block(self, block: Block, axes: Axes) -> Evaluated:
        """Return the figures of a block."""
        return Evaluated(
            block.step_s,
            block.memory_bytes,
            block.energy_j,
            self._batches(block, axes),
            self._devices(block, axes),
        )

    def _devices(self, block: Block, axes: Axes) -> Count:
        """Devices of a block's plans."""
        if not self.space.clusters:
            return self.space.scenario.cluster.devices
        devices: Count = _column(block.column("devices", axes), block)
        return devices

    def _batches(self, block: Block, axes: Axes) -> Number:
        """Samples per step of a block's plans."""
        if not self.space.at_most:
            return float(self.space.scenario.workload.global_batch)
        batches: Number = _column(self._batches_of({name: block.column(name, axes) for name in _OF_REPLICAS}), block)
        return batches

    def _batches_of(self, rows: Mapping[str, Any]) -> Number:
        limit = self.space.scenario.workload.global_batch
        if not self.space.at_most:
            return float(limit)
        devices, *degrees, micro_batch = (rows[name] for name in _OF_REPLICAS)
        sequences = devices // prod(degrees) * micro_batch
        batches: Number = limit // sequences * sequences * 1.0
        return batches

    def of_profile(self, profile: Profile) -> Evaluated:
        """Return the figures of a prediction."""
        scenario: Any = profile.scenario
        return Evaluated(
            float(profile.step_time_s),
            float(profile.memory_bytes["total"]),
            float(profile.energy_per_step_j),
            float(scenario.workload.global_batch),
            scenario.cluster.devices,
        )


def _column(values: Any, block: Block) -> Any:
    """A number for each row of a block, along its first dimension."""
    return np.reshape(values * 1.0, (-1, *(1,) * (block.fits.ndim - 1)))


def shown_value(objective: str, measure: Measure, plans: Evaluated) -> float:
    """Return the objective in the unit of its result key: of the whole run where tokens are stated, else of a step."""
    run = measure.whole_run(plans) or measure.run(plans)
    values: dict[str, Any] = {
        "time": run.run_time_s,
        "cost": run.cost_usd,
        "energy": run.energy_j,
        "memory": plans.memory_bytes,
        "batch": plans.global_batch,
    }
    value = values[objective]
    return float("nan") if value is None else float(value)


def exceeded(limits: RunLimits, measure: Measure, plans: Evaluated) -> dict[str, Any]:
    """Return by limit of a run where plans exceed it."""
    run = measure.whole_run(plans)
    return {} if run is None else dict(limits.broken(run))


def check_objective(objective: str) -> str:
    """Return an objective that is known.

    Raises:
        InputError: it is not.
    """
    if objective not in OBJECTIVES:
        near = nearest(objective, list(OBJECTIVES))
        raise InputError(f"objective is {show(objective)}; allowed: {', '.join(OBJECTIVES)}{near}")
    return objective
