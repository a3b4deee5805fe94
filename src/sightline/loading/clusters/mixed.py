"""``cluster.devices`` as a list: groups of equal devices, each with the nodes of its own, joined by a network."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.content import content
from sightline.errors import InputError, nearest
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.quantities import show
from sightline.scenario import Cluster, Network

FEWEST_GROUPS, MOST_GROUPS = 2, 32
"""Groups of unlike devices that one cluster may have."""
_OF_EACH = ("per_node", "intra_node", "network", "host", "power_cap")
"""Keys of ``cluster`` that hold for every group that does not state its own."""
_ITEM = "'<count>x <device>', or a mapping with devices and what else the group has of its own"


def mixed_cluster(mapping: Mapping[str, Any], read_equal: Callable[[Mapping[str, Any]], Cluster]) -> Cluster:
    """Return the cluster that a mapping with a list of ``devices`` stands for; ``read_equal`` reads a group.

    Neighbouring groups with the same devices, nodes and links are one. Raise `InputError` with every mistake.
    """
    items = mapping["devices"]
    groups: list[Cluster] = []
    problems = list(_problems_of_whole(mapping, items))
    common = {key: mapping[key] for key in _OF_EACH if key in mapping}
    for place, item in enumerate(items if not problems else ()):
        try:
            groups.append(read_equal({**common, **_stated(item)}))
        except InputError as error:
            problems += [f"cluster.devices[{place}]: {problem}" for problem in error.problems]
    if problems:
        raise InputError(problems)
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
        yield f"cluster.devices has {len(items)} entries; allowed: from 1 to {MOST_GROUPS} kinds of devices"
    for place, item in enumerate(items):
        if not isinstance(item, str | Mapping) or isinstance(_stated(item).get("devices"), list):
            yield f"cluster.devices[{place}] is {show(item)}; allowed: {_ITEM}"
        elif str(_stated(item).get("devices", "")).endswith(THIS_MACHINE):
            yield f"cluster.devices[{place}] is {show(item)}; {THIS_MACHINE} stands alone, not among other devices"
    allowed = ("devices", "name", *_OF_EACH)
    for key in (key for key in mapping if key not in allowed):
        yield (
            f"cluster.{key} stands next to a list of devices; allowed there: {', '.join(allowed[1:])}; an entry of the "
            f"list states what a group has of its own{nearest(key, allowed)}"
        )
