"""Whose measurements a device's constants rest on: its own family's, a relative's, or nobody's.

A calibration family is a folder of the catalog with a file per part: matmul, attention, collectives, training, ... A
family may have been measured in some parts only; for the others the device's relatives stand in, nearest first.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, Self

from sightline.catalog import entry, names
from sightline.profile import Evidence
from sightline.scenario import Device

PROCESSOR = "processor"
"""The part of a calibration that makes its family one of processors."""
UNMEASURED = "generic"
"""The family of devices that nobody measured; it has every part."""


class Stated:
    """Constants that an entry of the catalog states by name."""

    __slots__ = ()

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> Self:
        """The constants out of an entry; all without a default must be there, and other keys are left alone."""
        return cls(**stated_values(cls, mapping))


def stated_values(kind: Any, mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that ``mapping`` states of a class of constants: numbers as floats, lists as tuples."""
    return {f.name: _value(mapping[f.name]) for f in fields(kind) if f.name in mapping or f.default is MISSING}


def _value(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_value, value))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def family_of(device: Device, part: str) -> str:
    """Return the nearest family of ``device`` with constants of ``part``: its own, a relative's, or ``generic``."""
    return _first_with(part, (device.calibration, *device.relatives))


def family_with(device: Device, part: str) -> str | None:
    """Return the nearest family of ``device`` with constants of ``part``; None where only ``generic`` has them."""
    return _measured_with(part, (device.calibration, *device.relatives))


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


def _first_with(part: str, families: tuple[str, ...]) -> str:
    return _measured_with(part, families) or UNMEASURED


@cache
def _measured_with(part: str, families: tuple[str, ...]) -> str | None:
    known = names("calibrations")
    return next((family for family in families if f"{family}/{part}" in known), None)
