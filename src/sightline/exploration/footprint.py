"""What a run takes from the world: electricity of a data center, its carbon, the money it costs, power of a device."""

from sightline.quantities import Number

JOULES_PER_KWH = 3.6e6
SECONDS_PER_HOUR = 3600.0
GRID_KG_PER_KWH = 0.458
"""Kilograms of CO2 equivalents per kWh of the world's electricity in 2025: Ember, Global Electricity Review 2026."""
PUE = 1.54
"""Energy of a data center over that of its computers: weighted average of Uptime Institute's Global Data Center Survey
2025. The largest operators are far below it: Google reports 1.09 for its own in 2025."""


def assumption_of(intensity: float = GRID_KG_PER_KWH, pue: float = PUE) -> str:
    """Return the sentence of a study that reports carbon: the electricity that is counted."""
    usual = {GRID_KG_PER_KWH: " (the world's in 2025: Ember, Global Electricity Review 2026)"}
    survey = {PUE: " (the mean of Uptime Institute's survey of 2025; the largest operators report about 1.1)"}
    return (
        f"Carbon counts {1e3 * intensity:.4g} g CO2e per kWh of electricity{usual.get(intensity, '')}, and {pue:g} kWh "
        f"of a data center per kWh of its devices{survey.get(pue, '')}. Hosts and network are left out."
    )


def carbon_kg(energy_j: Number, intensity: Number = GRID_KG_PER_KWH, pue: Number = PUE) -> Number:
    """Return kilograms of CO2 equivalents of the electricity that computers use.

    ``energy_j`` x ``pue`` in kWh x ``intensity`` in kg per kWh. Left out: making the devices and the building, and the
    hosts and network wherever ``energy_j`` is that of devices alone.
    """
    return energy_j / JOULES_PER_KWH * pue * intensity


def rent_usd(devices: Number, seconds: Number, usd_per_hour: Number) -> Number:
    """Return the rent of ``devices`` for a time, at a price per device and hour."""
    return devices * seconds / SECONDS_PER_HOUR * usd_per_hour


def power_w(energy_j: Number, devices: Number, seconds: Number) -> Number:
    """Return the mean watts of one device over a run that takes ``energy_j`` on all of them."""
    return energy_j / (devices * seconds)
