"""Constants for a device as if it had never been measured: those of its nearest relative, else of all other devices.

A device is left out whole, with all others of its architecture, which are the same silicon or run the same kernels:
what it lent to others, and what others lend to all (``generic``), is made without them. With
``siblings`` they stay, as where a user's device is another board with silicon that was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.calibration.manifest import device_of, manifest
from sightline.calibration.parts.collective_entries import kinds_at, mean_kinds, over_half_of_the_link, systems
from sightline.calibration.parts.collectives import CollectiveTable, measured_node, predicted
from sightline.calibration.parts.elementwise import scalar_between
from sightline.calibration.parts.grouped import FITTED
from sightline.calibration.parts.matmul import constants_at, fit_sustained
from sightline.calibration.parts.part import between
from sightline.calibration.parts.serving_attention import measured_families
from sightline.catalog import entry, names
from sightline.cost.attention_constants import at_clock as attention_at_clock
from sightline.cost.clock import SustainedLaw, clock_hz, library_share, sustained_share
from sightline.cost.collectives.libraries import PCIE, KindConstants, load_collectives
from sightline.cost.elementwise import ElementwiseConstants, KernelGeneration, bytes_per_cycle, load_elementwise
from sightline.cost.families import PROCESSOR, UNMEASURED, kin
from sightline.cost.grouped_matmul import GroupedConstants, load_grouped
from sightline.cost.matmul import MatmulConstants, at_power
from sightline.scenario import Cluster, Device
from sightline.scenario.precision import MATMUL_FORMATS

GRID: Sequence[str] = manifest("matmul")["generic_16_bit"]
"""Families measured over all sizes, one of each architecture, whose mean stands for devices that nobody measured."""


def apart(family: str, *, siblings: bool = False) -> frozenset[str]:
    """The families that know nothing of a device left out: its architecture's, or with ``siblings`` its own alone."""
    return frozenset({family}) if siblings else kin(family)


def has_siblings(family: str, part: str, kernel: str = "") -> bool:
    """Whether another device of the architecture was measured in a part, in a format of products if one is named."""
    siblings = siblings_with(family, part)
    if part.endswith("_attention"):  # fitted together, each to its own table
        return bool(siblings)
    clean = [name for name in siblings if _is_clean(name, part, frozenset({family}))]
    return any(not kernel or _is_measured(name, kernel) for name in clean)


def siblings_with(family: str, part: str) -> list[str]:
    """The other families of the architecture that have constants of a part."""
    return [name for name in sorted(kin(family) - {family}) if f"{name}/{part}" in names("calibrations")]


def never_fitted_device(device: Device) -> MatmulConstants:
    """The constants of 16-bit products on a device without a family, by rules that do not know its architecture."""
    return together(device, GRID, "16-bit", _law(frozenset({device.architecture})))


def lender_of(family: str, part: str, *, siblings: bool = False) -> str:
    """The family whose constants of ``part`` the devices of ``family`` would take had it not been measured."""
    without = apart(family, siblings=siblings)
    return next((r for r in _relatives(family, without) if _is_clean(r, part, without)), UNMEASURED)


def _relatives(family: str, without: frozenset[str]) -> list[str]:
    """The families that a device names as its relatives, nearest first, then the measured ones that name it."""
    named = [relative for relative in device_of(family).relatives if relative not in without]
    measured = dict.fromkeys(name.split("/")[0] for name in names("calibrations"))
    others = [name for name in measured if name not in {PCIE, UNMEASURED, PROCESSOR} | without]
    naming = [name for name in others if not without.isdisjoint(device_of(name).relatives)]
    return [*named, *(name for name in naming if name not in named)]


