"""Whose collectives a cluster has: of its devices' family or a relative measured on links of its kind, by library.

Collectives depend on links more than on devices, so a family counts only where its links were of the same kind:
an A100 on PCIe takes no constants from NVLink. NCCL is the library; engines' own all-reduce kernels come on top.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from sightline.catalog import entry, names
from sightline.content import remembered
from sightline.cost.clock import FASTEST_CLOCK_HZ, REFERENCE_HZ, clock_hz
from sightline.cost.collectives.bridges import sharing_half
from sightline.cost.collectives.constants import CollectiveConstants, CustomAllReduce, KindConstants
from sightline.cost.families import UNMEASURED, Evidence
from sightline.errors import InputError, nearest
from sightline.quantities import Number
from sightline.scenario import Cluster, Device, Interconnect

PCIE = "pcie"
"""Name of the topology of devices whose links meet in the host, and of the calibration of those nobody measured."""
NCCL = "nccl"
CUSTOM = "custom"
"""The kernels of the usual engine."""


@cache
def load_collectives(calibration: str, version: str = "") -> CollectiveConstants:
    """Return the constants of a device family, for the newest library version known unless one is named."""
    part = f"{calibration}/collectives"
    mapping = entry("calibrations", part)
    known = list(mapping["versions"])
    if version and version not in known:
        raise InputError(
            f"unknown version '{version}' of the collective library in {part}{nearest(version, known)};"
            f" known: {', '.join(known)}"
        )
    return CollectiveConstants.from_mapping(mapping, name=part, version=version)


@cache
def load_custom(calibration: str, all_reduce: str = CUSTOM) -> CustomAllReduce:
    """Return an engine's all-reduce kernels on a device family.

    ``all_reduce`` is ``custom`` for the usual engine, an engine's name for its newest release measured, or engine
    and release: of releases that were not measured, the newest that is not newer, else the oldest.
    """
    part = f"{calibration}/collectives"
    engines = entry("calibrations", part)["custom"]
    engine, _, release = all_reduce.partition(" ")
    if engine == CUSTOM:
        engine = next(iter(engines))
    if engine not in engines:
        known = (NCCL, CUSTOM, *engines)
        raise InputError(
            f"unknown all-reduce '{engine}' in {part}{nearest(engine, known)}; allowed: {', '.join(known)}"
        )
    releases = sorted(engines[engine], key=release_key)
    older = [r for r in releases if not release or release_key(r) <= release_key(release)]
    chosen = older[-1] if older else releases[0]
    return CustomAllReduce.from_mapping(engines[engine][chosen], name=f"{engine} {chosen}")


def release_key(release: str) -> tuple[int, ...]:
    """Return the numbers of a release for comparison: 1.3.0rc10 comes after 1.2.0 and before 1.3.0rc20."""
    return tuple(int(part) for part in release.replace("rc", ".").replace(".post", ".").split(".") if part.isdigit())


def cluster_collectives(
    cluster: Cluster,
    version: str = "",
    all_reduce: str = NCCL,
    *,
    whole_domain: bool = False,
    block_bandwidth: float | None = None,
    launches: bool = True,
) -> CollectiveConstants:
    """Return the constants for a cluster's links, of the newest version of NCCL unless one is named.

    With ``all_reduce`` as in ``load_custom``, sums inside a node take the faster of NCCL and that engine's kernels,
    up to the size at which the engine turns to NCCL. Families without kernels take their relative's. With
    ``whole_domain`` those kernels reach all devices that one switch joins, though fewer were measured. A
    ``block_bandwidth`` is what a block of theirs takes in where blocks share messages evenly, as over a switch.
    Without ``launches`` only what links do takes time.
    """
    link = cluster.intra_node
    constants = _constants(cluster.device, link, version, all_reduce, launches)
    if whole_domain and constants.custom is not None:
        constants = replace(constants, custom=constants.custom.among(cluster.per_node))
    if block_bandwidth is not None and constants.custom is not None and link.topology != PCIE:
        constants = replace(constants, custom=replace(constants.custom, block_bandwidth=block_bandwidth))
    if link.beyond is None:
        return constants
    return replace(constants, beyond=sharing_half(_constants(cluster.device, link.beyond, "", all_reduce, launches)))


def slowed(kinds: Mapping[str, KindConstants], slower: Number) -> dict[str, KindConstants]:
    """Return the constants on a clock so many times slower: a kernel's launch is so many cycles, a hop waits for links.

    Launches of NCCL's least protocol over NVLink take 8.1 us on A100 at 1.41 GHz and 4.5 us on H100 at 1.98 GHz; over
    PCIe 6.3 us on V100 at 1.37 GHz, 3.2 to 4.3 us on RTX PRO 6000 and L40S at 2.4 to 2.5 GHz.
    """
    return {
        name: replace(kind, protocols=tuple(replace(p, launch_s=p.launch_s * slower) for p in kind.protocols))
        for name, kind in kinds.items()
    }


def without_launches(constants: CollectiveConstants) -> CollectiveConstants:
    """Return constants of collectives that start in no time: only hops and bytes over links take some."""
    custom = constants.custom
    if custom is not None:
        algorithms = {name: replace(kernel, launch_s=0.0) for name, kernel in custom.algorithms.items()}
        custom = replace(custom, algorithms=algorithms)
    return replace(constants, kinds=slowed(constants.kinds, 0.0), custom=custom)


@remembered(entries=256)
def _constants(
    device: Device, link: Interconnect, version: str, all_reduce: str, launches: bool
) -> CollectiveConstants:
    if not launches:
        return without_launches(_constants(device, link, version, all_reduce, True))
    library = _library(next(_families(device, link)), version, device)
    if link.shares is not None:
        library = replace(library, kinds={k: replace(kind, shares=link.shares) for k, kind in library.kinds.items()})
    if all_reduce == NCCL:
        return library
    with_kernels = next(f for f in _families(device, link) if "custom" in entry("calibrations", f"{f}/collectives"))
    return replace(library, custom=load_custom(with_kernels, all_reduce))


def _library(family: str, version: str, device: Device) -> CollectiveConstants:
    """A family's constants; those of several devices together at the clock of ``device``, if plausible."""
    if family not in (PCIE, UNMEASURED):
        return load_collectives(family, version)
    slower = REFERENCE_HZ / np.minimum(clock_hz(device), FASTEST_CLOCK_HZ)
    return _slowed_library(family, version, slower) if slower.ndim else _slowed_once(family, version, float(slower))


