"""Results of a study that no profile states: amounts per token, power, carbon, and what technology makes."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from sightline.exploration.footprint import Electricity, power_w, rent_usd
from sightline.profile import Profile
from sightline.technology.budget import Budget
from sightline.technology.cost import made_for
from sightline.technology.synthesis import Made

CARBON: Final = "carbon_kg"
"""How keys of carbon begin."""
Derived: TypeAlias = Callable[[Profile, Electricity], Any]
"""Works out a result of a profile, with what its electricity stands for; None where it is not known."""

_SHARES: Final[Mapping[str, Callable[[Profile], tuple[Any, Any, Any]]]] = {
    "training": lambda p: (p.energy_per_step_j, p.step_time_s, p.scenario.workload.tokens_per_step),
    "generation": lambda p: (p.energy_j, _generated(p) / p.output_tokens_per_s, _generated(p)),
    "serving": lambda p: (p.energy_j, p.duration_s, p.output_tokens_per_s * p.duration_s),
}
"""Joules, seconds and tokens of a step, a batch or a load."""


def _generated(profile: Profile) -> Any:
    return profile.scenario.workload.batch * profile.scenario.workload.output_tokens


def _of_share(figure: Callable[[Any, Any, Any, Any, Electricity], Any]) -> Derived:
    """Return what works out a figure of joules, seconds, tokens and devices."""

    def of(profile: Profile, electricity: Electricity) -> Any:
        joules, seconds, tokens = _SHARES[profile.task.name](profile)
        return (
            None if joules is None else figure(joules, seconds, tokens, profile.scenario.cluster.devices, electricity)
        )

    return of


_OF_ALL: Final[Mapping[str, Derived]] = {
    "energy_j_per_token": _of_share(lambda joules, _, tokens, *__: joules / tokens),
    "carbon_kg_per_million_tokens": _of_share(
        lambda joules, _, tokens, __, electricity: electricity.carbon_kg(joules) * 1e6 / tokens
    ),
    "power_w": _of_share(lambda joules, seconds, _, devices, __: power_w(joules, devices, seconds)),
    CARBON: lambda p, electricity: None if p.energy_j is None else electricity.carbon_kg(p.energy_j),
}
_RENT: Final[Mapping[str, Derived]] = {
    "cost_usd_per_million_tokens": lambda p, _: (
        None if p.usd_per_hour is None else rent_usd(1, 1e6 / p.tokens_per_s, p.usd_per_hour)
    ),
}
DERIVED: Final[Mapping[str, Mapping[str, Derived]]] = {
    "training": {**_RENT, **_OF_ALL},
    "generation": _OF_ALL,
    "serving": _OF_ALL,
}
"""Results that a study works out itself, by task and key."""

MADE: Final[Mapping[str, Callable[[Budget, Made], Any]]] = {
    "device_cost_usd": lambda budget, _: made_for(budget).usd,
    "device_peak_flops": lambda _, made: made.device.peak_flops.get("bf16"),
    "device_l2_bytes": lambda _, made: made.device.l2_bytes,
    "device_frequency_hz": lambda _, made: made.frequency_hz,
    "device_tdp_w": lambda _, made: made.device.tdp_w,
}
"""Results of making a device of technology, by key; the cost is of good dies and memory, an estimate."""

DESIGN: Final = ("device_peak_flops", "device_l2_bytes", "device_frequency_hz")
"""What the best of a search of devices is told by."""
