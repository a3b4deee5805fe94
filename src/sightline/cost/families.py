"""Whose measurements a device's constants rest on: its own family's, a relative's, or nobody's.

A calibration family is a folder of the catalog with a file per part: matmul, attention, collectives, training, ... A
family may have been measured in some parts only; for the others the device's relatives stand in, nearest first.
"""

from functools import cache

from sightline.catalog import entry, names
from sightline.profile import Evidence
from sightline.scenario import Device

UNMEASURED = "generic"
"""The family of devices that nobody measured; it has every part."""


def family_of(device: Device, part: str) -> str:
    """Return the nearest family of ``device`` with constants of ``part``: its own, a relative's, or ``generic``."""
    return _first_with(part, (device.calibration, *device.relatives))


def training_family(device: Device, framework: str) -> str:
    """Return the nearest family whose training constants know ``framework``, or else the nearest of all."""
    known = (f for f in (device.calibration, *device.relatives) if f"{f}/training" in names("calibrations"))
    return next(
        (f for f in known if framework in _training_frameworks(f)),
        family_of(device, "training"),
    )


@cache
def _training_frameworks(family: str) -> frozenset[str]:
    """The frameworks that a family's training constants were fitted for, or given with a relative of."""
    return frozenset(name.partition("@")[0] for name in entry("calibrations", f"{family}/training")["frameworks"])


def full_rate_family(device: Device, part: str) -> str:
    """Return the family for arithmetic at a rate that the device's own family was not measured at: a relative's first.

    Products of GeForce devices were measured with sums in fp32, at half of their rate, where a smaller L2 never binds.
    """
    return _first_with(part, (*device.relatives, device.calibration))


def evidence_of(device: Device, part: str) -> Evidence:
    """What constants of ``part`` rest on for ``device``: its own measurements, those of a relative, or its datasheet.

    A family's name begins the names of the devices it was measured on (a100-sxm of a100-sxm-80gb), or its entry says
    which ``device`` that was; others borrow it. An entry may itself be extrapolated.
    """
    family = family_of(device, part)
    if family == UNMEASURED:
        return "datasheet"
    stated = entry("calibrations", f"{family}/{part}")
    own = device.name.startswith(family) or stated.get("device") == device.name
    return "calibrated" if own and stated.get("evidence") != "extrapolated" else "extrapolated"


@cache
def _first_with(part: str, families: tuple[str, ...]) -> str:
    known = names("calibrations")
    return next((family for family in families if f"{family}/{part}" in known), UNMEASURED)
