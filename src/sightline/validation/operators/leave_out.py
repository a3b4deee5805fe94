"""Constants for a device as if it had never been measured: those of its nearest relative, else of all other devices.

What a family lent to others, and what others lend to all (``generic``), is made without the family in question.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import device_of, manifest
from sightline.calibration.parts.collective_entries import kinds_at, mean_kinds
from sightline.calibration.parts.collectives import CollectiveTable, measured_node, predicted
from sightline.calibration.parts.elementwise import scalar_between
from sightline.calibration.parts.grouped import FITTED
from sightline.calibration.parts.matmul_entries import constants_at
from sightline.calibration.parts.part import between
from sightline.calibration.parts.serving_entries import measured_families
from sightline.catalog import entry, names
from sightline.cost.attention.constants import at_clock
from sightline.cost.clock import clock_hz
from sightline.cost.collectives.constants import KindConstants
from sightline.cost.collectives.families import PCIE, load_collectives
from sightline.cost.elementwise import ElementwiseConstants, KernelGeneration, bytes_per_cycle, load_elementwise
from sightline.cost.families import PROCESSOR, UNMEASURED
from sightline.cost.matmul.constants import MatmulConstants, borrowed_matmul, load_matmul
from sightline.cost.matmul.grouped import GroupedConstants, load_grouped
from sightline.scenario import Cluster


def lender_of(family: str, part: str) -> str:
    """The family whose constants of ``part`` the devices of ``family`` would take had it not been measured."""
    return next((r for r in _relatives(family) if _is_clean(r, part, family)), UNMEASURED)


def _relatives(family: str) -> list[str]:
    """The families that a device names as its relatives, nearest first, then the measured ones that name it."""
    named = [relative for relative in device_of(family).relatives if relative != family]
    measured = dict.fromkeys(name.split("/")[0] for name in names("calibrations"))
    naming = [
        m for m in measured if m not in {PCIE, UNMEASURED, PROCESSOR, family} and family in device_of(m).relatives
    ]
    return [*named, *(m for m in naming if m not in named)]


def attention_without(family: str, part: str) -> tuple[str, Mapping[str, Any]]:
    """The lender and constants of a serving engine's attention.

    A relative lends what it was measured with where its compute units are the same; else all other devices lend
    together (``generic``), in the form of the device's own kernel.
    """
    lender = lender_of(family, part)
    if lender == UNMEASURED or _units(family) != _units(lender):
        together = entry("calibrations", f"{UNMEASURED}/{part}")["left_out"][family]
        lender, constants = UNMEASURED, at_clock(together, device_of(family))
    else:
        constants = entry("calibrations", f"{lender}/{part}")["constants"]
    return lender, {name: value for name, value in constants.items() if name != "surface"}


def _units(family: str) -> tuple[Any, ...]:
    """How many compute units a device has, and what they reach together."""
    device = device_of(family)
    return device.compute_units, device.peak_flops


def matmul_without(family: str, kernel: str) -> tuple[str, MatmulConstants]:
    """The lender and constants of matmuls in a format, at the clock of the family."""
    lender = lender_of(family, "matmul")
    if lender != UNMEASURED and _stated(lender, "matmul")["kernels"].get(kernel, {}).get("of") != family:
        return lender, borrowed_matmul(lender, device_of(family), kernel).without_surface()
    measured = [name for name in _families("matmul") if _is_measured(name, kernel)]
    others = [
        name for name in (manifest("matmul")["generic_16_bit"] if kernel == "16-bit" else measured) if name != family
    ]
    if not others:
        return UNMEASURED, load_matmul(UNMEASURED, "16-bit")
    entries = [entry("calibrations", f"{name}/matmul") for name in others]
    sets = [constants_at(device_of(family), e["kernels"][kernel]["constants"], e["units"]) for e in entries]
    shared: list[Mapping[str, Any]] = [{n: s[n] for n in s if all(n in other for other in sets)} for s in sets]
    return " and ".join(others), MatmulConstants.from_mapping({**between(shared), "tiles": sets[0]["tiles"]})


def elementwise_without(family: str, generation: KernelGeneration) -> tuple[str, Mapping[str, ElementwiseConstants]]:
    """The lender and constants by class of bandwidth-bound kernels."""
    lender = next(
        (r for r in device_of(family).relatives if r != family and generation in _stated(r, "elementwise")["kernels"]),
        UNMEASURED,
    )
    stated = manifest("elementwise")
    mean = stated["scalar_mean"]
    if lender != UNMEASURED or generation != "scalar" or family not in mean:
        return lender, load_elementwise(lender, generation)
    scalar = scalar_between(
        {name: dict(entry("calibrations", f"{name}/elementwise")) for name in mean if name != family}
    )
    unit_bytes = float(bytes_per_cycle(device_of(stated["common"])))
    return UNMEASURED, {kind: ElementwiseConstants(**x, unit_bytes=unit_bytes) for kind, x in scalar.items()}


def grouped_without(family: str, layout: str) -> tuple[str, GroupedConstants]:
    """The lender and constants of experts' matmuls."""
    lender = next(name for name in manifest("grouped")["families"] if name != family)
    return lender, load_grouped(lender, FITTED, layout)[0]


