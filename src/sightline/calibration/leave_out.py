"""Constants for a device as if it had never been measured: those of its nearest relative, else of all other devices.

What a family lent to others, and what others lend to all (``generic``), is made without the family in question.
"""

from collections.abc import Mapping
from typing import Any

from sightline.calibration.attention_kernels import DECODE, LATENT, PREFILL
from sightline.calibration.collective_entries import GENERATIONS, mean_kinds
from sightline.calibration.collective_systems import SYSTEMS
from sightline.calibration.elementwise_entries import COMMON, VIDUR, scalar_between
from sightline.calibration.entries import between, device_of
from sightline.calibration.matmul_entries import FAMILIES, GENERIC_16_BIT
from sightline.catalog import entry, names
from sightline.cost.collective_constants import KindConstants
from sightline.cost.collective_families import PCIE, load_collectives
from sightline.cost.elementwise_constants import (
    ElementwiseConstants,
    KernelGeneration,
    bytes_per_cycle,
    load_elementwise,
)
from sightline.cost.families import UNMEASURED
from sightline.cost.grouped_matmul_constants import GroupedConstants, GroupedLayout, load_grouped
from sightline.cost.matmul import MatmulConstants, load_matmul

FP8_BLOCK = "fp8-block"
"""Weights of the experts that were measured."""


def lender_of(family: str, part: str) -> str:
    """The family whose constants of ``part`` the devices of ``family`` would take had it not been measured."""
    relatives = (relative for relative in device_of(family).relatives if relative != family)
    return next((r for r in relatives if _is_clean(r, part, family)), UNMEASURED)


def attention_without(family: str, part: str) -> tuple[str, Mapping[str, Any]]:
    """The lender and constants of a serving engine's attention.

    A relative lends what it was measured with where its compute units are the same; else all other devices lend together
    (``generic``), in the form of the device's own kernel.
    """
    lender = lender_of(family, part)
    if not _same_units(family, lender):
        lender = UNMEASURED
    stated = entry("calibrations", f"{lender}/{part}")
    constants = stated["left_out"][family] if lender == UNMEASURED else stated["constants"]
    return lender, {name: value for name, value in constants.items() if name != "surface"}


def _same_units(family: str, other: str) -> bool:
    """Whether devices have as many compute units of the same rate."""
    if other == UNMEASURED:
        return False
    one, two = device_of(family), device_of(other)
    return (one.compute_units, one.peak_flops) == (two.compute_units, two.peak_flops)


def matmul_without(family: str, kernel: str) -> tuple[str, MatmulConstants]:
    """The lender and constants of matmuls in a format."""
    lender = lender_of(family, "matmul")
    if lender != UNMEASURED:
        stated = entry("calibrations", f"{lender}/matmul")["kernels"].get(kernel, {})
        if stated.get("of") != family:
            return lender, load_matmul(lender, kernel).without_surface()
    measured = [name for name in _families("matmul") if _is_measured(name, kernel)]
    others = [name for name in (GENERIC_16_BIT if kernel == "16-bit" else measured) if name != family]
    if not others:
        return UNMEASURED, load_matmul(UNMEASURED, "16-bit")
    sets = [entry("calibrations", f"{name}/matmul")["kernels"][kernel]["constants"] for name in others]
    shared: list[Mapping[str, Any]] = [{n: s[n] for n in s if all(n in other for other in sets)} for s in sets]
    return " and ".join(others), MatmulConstants.from_mapping({**between(shared), "tiles": sets[0]["tiles"]})


def elementwise_without(family: str, generation: KernelGeneration) -> tuple[str, Mapping[str, ElementwiseConstants]]:
    """The lender and constants by class of bandwidth-bound kernels."""
    lender = next(
        (r for r in device_of(family).relatives if r != family and _has_generation(r, generation)), UNMEASURED
    )
    if lender != UNMEASURED or generation != "scalar" or family not in VIDUR:
        return lender, load_elementwise(lender, generation)
    scalar = scalar_between(
        {name: dict(entry("calibrations", f"{name}/elementwise")) for name in VIDUR if name != family}
    )
    unit_bytes = float(bytes_per_cycle(device_of(COMMON)))
    return UNMEASURED, {kind: ElementwiseConstants(**x, unit_bytes=unit_bytes) for kind, x in scalar.items()}


def grouped_without(family: str, layout: GroupedLayout, measured: tuple[str, ...]) -> tuple[str, GroupedConstants]:
    """The lender and constants of experts' matmuls, of the families that were ``measured``."""
    lender = next(name for name in measured if name != family)
    return lender, load_grouped(lender, FP8_BLOCK, layout)[0]


def collectives_without(family: str) -> tuple[str, Mapping[str, KindConstants]]:
    """The lender and constants of NCCL inside a node, of links of the same kind."""
    on_pcie = _on_pcie(family)
    for relative in device_of(family).relatives:
        if _is_clean(relative, "collectives", family) and _on_pcie(relative) == on_pcie:
            return relative, load_collectives(relative).kinds
    peers = [n for n in _families("collectives") if n != PCIE and _on_pcie(n)] if on_pcie else GENERATIONS
    others = [name for name in peers if name != family]
    return " and ".join(others), mean_kinds([load_collectives(name).kinds for name in others])


def _families(part: str) -> list[str]:
    return [n.split("/")[0] for n in names("calibrations") if n.endswith(f"/{part}") and not n.startswith(UNMEASURED)]


def _has_generation(family: str, generation: KernelGeneration) -> bool:
    part = f"{family}/elementwise"
    return part in names("calibrations") and generation in entry("calibrations", part)["kernels"]


def _on_pcie(family: str) -> bool:
    return bool(entry("calibrations", f"{family}/collectives")["topology"] == PCIE)


def _is_clean(relative: str, part: str, family: str) -> bool:
    """Whether a relative has constants of ``part`` that did not start from those of ``family``."""
    return f"{relative}/{part}" in names("calibrations") and family not in _origins(relative, part)


def _origins(family: str, part: str) -> set[str]:
    """The families whose constants were the priors of a family's own."""
    if part == "matmul":
        return {layers.relative for layers in FAMILIES[family].layers} if family in FAMILIES else set()
    if part == "collectives":  # a long table of one's own leaves nothing of the relative's
        return {system.relative for system in SYSTEMS if system.family == family and not system.aiconfigurator}
    measured = {"prefill_attention": PREFILL, "decode_attention": DECODE, "latent_decode_attention": LATENT}.get(part)
    if measured is None:
        return set()
    return {str(measured[family].relative)} if family in measured else set(names("calibrations"))


def _is_measured(family: str, kernel: str) -> bool:
    stated = entry("calibrations", f"{family}/matmul")["kernels"].get(kernel, {})
    return "constants" in stated and "of" not in stated
