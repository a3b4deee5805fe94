"""Whose measurements a device's constants rest on: its own family's, a relative's, or nobody's.

A calibration family is a folder of the catalog with a file per part: matmul, attention, collectives, training, ... A
family may have been measured in some parts only; for the others the device's relatives stand in, nearest first.
"""

from functools import cache

from sightline.catalog import entry, names
from sightline.operator_profile import Evidence
from sightline.scenario import Device

UNMEASURED = "generic"
"""The family of devices that nobody measured; it has every part."""


def family_of(device: Device, part: str) -> str:
    """Return the nearest family of ``device`` with constants of ``part``: its own, a relative's, or ``generic``."""
    return _first_with(part, (device.calibration, *device.relatives))


def evidence_of(device: Device, part: str) -> Evidence:
    """What constants of ``part`` rest on for ``device``: its own measurements, those of a relative, or its datasheet.

    A family's name begins the names of the devices it was measured on (a100-sxm of a100-sxm-80gb), or its entry says
    which ``device`` that was; others borrow it.
    """
    family = family_of(device, part)
    if family == UNMEASURED:
        return "datasheet"
    own = device.name.startswith(family) or entry("calibrations", f"{family}/{part}").get("device") == device.name
    return "calibrated" if own else "extrapolated"


@cache
def _first_with(part: str, families: tuple[str, ...]) -> str:
    known = names("calibrations")
    return next((family for family in families if f"{family}/{part}" in known), UNMEASURED)
