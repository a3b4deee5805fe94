"""What a run takes from the world: electricity of a data center, its carbon, the money it costs, power of a device."""

from dataclasses import dataclass
from typing import Any, Final

from sightline.errors import InputError
from sightline.loading.checks import Complaints, check
from sightline.quantities import COUNT, Number, show
from sightline.validators import Keys, quantity

JOULES_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0
GRID_KG_PER_KWH = 0.458
"""Kilograms of CO2 equivalents per kWh of the world's electricity in 2025: Ember, Global Electricity Review 2026."""
PUE = 1.54
"""Energy of a data center over that of its computers: weighted average of Uptime Institute's Global Data Center Survey
2025. The largest operators are far below it: Google reports 1.09 for its own in 2025."""


def _pue(value: Any) -> float:
    """Energy of a data center over that of its computers, which is part of it."""
    if (found := quantity(COUNT)(value)) < 1:
        raise InputError(f"is {show(value)}; allowed: a number of 1 or more")
    return float(found)


ELECTRICITY: Final[Keys] = {"kg_per_kwh": quantity(COUNT, zero=True), "pue": _pue}
"""Keys of ``electricity`` in a study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Electricity:
    """What a kilowatt-hour of devices stands for."""

    kg_per_kwh: float = GRID_KG_PER_KWH
    """Kilograms of CO2 equivalents per kWh of the grid."""
    pue: float = PUE
    """Energy of the data center over that of its devices."""

    def carbon_kg(self, energy_j: Number) -> Number:
        """Return kilograms of CO2 equivalents of the electricity that computers use.

        ``energy_j`` in kWh x ``pue`` x ``kg_per_kwh``. Left out: making the devices and the building, and the hosts and
        network wherever ``energy_j`` is that of devices alone.
        """
        return energy_j / JOULES_PER_KWH * self.pue * self.kg_per_kwh

    @property
    def sentence(self) -> str:
        """What a study that reports carbon assumes."""
        usual = {GRID_KG_PER_KWH: " (world average of 2025: Ember, Global Electricity Review 2026)"}
        survey = {PUE: " (average of the 2025 Uptime Institute survey; the largest operators report about 1.1)"}
        return (
            f"Carbon assumes {1e3 * self.kg_per_kwh:.4g} g CO2e per kWh of "
            f"electricity{usual.get(self.kg_per_kwh, '')}, and a data center that uses {self.pue:g} kWh per kWh "
            f"of its devices{survey.get(self.pue, '')}. Hosts and network are excluded."
        )


def read_electricity(stated: object, complaints: Complaints) -> Electricity:
    """Return what a study says of electricity, mistakes noted; the usual one where it says nothing."""
    return Electricity(**check(ELECTRICITY, {} if stated is None else stated, "electricity", complaints).values)


def rent_usd(devices: Number, seconds: Number, usd_per_hour: Number) -> Number:
    """Return the rent of ``devices`` for a time, at a price per device and hour."""
    return devices * seconds / SECONDS_PER_HOUR * usd_per_hour


def power_w(energy_j: Number, devices: Number, seconds: Number) -> Number:
    """Return the mean watts of one device over a run that takes ``energy_j`` on all of them."""
    return energy_j / (devices * seconds)
