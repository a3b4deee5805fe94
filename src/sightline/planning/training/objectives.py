"""What a search of training plans makes small: figures of plans, of whole runs, and the limits that are set on them.

All figures may be arrays, one element per plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, nan, prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.loading.checks import meant
from sightline.planning.plan_limits import read_amount, read_limits
from sightline.planning.training.candidates import Axes
from sightline.planning.training.mesh import Block
from sightline.profile import Profile
from sightline.profile.metrics import rent_usd
from sightline.quantities import COUNT, Count, Number, show
from sightline.scenario import Scenario
from sightline.scenario.space import Space

MEASURED_AT = 16_384
"""Devices of the run that the usual availability is taken from."""
MEASURED_AVAILABILITY = 0.9
"""Share of 54 days in which that run made progress, with 466 interruptions: Llama 3 405B on H100s reports more than
90 % effective training time (arXiv 2407.21783, section 3.3.4). The lower end, for calendar time not to be too short."""
_LOST_PER_DEVICE = (1 / MEASURED_AVAILABILITY - 1) / MEASURED_AT
"""Seconds lost per second of progress and device: 6.8e-6."""


def usual_availability(devices: Count) -> Number:
    """Return the share of the calendar time in which a run makes progress: the rest goes to checkpoints and failures.

    ``1 / (1 + 6.8e-6 n)``. Every device fails equally often and every failure stops all of them, so the time lost per
    second of progress grows with their number ``n``, as Kokolis et al. model it (arXiv 2410.21680, section III). 0.90
    at 16,384 devices, 0.993 at 1,024. Left out: kinds of devices and networks, how often one saves, queues, evaluation.
    """
    return 1.0 / (1.0 + _LOST_PER_DEVICE * devices)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """A training run of ``steps``. Rent and energy count the calendar time, for lost work is paid for as well."""

    step_time_s: Number
    steps: Number
    devices: Count
    usd_per_hour: Number | None = None
    """Of one device; None where nobody knows a price."""
    joules_per_step: Number | None = None
    availability: float | None = None
    """Share of the calendar time in which the run makes progress; None takes `usual_availability`."""

    @property
    def run_time_s(self) -> Number:
        """Seconds of progress: those of all steps."""
        return self.steps * self.step_time_s

    @property
    def progress(self) -> Number:
        """Share of the calendar time in which the run makes progress."""
        return usual_availability(self.devices) if self.availability is None else self.availability

    @property
    def calendar_time_s(self) -> Number:
        """Seconds from the start to the end, with what checkpoints and failures take."""
        return self.run_time_s / self.progress

    @property
    def cost_usd(self) -> Number | None:
        """Rent of all devices for the calendar time; None without a price."""
        return rent_usd(self.calendar_time_s, self.devices, self.usd_per_hour)

    @property
    def energy_j(self) -> Number | None:
        """Joules of all devices, lost time counted as if they worked in it; None where a step's are not known."""
        return None if self.joules_per_step is None else self.steps * self.joules_per_step / self.progress

    @property
    def figures(self) -> dict[str, Number | None]:
        """All of them by result key; rent is of all devices."""
        keys = ("run_time_s", "calendar_time_s", "cost_usd", "energy_j")
        hour = None if self.usd_per_hour is None else self.usd_per_hour * self.devices
        return {**{key: getattr(self, key) for key in keys}, "usd_per_hour": hour}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunLimits:
    """How long a run may take on the calendar, and what it may cost."""

    deadline_s: float | None = None
    budget_usd: float | None = None
    typed: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By name as somebody wrote them, for commands."""

    def broken(self, run: Run) -> Mapping[str, NDArray[np.bool_]]:
        """Return by limit where it is exceeded. A device without a price meets no budget."""
        found: dict[str, Any] = {}
        if self.deadline_s is not None:
            found["deadline"] = np.greater(run.calendar_time_s, self.deadline_s)
        if self.budget_usd is not None:
            cost = run.cost_usd
            found["budget"] = np.asarray(True) if cost is None else np.greater(cost, self.budget_usd)
        return found


def read_run_limits(deadline: object = None, budget: object = None) -> RunLimits:
    """Return the limits that somebody wrote: "30d" or "72h", and "2M", "$2M" or dollars.

    Raises:
        InputError: one is no such quantity.
    """
    stated = {"deadline": deadline, "budget": budget}
    limits = read_limits(**stated)
    return RunLimits(
        typed={name: value for name, value in stated.items() if isinstance(value, str)},
        deadline_s=limits.get("deadline"),
        budget_usd=limits.get("budget"),
    )


def read_availability(value: object) -> float | None:
    """Return the share of the calendar time in which a run makes progress, above 0 and at most 1; None for the usual.

    Raises:
        InputError: it is no such share.
    """
    if value is None:
        return None
    share = read_amount("availability", value, COUNT)
    if share > 1:
        raise InputError(f"availability is {show(value)}; allowed: a share above 0 and at most 1, such as 0.9")
    return share


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
        workload = self.space.scenario.workload
        return plans.global_batch * workload.sequences * workload.rows(1).real

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
        steps = self.space.scenario.workload.steps_of(self._tokens(plans))
        return None if steps is None else self.run(plans, steps)

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
        near = meant(objective, list(OBJECTIVES))
        raise InputError(f"objective is {show(objective)}; allowed: {', '.join(OBJECTIVES)}{near}")
    return objective
