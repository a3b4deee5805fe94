"""What a training run takes: time on the calendar, rent and energy, and the limits that people set on them.

All figures may be arrays, one element per plan.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError
from sightline.planning.limits import read_amount, read_limits
from sightline.profile.metrics import rent_usd
from sightline.quantities import COUNT, Count, Number, show

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
