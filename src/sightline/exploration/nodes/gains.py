"""What a logic node gains, with each memory and network: before 3 nm, and after it."""

from collections.abc import Mapping, Sequence
from math import isnan, log
from typing import Any

from sightline.exploration.nodes.binding import Columns, Key, binding, row_at
from sightline.technology.parts import node as node_of

NODES = ("12nm", "10nm", "7nm", "5nm", "3nm", "2nm", "1.4nm", "1nm")
"""Nodes of `vendor` scaling, each a step after the one before it: after 2 nm come A14 and A10."""
IDEAL_STEP = 1 / 0.67
"""Density of logic over that a step before, under `ideal` scaling: 2 nm to 1 nm is one step, and 1.4 nm half of it."""
TURN = "3nm"
"""The node before and after which gains are compared."""
SATURATED = 0.5
"""A gain per node after `TURN` that is less than this share of that before it counts as saturated."""
UNFELT = 0.01
"""A gain per node below this counts as none."""


def steps_between(scaling: str, before: str, after: str) -> float:
    """Return how many nodes lie between two, in the steps of their own scaling model."""
    if scaling == "vendor":
        return float(NODES.index(after) - NODES.index(before))
    older, newer = (float(node_of(name, scaling).logic_density) for name in (before, after))
    return log(newer / older) / log(IDEAL_STEP)


def speedups(columns: Columns) -> list[float]:
    """Return the speed of every row over that with the first node, memory and network of its task, view and scaling."""
    first: dict[tuple[str, str, str], float] = {}
    rows = list(zip(*(columns[name] for name in ("task", "view", "scaling", "time_s")), strict=True))
    for *about, time_s in rows:
        first.setdefault((about[0], about[1], about[2]), time_s)
    return [first[task, view, scaling] / time_s for task, view, scaling, time_s in rows]


def gains(columns: Columns) -> dict[Key, tuple[float, float]]:
    """Return how much faster each node is than the one before it, to 3 nm and after it, by `Key`.

    0.5 means 1.5 times as fast per node, the geometric mean over the nodes, in the steps of the scaling model.
    """
    times = _times(columns)
    found = {}
    for key, by_node in times.items():
        nodes = sorted(by_node, key=NODES.index)
        first, last, scaling = nodes[0], nodes[-1], key[2]
        found[key] = (_gain(by_node, scaling, first, TURN), _gain(by_node, scaling, TURN, last))
    return found


def _times(columns: Columns) -> dict[Key, dict[str, float]]:
    """Seconds by key and node."""
    found: dict[Key, dict[str, float]] = {}
    names = ("task", "view", "scaling", "network", "memory", "node", "time_s")
    for *key, node, time_s in zip(*(columns[name] for name in names), strict=True):
        task, view, scaling, network, memory = key
        found.setdefault((task, view, scaling, network, memory), {})[node] = time_s
    return found


def _gain(times: Mapping[str, float], scaling: str, before: str, after: str) -> float:
    return float((times[before] / times[after]) ** (1 / steps_between(scaling, before, after)) - 1.0)


def summary(columns: Columns, nodes: Sequence[str]) -> dict[str, Any]:
    """Return the gains by view, scaling, task, network and memory, their ratios, and what binds from node to node."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    ratio: dict[str, Any] = {}
    for (task, view, scaling, network, memory), (early, late) in gains(columns).items():
        for table, value in ((before, early), (after, late), (ratio, _ratio(early, late))):
            table.setdefault(view, {}).setdefault(scaling, {}).setdefault(task, {}).setdefault(network, {})[memory] = (
                value
            )
    return {
        "gain_per_node_before_3nm": before,
        "gain_per_node_after_3nm": after,
        "after_over_before": ratio,
        "peak_gain_per_node": _peak_gains(columns),
        **binding(columns),
        "nodes": list(nodes),
    }


def _peak_gains(columns: Columns) -> dict[str, dict[str, list[float]]]:
    """By view and scaling, the gain per node of the peak of what trains best with the oldest memory and links.

    To `TURN` and after it: what logic alone would gain.
    """
    networks, memories, nodes = (list(dict.fromkeys(columns[name])) for name in ("network", "memory", "node"))
    found: dict[str, dict[str, list[float]]] = {}
    for view in dict.fromkeys(columns["view"]):
        for scaling in dict.fromkeys(columns["scaling"]):
            key = ("training", view, scaling, networks[0], memories[0])
            inverse = {node: 1.0 / row_at(columns, key, node)["peak_flops"] for node in nodes}
            gained = [_gain(inverse, scaling, nodes[0], TURN), _gain(inverse, scaling, TURN, nodes[-1])]
            found.setdefault(view, {})[scaling] = gained
    return found


def _ratio(early: float, late: float) -> float | None:
    """Gain after over gain before; None where there was none before."""
    return None if isnan(early) or isnan(late) or early < UNFELT else late / early
