"""Whose measurements a device's constants rest on - its own family's, a relative's, or nobody's -, and their errors.

A calibration family is a folder of the catalog with a file per part: matmul, attention, collectives, training, ... A
family may have been measured in some parts only; for the others the device's relatives stand in, nearest first.

How far measurements lie from what formulas predict: half-widths of 80 % intervals, in natural logarithms. Calibrations
state the median and the 90th percentile of the absolute errors of what a fit did not see, or, where too little was
measured to leave some out, of what it saw. The 80th percentile lies between. Whether a size lies between the smallest
and the largest that a calibration was fitted to: an entry states ``covered``, by kernel (of collectives: kind, or
engine) and size the ends of the range that was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from math import log1p
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sightline.catalog import entry, names
from sightline.catalog.yaml12 import parse
from sightline.quantities import Number
from sightline.scenario import Device

Distance: TypeAlias = Literal["same architecture", "same maker", "other", "server unknown"]
"""How far a device is from those that its constants were measured on: the same silicon or instructions, another
generation or kind of memory of the maker, or none that anybody knows it to be like. Of collectives over PCIe also: on a
server of which nobody knows how its links share the way through the host."""
GROWTH: tuple[Distance, ...] = ("same architecture", "same maker", "other", "server unknown")
SERVER_UNKNOWN = "server unknown"
FURTHER = 1.5
"""Half-width over that of the next smaller distance where too little was left out so far away. For other makers'
devices it is at least that: of element-wise kernels it is 1.6, and of other makers' products only the largest were
measured."""
OTHERS = 0.5
"""For parts that are not listed."""


@cache
def known_spreads() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return what was found by leaving devices out, by part and distance."""
    return parse(Path(__file__).with_name("left_out.yaml").read_text(encoding="utf-8")) or {}


@cache
def unmeasured_half_width(part: str, distance: Distance) -> float:
    """Return the half-width at a distance, never less than at a smaller one."""
    by_distance = known_spreads().get(part, {})
    if not by_distance:
        return OTHERS
    widest = 0.0
    for nearer in GROWTH[: GROWTH.index(distance) + 1]:
        if nearer == "other" or (nearer == "same maker" and nearer not in by_distance):
            widest *= FURTHER
        widest = max(widest, float(by_distance[nearer]["half_width"]) if nearer in by_distance else 0.0)
    return widest


def half_width_without(part: str, distance: Distance, suite: str) -> float | None:
    """Return the half-width at a distance that other devices than a suite's say; None where they say nothing."""
    width = known_spreads().get(part, {}).get(distance, {}).get("without", {}).get(suite)
    return None if width is None else float(width)


UNKNOWN: Mapping[str, Any] = {"maker": "", "memory": "", "families": (), "byte_pj": 130.0}
SEVERAL = ("generic", "pcie")
"""Families of several devices together; other families without an architecture are a user's, for that device."""
MEASURED_MAKER = "nvidia"
"""Maker of the devices that all families of several devices together were measured on."""


@cache
def known_architectures() -> Mapping[str, Mapping[str, Any]]:
    """Return the properties of each architecture by name, `UNKNOWN` where they are not stated."""
    text = Path(__file__).with_name("architectures.yaml").read_text(encoding="utf-8")
    return {name: {**UNKNOWN, **stated} for name, stated in parse(text).items()}


def of_device(device: Device) -> Mapping[str, Any]:
    """Return what is known of a device's architecture: its maker, kind of memory, process and measured families."""
    return known_architectures().get(device.architecture, UNKNOWN)


def of_family(family: str) -> str:
    """Return the architecture that a family was measured on; empty for a user's and for several together."""
    return next((name for name, stated in known_architectures().items() if family in stated["families"]), "")


def kin(family: str) -> frozenset[str]:
    """Return the families that were measured on the architecture of this one, itself among them."""
    return frozenset({family, *known_architectures().get(of_family(family), UNKNOWN)["families"]})


def distance(device: Device, family: str) -> Distance:
    """Return how far ``device`` is from the devices that a family was measured on."""
    architecture = of_family(family)
    if architecture == device.architecture if architecture else family not in SEVERAL:
        return "same architecture"
    maker = known_architectures()[architecture]["maker"] if architecture else MEASURED_MAKER
    return "same maker" if maker == of_device(device)["maker"] else "other"


Evidence = Literal["calibrated", "extrapolated", "datasheet"]
"""Where a constant comes from: fitted on this device's measurements, on a relative's, or the datasheet."""
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
    extrapolated = entry("calibrations", f"{family}/{part}").get("evidence") == "extrapolated"
    return "calibrated" if is_own(device, family, part) and not extrapolated else "extrapolated"


