"""Results of a study that no profile states: amounts per token, power, carbon, and what technology makes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sightline.exploration.footprint import GRID_KG_PER_KWH, PUE, assumption_of, carbon_kg, power_w, rent_usd
from sightline.kinds import quantity
from sightline.loading.input.checks import Complaints, Keys, check
from sightline.profile import Profile
from sightline.quantities import COUNT
from sightline.technology.budget import Budget
from sightline.technology.cost import made_for
from sightline.technology.synthesis import Made

CARBON: Final = "carbon_kg"
"""How keys of carbon begin."""
ELECTRICITY: Final[Keys] = {"kg_per_kwh": quantity(COUNT, zero=True), "pue": quantity(COUNT)}
"""Keys of ``electricity`` in a study file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Electricity:
    """What a kilowatt-hour of devices stands for."""

    kg_per_kwh: float = GRID_KG_PER_KWH
    """Kilograms of CO2 equivalents per kWh of the grid."""
    pue: float = PUE
    """Energy of the data center over that of its devices."""

    @property
    def over_usual(self) -> float:
        """Carbon over that of the usual electricity, in which results are derived."""
        return self.kg_per_kwh * self.pue / (GRID_KG_PER_KWH * PUE)

    @property
    def sentence(self) -> str:
        """What a study that reports carbon assumes."""
        return assumption_of(self.kg_per_kwh, self.pue)


def read_electricity(stated: object, complaints: Complaints) -> Electricity:
    """Return what a study says of electricity, mistakes noted; the usual one where it says nothing."""
    return Electricity(**check(ELECTRICITY, {} if stated is None else stated, "electricity", complaints).values)


_SHARES: Final[Mapping[str, Callable[[Profile], tuple[Any, Any, Any]]]] = {
    "training": lambda p: (p.energy_per_step_j, p.step_time_s, p.scenario.workload.tokens_per_step),
    "generation": lambda p: (p.energy_j, _generated(p) / p.output_tokens_per_s, _generated(p)),
    "serving": lambda p: (p.energy_j, p.duration_s, p.output_tokens_per_s * p.duration_s),
}
"""Joules, seconds and tokens of a step, a batch or a load."""


def _generated(profile: Profile) -> Any:
    return profile.scenario.workload.batch * profile.scenario.workload.output_tokens


def _of_share(figure: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Profile], Any]:
    """Return what works out a figure of joules, seconds, tokens and devices."""

    def of(profile: Profile) -> Any:
        joules, seconds, tokens = _SHARES[profile.task.name](profile)
        return None if joules is None else figure(joules, seconds, tokens, profile.scenario.cluster.devices)

    return of


_OF_ALL: Final[Mapping[str, Callable[[Profile], Any]]] = {
    "energy_j_per_token": _of_share(lambda joules, _, tokens, __: joules / tokens),
    "carbon_kg_per_million_tokens": _of_share(lambda joules, _, tokens, __: carbon_kg(joules) * 1e6 / tokens),
    "power_w": _of_share(lambda joules, seconds, _, devices: power_w(joules, devices, seconds)),
    CARBON: lambda p: None if p.energy_j is None else carbon_kg(p.energy_j),
}
_RENT: Final[Mapping[str, Callable[[Profile], Any]]] = {
    "cost_usd_per_million_tokens": lambda p: (
        None if p.usd_per_hour is None else rent_usd(1, 1e6 / p.tokens_per_s, p.usd_per_hour)
    ),
}
DERIVED: Final[Mapping[str, Mapping[str, Callable[[Profile], Any]]]] = {
    "training": {**_RENT, **_OF_ALL},
    "generation": _OF_ALL,
    "serving": _OF_ALL,
}
"""Results that a study works out itself, by task and key."""

MADE: Final[Mapping[str, Callable[[Budget, Made], Any]]] = {
    "device_cost_usd": lambda budget, _: made_for(budget).usd,
    "device_peak_flops": lambda _, made: made.device.peak_flops.get("bf16"),
    "device_frequency_hz": lambda _, made: made.frequency_hz,
    "device_tdp_w": lambda _, made: made.device.tdp_w,
}
"""Results of making a device of technology, by key; the cost is of good dies and memory, an estimate."""