def collectives_without(family: str) -> tuple[str, Mapping[str, KindConstants]]:
    """The lender and constants of NCCL inside a node, of links of the same kind."""
    on_pcie = _on_pcie(family)
    clean = [r for r in _relatives(family) if _is_clean(r, "collectives", family) and _on_pcie(r) == on_pcie]
    if clean:
        lender = min(clean, key=lambda relative: _generations_apart(relative, family))
        return lender, load_collectives(lender).kinds
    peers = (
        [n for n in _families("collectives") if n != PCIE and _on_pcie(n)]
        if on_pcie
        else manifest("collectives")["generations"]
    )
    others = [name for name in peers if name != family]
    clock = clock_hz(device_of(family))
    return " and ".join(others), mean_kinds([kinds_at(load_collectives(name).kinds, name, clock) for name in others])


def server_shares(
    table: CollectiveTable, node: Cluster, kinds: Mapping[str, KindConstants]
) -> tuple[dict[int, float], NDArray[np.bool_]]:
    """Return what a server's PCIe links leave each rank, as a cluster may state it, and the rows that tell it.

    One message for each number of ranks tells it, the longest: where switches, root complexes and sockets lie between
    the devices is the server's and in no datasheet of the device. ``kinds`` are the constants that it is to go with.
    """
    alone = {table.kind: replace(kinds[table.kind], shares={})}
    rows = [np.flatnonzero(table.ranks == ranks) for ranks in np.unique(table.ranks)]
    told = np.isin(np.arange(len(table)), [own[np.argmax(table.bytes[own])] for own in rows])
    longest = table.where(told)
    shares = predicted(longest, node, alone) / longest.seconds
    return {int(ranks): float(share) for ranks, share in zip(longest.ranks, shares, strict=True)}, told


def _families(part: str) -> list[str]:
    return [n.split("/")[0] for n in names("calibrations") if n.endswith(f"/{part}") and not n.startswith(UNMEASURED)]


def _stated(family: str, part: str) -> Mapping[str, Any]:
    """The entry of a family, without kernels where there is none."""
    name = f"{family}/{part}"
    return entry("calibrations", name) if name in names("calibrations") else {"kernels": {}}


def _on_pcie(family: str) -> bool:
    return bool(entry("calibrations", f"{family}/collectives")["topology"] == PCIE)


def _generations_apart(one: str, other: str) -> float:
    """How far the bandwidths of two families' links lie apart."""
    bandwidths = [
        measured_node(manifest("collectives")["families"][family]["interconnect"]).intra_node.bandwidth
        for family in (one, other)
    ]
    return float(np.abs(np.log(bandwidths[0] / bandwidths[1])))


def _is_clean(relative: str, part: str, family: str) -> bool:
    """Whether a relative has constants of ``part`` that did not start from those of ``family``."""
    return _stated(relative, part).get("evidence") == "fitted" and family not in _origins(relative, part)


def _origins(family: str, part: str) -> set[str]:
    """The families whose constants were the priors of a family's own."""
    if part == "matmul":
        tables = manifest(part)["families"].get(family, {}).get("tables", ())
        return {table["relative"] for table in tables if "relative" in table}
    if part == "collectives":  # a long table of one's own leaves nothing of the relative's
        told = manifest(part)["families"].get(family, {"aiconfigurator": ""})
        return set() if "aiconfigurator" in told else {told.get("relative", "")}
    if not part.endswith("_attention"):
        return set()
    measured = measured_families(part)
    return {str(measured[family].relative)} if family in measured else set(names("calibrations"))


def _is_measured(family: str, kernel: str) -> bool:
    stated = _stated(family, "matmul")["kernels"].get(kernel, {})
    return "constants" in stated and "of" not in stated
