"""What a logic node gains, with each memory and network: before 3 nm, and after it."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, log
from typing import Any

from sightline.exploration.nodes.binding import Columns, Key, binding, row_at, said_of_binding
from sightline.exploration.nodes.times import ONE_PLAN
from sightline.exploration.words import percent
from sightline.technology.nodes import node as node_of

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


def reading(columns: Columns, told: Mapping[str, Any]) -> list[str]:
    """What the table shows, with its numbers; nothing where a point has none, because no plan fits."""
    if any(map(isnan, columns["time_s"])):
        return []
    networks, memories = (list(dict.fromkeys(columns[name])) for name in ("network", "memory"))
    return [
        *_saturation(told, networks, memories),
        *said_of_binding(columns, told, networks, memories),
        *_decoding(told, networks, memories),
        *_designs(columns, networks, memories),
    ]


def _saturation(told: Mapping[str, Any], networks: Sequence[str], memories: Sequence[str]) -> Iterator[str]:
    """Whether logic alone saturates in training, and whether memory and links restore its gain."""
    for view, by_scaling in told["gain_per_node_before_3nm"].items():
        for scaling in by_scaling:
            of = {name: told[name][view][scaling] for name in _COMPARED}
            alone = _with_logic_alone(of, networks[0], memories[0])
            both = _with_memory_and_links(of, networks, memories)
            yield f"Training, {view} view, {scaling} scaling: {alone} {both} {_with_one_plan(of, networks, memories)}"


_COMPARED = ("gain_per_node_before_3nm", "gain_per_node_after_3nm", "after_over_before", "peak_gain_per_node")
"""What a summary tells of each view and scaling: gains by task, network and memory, and the peak's."""


def _with_logic_alone(of: Mapping[str, Any], network: str, memory: str) -> str:
    early, late, ratio = (of[name]["training"][network][memory] for name in _COMPARED[:3])
    first, second = map(percent, of["peak_gain_per_node"])
    return (
        f"with {memory} and {network} a node gains {percent(early)} to {TURN} and {percent(late)} after it, "
        f"{_share(ratio)} of that (the peak gains {first} and {second}): logic alone {_saturating(ratio)}."
    )


def _with_memory_and_links(of: Mapping[str, Any], networks: Sequence[str], memories: Sequence[str]) -> str:
    early, late, ratio = (of[name]["training"] for name in _COMPARED[:3])
    network, memory = networks[-1], memories[-1]
    restored = ratio[network][memory]
    return (
        f"After {TURN} it gains {percent(late[networks[0]][memory])} with {memory} alone, "
        f"{percent(late[network][memories[0]])} with {network} alone, and {percent(late[network][memory])} with both: "
        f"together they bring back {_share(restored)} of the {percent(early[network][memory])} that a node gains to "
        f"{TURN} with both, {_half(restored)}."
    )


def _with_one_plan(of: Mapping[str, Any], networks: Sequence[str], memories: Sequence[str]) -> str:
    ratio = of["after_over_before"][ONE_PLAN]
    alone, together = (ratio[networks[at]][memories[at]] for at in (0, -1))
    return (
        f"With one plan at all nodes it is {_share(alone)}, {_saturating(alone)}, and {_share(together)}, "
        f"{_half(together)}."
    )


def _saturating(ratio: float | None) -> str:
    """Whether a gain after `TURN` is small against that before it, in words."""
    return "saturates" if (ratio or 0.0) < SATURATED else "does not saturate"


def _half(ratio: float | None) -> str:
    """Whether memory and links bring back half of a gain, in words."""
    return "at least half" if (ratio or 0.0) >= SATURATED else "not half"


def _share(ratio: float | None) -> str:
    """A share of a gain in words."""
    return "no share" if ratio is None else percent(ratio, 1)


def _decoding(told: Mapping[str, Any], networks: Sequence[str], memories: Sequence[str]) -> Iterator[str]:
    """What nodes do for decoding, which reads all weights for every token."""
    early, late = told["gain_per_node_before_3nm"], told["gain_per_node_after_3nm"]
    for view in early:
        before, after = (table[view]["vendor"]["decode"][networks[0]][memories[0]] for table in (early, late))
        only = ": only memory and links make it faster" if max(before, after) < UNFELT else ""
        yield (
            f"Decode, {view} view, vendor scaling: with {memories[0]} and {networks[0]} a node gains "
            f"{percent(before, 1)} to {TURN} and {percent(after, 1)} after it{only}."
        )


def _designs(columns: Columns, networks: Sequence[str], memories: Sequence[str]) -> Iterator[str]:
    """How the best device changes from the oldest to the newest node, in training."""
    for view in dict.fromkeys(columns["view"]):
        told = []
        for memory in (memories[0], memories[-1]):
            key = ("training", view, "vendor", networks[0], memory)
            first, last = (row_at(columns, key, node) for node in (columns["node"][0], columns["node"][-1]))
            told.append(
                f"with {memory} L2 takes {percent(first['area_of_l2'])} of the area of logic at {first['node']} and "
                f"{percent(last['area_of_l2'])} at {last['node']}, with {first['stacks']} and {last['stacks']} stacks"
            )
        yield f"The best devices of training, {view} view, vendor scaling, {networks[0]}: {'; '.join(told)}."
