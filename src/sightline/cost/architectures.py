"""Devices' architectures: what kernels are compiled for, which families share it, and how far others are.

The catalog's devices state theirs; ``architectures.yaml`` says what is known of each.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sightline.catalog.yaml12 import parse
from sightline.cost.unmeasured import Distance
from sightline.scenario import Device

UNKNOWN: Mapping[str, Any] = {"maker": "", "memory": "", "families": ()}
SEVERAL = ("generic", "pcie")
"""Families of several devices together; other families without an architecture are a user's, for that device."""
MEASURED_MAKER = "nvidia"
"""Maker of the devices that all families of several devices together were measured on."""


@cache
def known() -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of each architecture, by name."""
    text = Path(__file__).with_name("architectures.yaml").read_text(encoding="utf-8")
    return {name: {**UNKNOWN, **told} for name, told in parse(text).items()}


def of_device(device: Device) -> Mapping[str, Any]:
    """Return what is known of a device's architecture: its maker, kind of memory, process and measured families."""
    return known().get(device.architecture, UNKNOWN)


def of_family(family: str) -> str:
    """Return the architecture that a family was measured on; empty for a user's and for several together."""
    return next((name for name, told in known().items() if family in told["families"]), "")


def kin(family: str) -> frozenset[str]:
    """Return the families that were measured on the architecture of this one, itself among them."""
    return frozenset({family, *known().get(of_family(family), UNKNOWN)["families"]})


def distance(device: Device, family: str) -> Distance:
    """Return how far ``device`` is from the devices that a family was measured on."""
    architecture = of_family(family)
    if architecture == device.architecture if architecture else family not in SEVERAL:
        return "same architecture"
    maker = known()[architecture]["maker"] if architecture else MEASURED_MAKER
    return "same maker" if maker == of_device(device)["maker"] else "other"