def is_own(device: Device, family: str, part: str) -> bool:
    """Whether a family's constants of ``part`` were measured on ``device`` itself."""
    return device.name.startswith(family) or entry("calibrations", f"{family}/{part}").get("device") == device.name


def _first_with(part: str, families: tuple[str, ...]) -> str:
    return _measured_with(part, families) or UNMEASURED


@cache
def _measured_with(part: str, families: tuple[str, ...]) -> str | None:
    known = names("calibrations")
    return next((family for family in families if f"{family}/{part}" in known), None)


BETWEEN = 0.7
"""Where the 80th percentile lies on the way from the median to the 90th, in logarithms: 0.72 for normally distributed
errors, 0.70 for Laplace's."""

OUTSIDE: Mapping[str, float] = {
    "matmul": 0.20,
    "prefill_attention": 0.40,
    "decode_attention": 0.45,
    "latent_decode_attention": 0.40,
    "grouped": 0.40,
    "elementwise": 0.30,
    "collectives": 0.25,
}
"""Half-widths by part for a device's own constants where it was not measured: other sizes, formats or kernels. As wide
as families predicted with a relative's constants were off in 2026-11, about the median over the families."""


def half_width(device: Device, part: str, path: Sequence[str], ranges: Sequence[str], evidence: Evidence) -> float:
    """Return the logarithmic half-width of the 80 % interval of an operator's time.

    ``path`` are the keys that lead to the residuals in the part's calibration entry; of their ranges the first that
    ends in one of ``ranges`` counts, or all where none does, and the widest where several end so. Constants that rest
    on a relative's or nobody's measurements are at least as wide as the errors of devices as far from those measured.
    """
    return family_half_width(device, family_of(device, part), part, path, ranges, evidence)


def family_half_width(
    device: Device, family: str, part: str, path: Sequence[str], ranges: Sequence[str], evidence: Evidence
) -> float:
    """Return the same for the constants of a calibration family on ``device``."""
    if evidence == "datasheet" or family == UNMEASURED:
        return unmeasured_half_width(part, distance(device, UNMEASURED))
    own = _stated(family, part, tuple(path), tuple(ranges))
    if evidence == "calibrated" and own is not None:
        return own
    if is_own(device, family, part):
        return max(own or 0.0, OUTSIDE.get(part, OTHERS))
    return max(own or 0.0, unmeasured_half_width(part, distance(device, family)))


def first_stated(family: str, part: str, *paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first of ``paths`` at which a calibration entry states residuals; the last where it has none."""
    return next((path for path in paths if _stated(family, part, path, ()) is not None), paths[-1])


@cache
def _stated(family: str, part: str, path: tuple[str, ...], ranges: tuple[str, ...]) -> float | None:
    """What the calibration entry states; None where it says nothing."""
    place: Any = entry("calibrations", f"{family}/{part}")
    for key in path:
        place = place.get(key) if isinstance(place, Mapping) else None
    if not place:
        return None
    known = place if isinstance(place, Mapping) else {"": place}
    chosen = next((names for r in ranges if (names := [n for n in known if n.endswith(r)])), list(known))
    widths = [width for name in chosen if (width := _percentile_80(known[name])) is not None]
    return max(widths, default=None)


def _percentile_80(figures: object) -> float | None:
    """Of a mapping with median and p90, or of a list of cases, median, p90 and bias in per cent."""
    if isinstance(figures, Mapping) and {"median", "p90"} <= figures.keys():
        median, p90 = figures["median"], figures["p90"]
    elif isinstance(figures, Sequence) and not isinstance(figures, str) and len(figures) >= 3:
        median, p90 = figures[1] / 100, figures[2] / 100
    else:
        return None
    return log1p(median ** (1 - BETWEEN) * p90**BETWEEN)


def covers(family: str, part: str, kernel: str, sizes: Mapping[str, Number]) -> NDArray[np.bool_]:
    """Return where all ``sizes`` lie in the ranges of ``kernel``.

    Sizes broadcast. Nothing is outside a range not stated.
    """
    ranges: Mapping[str, Any] = entry("calibrations", f"{family}/{part}").get("covered", {}).get(kernel, {})
    inside = np.asarray(True)
    for name, size in sizes.items():
        if name in ranges:
            low, high = ranges[name]
            inside = inside & (np.asarray(size) >= low) & (np.asarray(size) <= high)
    return inside