def attention_without(family: str, part: str, *, siblings: bool = False) -> tuple[str, Mapping[str, Any]]:
    """The lender and constants of a serving engine's attention.

    A relative lends what it was measured with where its compute units are the same; else all other devices lend
    together (``generic``), in the form of the device's own kernel.
    """
    lender = lender_of(family, part, siblings=siblings)
    if lender == UNMEASURED or _units(family) != _units(lender):
        stated = entry("calibrations", f"{UNMEASURED}/{part}")
        fitted = stated["siblings_left_in" if siblings else "left_out"][family]
        lender, constants = UNMEASURED, attention_at_clock(fitted, device_of(family))
    else:
        constants = entry("calibrations", f"{lender}/{part}")["constants"]
    return lender, {name: value for name, value in constants.items() if name != "surface"}


def _units(family: str) -> tuple[Any, ...]:
    """How many compute units a device has, and what they reach together."""
    device = device_of(family)
    return device.compute_units, device.peak_flops


def matmul_without(family: str, kernel: str, *, siblings: bool = False) -> tuple[str, MatmulConstants]:
    """The lender and constants of matmuls in a format, at the clock and power of the family's device."""
    without = apart(family, siblings=siblings)
    lender = lender_of(family, "matmul", siblings=siblings)
    known = _is_measured(lender, kernel) if lender != UNMEASURED else False
    names_of = {k: [n for n in _lenders(k) if n not in without] for k in (kernel, *MATMUL_FORMATS[kernel].nearest)}
    others = [lender] if known else next(filter(None, names_of.values()), [n for n in GRID if n not in without])
    chosen = kernel if known else next((k for k, lent in names_of.items() if lent), "16-bit")
    architectures = frozenset(device_of(name).architecture for name in without if name != UNMEASURED)
    constants = together(device_of(family), others, chosen, _law(architectures))
    return " and ".join(others), constants if chosen == kernel else constants.without_quantization()


@cache
def _law(without: frozenset[str]) -> SustainedLaw:
    """The rule of sustained shares, fitted without some architectures."""
    return SustainedLaw.from_mapping(fit_sustained(manifest("matmul")["sustained"], without))


def together(device: Device, families: Sequence[str], kernel: str, law: SustainedLaw) -> MatmulConstants:
    """The geometric mean of the constants of families as it is on ``device``."""
    entries = [entry("calibrations", f"{name}/matmul") for name in families]
    sets = [constants_at(device, e["kernels"][kernel]["constants"], e["units"]) for e in entries]
    shared: list[Mapping[str, Any]] = [{n: s[n] for n in s if all(n in other for other in sets)} for s in sets]
    mean = MatmulConstants.from_mapping({**between(shared), "tiles": sets[0]["tiles"]})
    here = sustained_share(device, law)
    shares = [sustained_share(device_of(name), law) for name in families]
    there = [float(share) for share in shares if share is not None]
    return mean if here is None else at_power(mean, here / np.exp(np.log(there).mean()), library_share(device, law))


def _lenders(kernel: str) -> list[str]:
    """The families whose mean stands for products in a format on devices that nobody measured."""
    return list(GRID) if kernel == "16-bit" else [name for name in _families("matmul") if _is_measured(name, kernel)]


def elementwise_without(
    family: str, generation: KernelGeneration, *, siblings: bool = False
) -> tuple[str, Mapping[str, ElementwiseConstants]]:
    """The lender and constants by class of bandwidth-bound kernels."""
    without = apart(family, siblings=siblings)
    relatives = (name for name in device_of(family).relatives if name not in without)
    lender = next((name for name in relatives if generation in _stated(name, "elementwise")["kernels"]), UNMEASURED)
    stated = manifest("elementwise")
    mean = stated["scalar_mean"]
    if lender != UNMEASURED or generation != "scalar" or without.isdisjoint(mean):
        return lender, load_elementwise(lender, generation)
    lent = {name: dict(entry("calibrations", f"{name}/elementwise")) for name in mean if name not in without}
    scalar = scalar_between(lent)
    unit_bytes = float(bytes_per_cycle(device_of(stated["common"])))
    return UNMEASURED, {kind: ElementwiseConstants(**x, unit_bytes=unit_bytes) for kind, x in scalar.items()}