def _slowed_library(family: str, version: str, slower: Number) -> CollectiveConstants:
    library = load_collectives(family, version)
    return replace(library, kinds=slowed(library.kinds, slower))


_slowed_once = cache(_slowed_library)


def collective_evidence(cluster: Cluster, kind: str) -> Evidence:
    """What the constants of a kind of collective rest on, inside a node.

    calibrated: measured on the device's own family; extrapolated: on a relative, on PCIe in general, or another
    kind; datasheet: on nobody's. A family's name begins the names of its devices.
    """
    family = next(_families(cluster.device, cluster.intra_node))
    if family == UNMEASURED:
        return "datasheet"
    own = cluster.device.name.startswith(family) and kind in load_collectives(family).measured
    return "calibrated" if own else "extrapolated"


def _families(device: Device, link: Interconnect) -> Iterator[str]:
    """The families whose constants fit links of the kind, nearest first; the last has everything."""
    on_pcie = link.topology == PCIE
    for family in (device.calibration, *device.relatives):
        if f"{family}/collectives" in names("calibrations") and family != UNMEASURED:
            measured_on = entry("calibrations", f"{family}/collectives")["topology"]
            if (measured_on == PCIE) == on_pcie:
                yield family
    yield PCIE if on_pcie else UNMEASURED
