"""Read ``cluster``: "<count>x <device>", a cluster of the catalog, a mapping, or groups of different devices."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sightline import catalog
from sightline.content import content, remembered
from sightline.errors import nearest, noted, refuse
from sightline.loading.checks import Complaints, check
from sightline.loading.clusters.hardware import (
    DEVICE,
    HOST,
    INTERCONNECT,
    NETWORK,
    SOURCED,
    SYNTHESIZED,
    Values,
    read_part,
)
from sightline.loading.clusters.this_machine import THIS_MACHINE, this_machine
from sightline.quantities import BYTES, BYTES_PER_SECOND, format_quantity, show
from sightline.scenario import Cluster, Device, Network
from sightline.validators import Keys, keys_of

FEWEST_GROUPS, MOST_GROUPS = 2, 32
"""Groups of unlike devices that one cluster may have."""
_OF_EACH = ("per_node", "intra_node", "network", "host", "power_cap")
"""Keys of ``cluster`` that hold for every group that does not state its own."""
_ITEM = "'<count>x <device>', or a mapping with devices and the keys of its group"


def mixed_cluster(mapping: Mapping[str, Any], read_equal: Callable[[Mapping[str, Any]], Cluster]) -> Cluster:
    """Return the cluster that a mapping with a list of ``devices`` stands for; ``read_equal`` reads a group.

    Neighbouring groups with the same devices, nodes and links are one. Raise `InputError` with every mistake.
    """
    items = mapping["devices"]
    groups: list[Cluster] = []
    problems = list(_problems_of_whole(mapping, items))
    common = {key: mapping[key] for key in _OF_EACH if key in mapping}
    for place, item in enumerate(items if not problems else ()):
        with noted(problems, f"cluster.devices[{place}]: "):
            groups.append(read_equal({**common, **_stated(item)}))
    refuse(problems)
    name, between = mapping.get("name"), None
    if "network" in mapping:
        between = read_equal({**common, **_stated(items[0]), "network": mapping["network"]}).network
    return joined(groups, name if isinstance(name, str) else "", between)


def joined(groups: Sequence[Cluster], name: str = "", between: Network | None = None) -> Cluster:
    """Return the cluster of several groups in order; of one group it is that one.

    The network ``between`` groups is the slowest of theirs where none is given.
    """
    kinds = _merged(groups)
    first = kinds[0]
    name = name or " + ".join(kind.name for kind in kinds)
    if len(kinds) == 1:
        return replace(first, name=name)
    network = between or slowest_network([kind.network for kind in kinds])
    whole = sum(kind.devices for kind in kinds)
    return replace(first, name=name, devices=whole, network=network, power_cap_w=None, sources={}, groups=tuple(kinds))


def slowest_network(networks: Sequence[Network]) -> Network:
    """Return the network of least bandwidth per node."""
    return min(networks, key=lambda network: float(network.bandwidth_per_node))


def _merged(groups: Sequence[Cluster]) -> list[Cluster]:
    """The groups, neighbours of the same make as one."""
    kinds: list[Cluster] = []
    for group in groups:
        if kinds and _make(kinds[-1]) == _make(group):
            count = kinds[-1].devices + group.devices
            kinds[-1] = replace(group, devices=count, name=f"{count}x {group.device.name}")
        else:
            kinds.append(group)
    return kinds


def _make(group: Cluster) -> object:
    """What equal groups have in common."""
    return content(replace(group, name="", counted="", devices=0, sources={}), largest_array=0)


def _stated(item: object) -> dict[str, Any]:
    return dict(item) if isinstance(item, Mapping) else {"devices": item}


def _problems_of_whole(mapping: Mapping[str, Any], items: Sequence[object]) -> Iterator[str]:
    """What is wrong with the list itself, or with keys next to it."""
    if not FEWEST_GROUPS <= len(items) <= MOST_GROUPS:
        yield f"cluster.devices has {len(items)} entries; allowed: 1 to {MOST_GROUPS} groups of devices"
    for place, item in enumerate(items):
        if not isinstance(item, str | Mapping) or isinstance(_stated(item).get("devices"), list):
            yield f"cluster.devices[{place}] is {show(item)}; allowed: {_ITEM}"
        elif str(_stated(item).get("devices", "")).endswith(THIS_MACHINE):
            yield f"cluster.devices[{place}] is {show(item)}; {THIS_MACHINE} cannot be combined with other devices"
    allowed = ("devices", "name", *_OF_EACH)
    for key in (key for key in mapping if key not in allowed):
        yield (
            f"cluster.{key} cannot be set beside a list of devices; allowed: {', '.join(allowed[1:])}; set it in "
            f"an entry of the list{nearest(key, allowed)}"
        )


CLUSTER: Keys = {**SOURCED, **keys_of(Cluster)}
"""``cluster``, or a cluster of the catalog."""

MOST_DEVICES = 10**7
"""Devices of the largest cluster that is read."""
MOST_RANKS = 1024
"""Processes that share this machine at most."""

_COUNTED = re.compile(r"\s*(\d{1,12})(?:\s*[xX×*]\s*|\s+|(?=[a-zA-Z]))(\S.*?)\s*", re.ASCII)
_TURNED = re.compile(r"\s*(\S.*?)\s*[xX×*:]\s*(\d{1,12})\s*", re.ASCII)
"""The device before its count."""
_BELOW_ONE = re.compile(r"\s*-\s*\d+\s*[xX×*]\s*\S.*", re.ASCII)
_NODES = re.compile(r"\s*(\d{1,6})\s*(?:nodes?\s*)?[xX×*]\s*(\d{1,6})\s*(?:[xX×*]\s*)?\b([a-zA-Z]\S*)\s*", re.ASCII)
"""Nodes and the devices of each, which a cluster of equal devices states as one count."""
_SLICE = re.compile(
    r"\s*(?:google[ -])?(?:tpu[ -]?)?(v4|v5p|v5e|v5litepod|v6e|v?7x)-(\d{1,6})\s*", re.ASCII | re.IGNORECASE
)
_SLICES: Mapping[str, tuple[str, int]] = {
    "v4": ("tpu-v4", 2),
    "v5p": ("tpu-v5p", 2),
    "v5e": ("tpu-v5e", 1),
    "v5litepod": ("tpu-v5e", 1),
    "v6e": ("tpu-v6e", 1),
    "7x": ("tpu-v7x", 2),
    "v7x": ("tpu-v7x", 2),
}
"""The device of a slice of TPUs by its type, and how many TensorCores of a chip the number in its name counts
(docs.cloud.google.com/tpu/docs; MaxText's accelerator_to_spec_map.py for tpu7x)."""
_FORMS = "'<count>x <device>' such as '8x a100-sxm-80gb', a catalog cluster, or a mapping"


def read_cluster(value: str | Mapping[str, Any]) -> Cluster:
    """Return the cluster that ``value`` stands for; raise `InputError` with every mistake."""
    if isinstance(value, str):
        return _named(value)
    kinds = value.get("devices")
    return mixed_cluster(value, read_equal) if isinstance(kinds, list) and len(kinds) != 1 else read_equal(value)


def read_device(name: str) -> Device:
    """Return a device of the catalog."""
    return read_cluster(f"1x {name}").device


@cache
def _named(value: str) -> Cluster:
    return read_equal({"same_as": value})


@remembered(entries=256, as_written=True)
def read_equal(mapping: Mapping[str, Any]) -> Cluster:
    """Return the cluster of equal devices that a mapping states."""
    complaints = Complaints()
    checked = check(CLUSTER, _with_this_machine(mapping), "cluster", complaints)
    stated = checked.values
    base = _base(stated["same_as"], complaints) if "same_as" in stated else {}
    if "same_as" not in stated and "devices" not in stated:
        complaints.add("cluster.devices is missing; needed: the count and the device, such as '8x a100-sxm-80gb'")
    count, device_name = _devices(stated.get("devices"), base.get("devices"), complaints)
    knows_device = device_name is not None or "device" in stated
    if count and not knows_device:
        complaints.add("cluster.device is missing; needed: a catalog name (`sightline catalog devices`) or a mapping")
    device = _device(stated.get("device"), device_name, complaints) if knows_device else None
    server = dict((device or {}).get("server") or {})
    below = server | base
    parts: dict[str, Values] = {"device": device} if device else {}
    for part in (INTERCONNECT, NETWORK, HOST):
        # Without a device its usual server is unknown: nothing can be called missing yet.
        if device is not None or part.key in stated:
            values = read_part(part, stated.get(part.key), below.get(part.key), complaints)
            parts |= {part.key: values} if values is not None else {}
    per_node = stated.get("per_node", below.get("per_node"))
    if per_node is None and device is not None and "per_node" not in checked.wrong:
        complaints.add("cluster.per_node is missing; needed: devices per node")
    if device is not None and stated.get("power_cap", 1e9) <= device["idle_power"]:
        cap, idle = stated["power_cap"], device["idle_power"]
        complaints.add(f"cluster.power_cap is {cap:g} W; allowed: above the {idle:g} W the device draws when idle")
    complaints.raise_any()
    made = _cluster(count, min(per_node or count, count), parts, stated, base)
    return replace(made, counted=device_name or "", full_node=per_node or 0)


def _device(stated: object, below: str | None, complaints: Complaints) -> Values | None:
    """The figures of the device, which may be made of technology."""
    if not isinstance(stated, Mapping) or stated.get("technology") is None:
        return read_part(DEVICE, stated, below, complaints)
    # Most scenarios name devices, and need not import the technology.
    from sightline.loading.clusters.technology import read_made

    return read_made(stated, below, complaints)


def _with_this_machine(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping, with this machine's figures underneath where it is named."""
    key = "devices" if mapping.get("devices") is not None else "same_as"
    name = mapping.get(key)
    counted = _COUNTED.fullmatch(name) if isinstance(name, str) else None
    if (counted[2] if counted else name) != THIS_MACHINE:
        return mapping
    count = int(counted[1]) if counted else 1
    if not 1 <= count <= MOST_RANKS:
        return mapping
    found = this_machine(count)
    stated = {k: v for k, v in mapping.items() if k != key}
    parts = {k: v for k, v in stated.items() if isinstance(v, Mapping) and isinstance(found.get(k), Mapping)}
    changed = {k: {**found[k], **v} for k, v in parts.items() if "same_as" not in v}
    return found | stated | changed


def _cluster(count: int, per_node: int, parts: Mapping[str, Values], stated: Values, base: Values) -> Cluster:
    return Cluster(
        name=stated.get("name") or base.get("name") or f"{count}x {parts['device']['name']}",
        devices=count,
        per_node=per_node,
        device=DEVICE.build(parts["device"]),
        intra_node=INTERCONNECT.build(parts["intra_node"]),
        network=NETWORK.build(parts["network"]),
        host=HOST.build(parts["host"]),
        power_cap_w=stated.get("power_cap", base.get("power_cap")),
        sources={key: values["source"] for key, values in parts.items() if "source" in values},
    )


def _in_chips(written: str) -> str:
    """A slice of TPUs, such as ``v5p-256``, as its chips: ``128x tpu-v5p``; anything else as it is written."""
    if not (found := _SLICE.fullmatch(written)):
        return written
    device, cores = _SLICES[found[1].lower()]
    chips, odd = divmod(int(found[2]), cores)
    return written if odd else f"{chips}x {device}"


def _said_of_slice(written: str) -> str:
    """The remark on a slice of TPUs that is read as its chips; empty for anything else."""
    chips, found = _in_chips(written), _SLICE.fullmatch(written)
    if chips == written or not found:
        return ""
    counts = "TensorCores, two per chip" if _SLICES[found[1].lower()][1] > 1 else "chips"
    return f"{written} is read as {chips}: the number of a slice counts {counts}"


def read_as(value: str | Mapping[str, Any]) -> tuple[str, ...]:
    """Return the remark on a device whose name, as a cluster states it, stands for one of several."""
    stated = value if isinstance(value, str) else value.get("devices") or value.get("same_as")
    if isinstance(stated, list):
        return tuple(dict.fromkeys(remark for kind in stated for remark in read_as(kind)))
    if isinstance(stated, str) and (said := _said_of_slice(stated)):
        return (said,)
    device = None if isinstance(value, str) else value.get("device")
    counted = _COUNTED.fullmatch(stated) if isinstance(stated, str) else None
    written = device if isinstance(device, str) else counted[2] if counted else ""
    return tuple(filter(None, [catalog.said_of("devices", written)])) if written else ()


def made_of_technology(cluster: Cluster) -> Iterator[str]:
    """Yield a remark on each device that is made of technology: what came out."""
    for part in cluster.parts:
        source = part.sources.get(DEVICE.key, "")
        if source.startswith(SYNTHESIZED):
            yield f"cluster.device is {source}"


_USUAL_UNITS = {
    "device.memory": ("memory_bytes", BYTES, "GB"),
    "device.memory_bandwidth": ("memory_bandwidth", BYTES_PER_SECOND, "TB/s"),
    "device.l2_bandwidth": ("l2_bandwidth", BYTES_PER_SECOND, "TB/s"),
    "intra_node.bandwidth": ("bandwidth", BYTES_PER_SECOND, "GB/s"),
    "network.bandwidth_per_node": ("bandwidth_per_node", BYTES_PER_SECOND, "GB/s"),
    "host.memory": ("memory_bytes", BYTES, "GB"),
    "host.memory_bandwidth": ("memory_bandwidth", BYTES_PER_SECOND, "GB/s"),
    "host.device_bandwidth": ("device_bandwidth", BYTES_PER_SECOND, "GB/s"),
}
"""Field, dimension and usual unit of a cluster's large figures, by their keys."""
_SMALLEST = 1e6
"""Bytes, or bytes per second, below which such a figure has lost its unit."""


def forgotten_units(cluster: Cluster) -> Iterator[str]:
    """Yield a remark on each figure that is so small that its unit was probably left out."""
    for key, (field, dimension, unit) in _USUAL_UNITS.items():
        for part in cluster.parts:
            value = float(getattr(getattr(part, key.partition(".")[0]), field))
            if value < _SMALLEST:
                yield f"cluster.{key} is {format_quantity(value, dimension)}; did you mean '{value:g} {unit}'?"


def _base(name: str, complaints: Complaints) -> Values:
    """What a cluster's name stands for, by the keys of ``cluster``."""
    known, name = catalog.names("clusters"), _in_chips(name)
    if (name not in known and _COUNTED.fullmatch(name) and not _in_nodes(name)) or name == THIS_MACHINE:
        return {"devices": name}
    name = catalog.name_of("clusters", name)
    if name in known:
        values = check(CLUSTER, catalog.entry("clusters", name), f"catalog.clusters.{name}", complaints).values
        return {**values, "name": name}
    devices = catalog.names("devices")
    device = catalog.name_of("devices", name)
    near = f" - did you mean '1x {device}'?" if device in devices else nearest(name, (*known, *devices))
    if _BELOW_ONE.fullmatch(name):
        complaints.add(f"cluster is {show(name)}; allowed: a count of 1 or more")
        return {}
    near = _in_nodes(name) or near
    complaints.add(f"cluster is {show(name)}; allowed: {_FORMS}{near}")
    return {}


def _in_nodes(name: str) -> str:
    """The hint on a cluster that is written as nodes of so many devices, or with the count behind the device."""
    found, turned = _NODES.fullmatch(name), _TURNED.fullmatch(name)
    if found:
        count, device = str(int(found[1]) * int(found[2])), found[3]
    elif turned:
        count, device = turned[2], turned[1]
    else:
        return ""
    is_known = catalog.name_of("devices", device) in catalog.names("devices")
    return f" - did you mean '{count}x {device}'?" if is_known else ""


def _devices(stated: object, below: object, complaints: Complaints) -> tuple[int, str | None]:
    """The number of devices, and the name of their kind where it is given."""
    value = below if stated is None else stated
    if value is None:
        return 0, None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, str):
        value = _in_chips(value)
    if value == THIS_MACHINE or (isinstance(value, str) and value.endswith(f" {THIS_MACHINE}")):
        complaints.add(f"cluster.devices is {show(value)}; allowed: 1 to {MOST_RANKS} processes on this machine")
        return 0, None
    if isinstance(value, str) and (counted := _COUNTED.fullmatch(value)):
        count, name = int(counted[1]), counted[2]
        node = catalog.name_of("clusters", name)
        if node in catalog.names("clusters") and (
            each := _COUNTED.fullmatch(str(catalog.entry("clusters", node).get("devices")))
        ):
            count, name = count * int(each[1]), each[2]
    elif isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0:
        count, name = int(value), _devices(below, None, complaints)[1] if below is not None else None
    else:
        device = catalog.name_of("devices", value) if isinstance(value, str) else ""
        hint = f" - did you mean '1x {device}'?" if device in catalog.names("devices") else ""
        complaints.add(
            f"cluster.devices is {show(value)}; allowed: '<count>x <device>' such as '8x a100-sxm-80gb'{hint}"
        )
        return 0, None
    if not 1 <= count <= MOST_DEVICES:
        complaints.add(f"cluster.devices is {show(value)}; allowed: 1 to {MOST_DEVICES} devices")
    return count, name


_MEMORY_TOLERANCE = 0.1
"""A driver keeps a little of the memory that a datasheet states."""
_UNSAID = "sxm"
"""The form factor that a driver's name leaves out, or says with a number: SXM4."""


def catalog_name(gpu: Mapping[str, Any]) -> str | None:
    """Return the catalog's name of a GPU as `gpus` describes it (name and memory), or None when it is not there.

    All words of the catalog's name but ``sxm`` and the memory must be in the driver's, and the memory must agree; of
    such names the one with the most words wins, so that an RTX 3090 Ti is not taken for an RTX 3090.
    """
    words = _words(str(gpu.get("name", "")))
    memory = float(gpu.get("memory_bytes", 0.0))
    best, most = None, 0
    for name in catalog.names("devices"):
        own = [w for w in _words(name) if not _is_memory(w) and w != _UNSAID]
        if not all(w in words for w in own):
            continue
        stated = float(read_device(name).memory_bytes)
        if abs(memory / stated - 1) > _MEMORY_TOLERANCE:
            continue
        if len(own) > most:
            best, most = name, len(own)
    return best


def _words(name: str) -> list[str]:
    return name.lower().replace("-", " ").split()


def _is_memory(word: str) -> bool:
    return word.endswith("gb") and word[:-2].isdigit()