def grouped_without(family: str, layout: str) -> tuple[str, GroupedConstants]:
    """The lender and constants of experts' matmuls, which were measured on one architecture alone."""
    lender = next(name for name in manifest("grouped")["families"] if name != family)
    return lender, load_grouped(lender, FITTED, layout)[0]


def collectives_without(family: str, *, siblings: bool = False) -> tuple[str, Mapping[str, KindConstants]]:
    """The lender and constants of NCCL inside a node: means over links of the same kind, of other generations.

    Siblings have links of the same generation; the nearest in bandwidth lends.
    """
    if siblings:
        lender = min(_lenders_of_links(family), key=lambda relative: _generations_apart(relative, family))
        return lender, load_collectives(lender).kinds
    on_pcie, without = _on_pcie(family), _same_links(family)
    pcie = [n for n in _families("collectives") if n != PCIE and _on_pcie(n) and n not in without]
    switched = [n for n in manifest("collectives")["generations"] if n not in without]
    clock = clock_hz(device_of(family))
    measured = {system.family: system for system in systems()}
    lent = {n: over_half_of_the_link(load_collectives(n).kinds, measured[n]) for n in (*switched, *pcie)}
    sets = {name: kinds_at(kinds, name, clock) for name, kinds in lent.items()}
    others = pcie if on_pcie else switched
    launches = () if on_pcie else list(sets.values())
    return " and ".join(others), mean_kinds([sets[name] for name in others], launches)


def _same_links(family: str) -> frozenset[str]:
    """The families whose devices have links of the same generation, such as all of NVLink 5."""
    families = manifest("collectives")["families"]
    own = families[family]["interconnect"].partition("-")[0]
    return frozenset(name for name, x in families.items() if x["interconnect"].partition("-")[0] == own)


def has_same_links(family: str) -> bool:
    """Whether other devices with links of the same generation lend their constants."""
    return bool(_lenders_of_links(family))


def _lenders_of_links(family: str) -> list[str]:
    alone = frozenset({family})
    return [name for name in sorted(_same_links(family) - alone) if _is_clean(name, "collectives", alone)]


def server_shares(
    table: CollectiveTable, node: Cluster, kinds: Mapping[str, KindConstants]
) -> tuple[dict[int, float], NDArray[np.bool_]]:
    """Return what a server's PCIe links leave each rank, as a cluster may state it, and the rows that tell it.

    One message for each number of ranks tells it, the longest: where switches, root complexes and sockets lie between
    the devices is the server's and in no datasheet of the device. ``kinds`` are the constants that it is to go with.
    """
    alone = {table.kind: replace(kinds[table.kind], shares={})}
    rows = [np.flatnonzero(table.ranks == ranks) for ranks in np.unique(table.ranks)]
    used = np.isin(np.arange(len(table)), [own[np.argmax(table.bytes[own])] for own in rows])
    longest = table.where(used)
    shares = predicted(longest, node, alone) / longest.seconds
    return {int(ranks): float(share) for ranks, share in zip(longest.ranks, shares, strict=True)}, used


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


def _is_clean(relative: str, part: str, without: frozenset[str]) -> bool:
    """Whether a relative has constants of ``part`` that did not start from those of the families left out."""
    return _stated(relative, part).get("evidence") == "fitted" and without.isdisjoint(_origins(relative, part))


def _origins(family: str, part: str) -> set[str]:
    """The families whose constants were the priors of a family's own."""
    if part == "matmul":
        tables = manifest(part)["families"].get(family, {}).get("tables", ())
        return {table["relative"] for table in tables if "relative" in table}
    if part == "collectives":  # a long table of one's own leaves nothing of the relative's
        stated = manifest(part)["families"].get(family, {"aiconfigurator": ""})
        return set() if "aiconfigurator" in stated else {stated.get("relative", "")}
    if not part.endswith("_attention"):
        return set()
    measured = measured_families(part)
    return {str(measured[family].relative)} if family in measured else set(names("calibrations"))


def _is_measured(family: str, kernel: str) -> bool:
    stated = _stated(family, "matmul")["kernels"].get(kernel, {})
    return "constants" in stated and "of" not in stated
