"""What binds from node to node, with each memory and network."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from sightline.exploration.nodes.times import SHARES

RESOURCES: Mapping[str, tuple[str, ...]] = {
    "compute": ("compute",),
    "memory": ("dram", "l2"),
    "network": ("network",),
    "host": ("host",),
}
"""What can bind, and the levels that it has."""
PUBLISHED_ORDER = ("compute", "memory", "network")
"""What binds training from node to node in the published studies."""
Key = tuple[str, str, str, str, str]
"""Task, view, scaling, network and memory."""
Columns = Mapping[str, Sequence[Any]]
_POINT = ("task", "view", "scaling", "network", "memory", "node")


def binding(columns: Columns) -> dict[str, Any]:
    """Return what binds at each node, in which order, what would bind next, and where the network binds most."""
    return {
        "bound_level": _bound_levels(columns),
        "sequence": _sequences(columns),
        "runner_up": _runners_up(columns),
        "largest_network_share": _largest_network_shares(columns),
    }


def _bound_levels(columns: Columns) -> dict[str, Any]:
    """By view, scaling, task, network and memory, the level that binds most of the time at each node, in order."""
    found: dict[str, Any] = {}
    names = ("view", "scaling", "task", "network", "memory", "bound_level")
    for view, scaling, task, network, memory, level in zip(*(columns[name] for name in names), strict=True):
        of_task = found.setdefault(view, {}).setdefault(scaling, {}).setdefault(task, {})
        of_task.setdefault(network, {}).setdefault(memory, []).append(level)
    return found


def _largest_network_shares(columns: Columns) -> dict[str, dict[str, Any]]:
    """By view and task, where the network binds the largest share of the time."""
    found: dict[str, dict[str, Any]] = {}
    names = ("view", "task", "scaling", "network", "memory", "node", "network_share", "bound_level")
    for view, task, *point, share, level in zip(*(columns[name] for name in names), strict=True):
        best = found.setdefault(view, {}).get(task)
        if isnan(share):
            continue
        if best is None or share > best["share"]:
            about = dict(zip(("scaling", "network", "memory", "node"), point, strict=True))
            found[view][task] = {"share": share, "bound_level": level, **about}
    return found


def _sequences(columns: Columns) -> dict[str, Any]:
    """By view, scaling, task and network, what binds most of the time (`RESOURCES`), in the order in which it does.

    At each node with the oldest memory, then at the newest node once the memory alone is the newest. What binds most
    nowhere on this way is not in it.
    """
    memories, nodes = (list(dict.fromkeys(columns[name])) for name in ("memory", "node"))
    way = [(memories[0], node) for node in nodes] + [(memories[-1], nodes[-1])]
    shares = _shares_by_point(columns)
    found: dict[str, Any] = {}
    for task, view, scaling, network in dict.fromkeys(point[:4] for point in shares):
        bound = [_most(shares[task, view, scaling, network, memory, node]) for memory, node in way]
        of_task = found.setdefault(view, {}).setdefault(scaling, {}).setdefault(task, {})
        of_task[network] = list(dict.fromkeys(resource for resource in bound if resource))
    return found


def _shares_by_point(columns: Columns) -> dict[tuple[str, ...], dict[str, float]]:
    """Shares of the levels by task, view, scaling, network, memory and node."""
    points = zip(*(columns[name] for name in _POINT), strict=True)
    values = zip(*(columns[name] for name in SHARES), strict=True)
    levels = [name.removesuffix("_share") for name in SHARES]
    return {point: dict(zip(levels, of, strict=True)) for point, of in zip(points, values, strict=True)}


def _most(shares: Mapping[str, float]) -> str:
    """What binds most of a time; nothing where there is none."""
    if any(map(isnan, shares.values())):
        return ""
    summed = {resource: sum(shares[level] for level in levels) for resource, levels in RESOURCES.items()}
    return max(summed, key=lambda resource: summed[resource])


def _runners_up(columns: Columns) -> dict[str, dict[str, Any]]:
    """By view and task, what binds second most at the newest node with the newest memory and the oldest links.

    With its share of the time, and with what binds most, under `vendor` scaling: what would bind next.
    """
    networks, memories, nodes = (list(dict.fromkeys(columns[name])) for name in ("network", "memory", "node"))
    about = {"node": nodes[-1], "memory": memories[-1], "network": networks[0]}
    found: dict[str, dict[str, Any]] = {}
    for view in dict.fromkeys(columns["view"]):
        for task in dict.fromkeys(columns["task"]):
            shares = shares_at(columns, (task, view, "vendor", networks[0], memories[-1]), nodes[-1])
            if not any(map(isnan, shares.values())):
                first, second = sorted(shares, key=lambda level: -shares[level])[:2]
                found.setdefault(view, {})[task] = {
                    "level": second,
                    "share": shares[second],
                    "bound_level": first,
                    **about,
                }
    return found


def shares_at(columns: Columns, key: Key, node: str) -> dict[str, float]:
    """Return the shares of the levels at a point."""
    row = row_at(columns, key, node)
    return {name.removesuffix("_share"): float(row[name]) for name in SHARES}


def row_at(columns: Columns, key: Key, node: str) -> dict[str, Any]:
    """Return the row of a point."""
    place = list(zip(*(columns[name] for name in _POINT), strict=True)).index((*key, node))
    return {name: values[place] for name, values in columns.items()}
