"""What the study of logic nodes finds in sentences: gains per node, what binds, and the best devices."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan, log
from typing import Any

from sightline.exploration.node_times import ONE_PLAN, SHARES
from sightline.profile import LEVEL_NAMES
from sightline.quantities import percent
from sightline.technology.parts import node as node_of

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


def ends(columns: Columns, l2_shares: Sequence[float]) -> dict[str, dict[str, dict[str, int]]]:
    """Return by view and task how many best devices have the most stacks, and the least and largest share of L2.

    Args:
        columns: The rows of the study; those where nothing fits are left out.
        l2_shares: The shares of L2 that are tried, in rising order.
    """
    names = ("view", "task", "bound_level", "stacks", "most_stacks", "area_of_l2")
    found: dict[str, dict[str, dict[str, int]]] = {}
    for view, task, level, stacks, most, share in zip(*(columns[name] for name in names), strict=True):
        counts = dict.fromkeys(("points", "most_stacks", "least_l2", "largest_l2"), 0)
        counts = found.setdefault(view, {}).setdefault(task, counts)
        if level:
            counts["points"] += 1
            counts["most_stacks"] += stacks == most
            counts["least_l2"] += share == l2_shares[0]
            counts["largest_l2"] += share == l2_shares[-1]
    return found


def said_of_ends(found: Mapping[str, Any], l2_shares: Sequence[float]) -> Iterator[str]:
    """A sentence for each view."""
    least, largest = percent(l2_shares[0]), percent(l2_shares[-1])
    for view, by_task in found.items():
        told = "; ".join(
            f"of {counts['points']} {task} points {counts['most_stacks']}, {counts['least_l2']} and "
            f"{counts['largest_l2']}"
            for task, counts in by_task.items()
        )
        yield (
            f"Best devices at a limit of the search, {view} view, with the most stacks, with the least L2 "
            f"({least}) and with the most L2 ({largest}): {told}."
        )


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


SMALL = 0.05
"""Shares below this are not told."""


def reading(columns: Columns, told: Mapping[str, Any]) -> list[str]:
    """What the table shows, with its numbers; nothing where a point has none, because no plan fits."""
    if any(map(isnan, columns["time_s"])):
        return []
    networks, memories = (list(dict.fromkeys(columns[name])) for name in ("network", "memory"))
    return [
        *_saturation(told, networks, memories),
        *_binding(columns, told, networks, memories),
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
        f"together they restore {_share(restored)} of the {percent(early[network][memory])} that a node gains before "
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


def _binding(
    columns: Columns, told: Mapping[str, Any], networks: Sequence[str], memories: Sequence[str]
) -> Iterator[str]:
    """What binds from the oldest to the newest node, and whether in the published order."""
    nodes, old = told["nodes"], networks[0]
    for view, by_scaling in told["bound_level"].items():
        for task in ("training", "prefill"):
            runs = _runs(by_scaling["vendor"][task][old][memories[0]], nodes)
            first, second = (
                _listed(shares_at(columns, (task, view, "vendor", old, memory), nodes[-1]))
                for memory in (memories[0], memories[-1])
            )
            most = told["largest_network_share"][view][task]
            yield (
                f"{task.capitalize()}, {view} view, vendor scaling: with {memories[0]} and {old} the main bottleneck "
                f"is {runs}; at {nodes[-1]} {first}. With {memories[-1]} it is {second}. The network binds at most "
                f"{percent(most['share'])}, at {most['node']} with {most['memory']} and {most['network']}."
            )
    for view, by_scaling in told["sequence"].items():
        yield _in_order(view, by_scaling["vendor"], told["nodes"], memories)


def _in_order(view: str, by_task: Mapping[str, Any], nodes: Sequence[str], memories: Sequence[str]) -> str:
    """Whether training is bound by compute, then memory, then the network, as the studies of nodes say."""
    as_published = [network for network, order in by_task[ONE_PLAN].items() if tuple(order) == PUBLISHED_ORDER]
    found = f"is that of one plan at all nodes with {' or '.join(as_published)}" if as_published else "is not found"
    network, searched = next(iter(by_task["training"].items()))
    return (
        f"The published order compute, memory (DRAM or L2), network of training {found}, in the {view} view from "
        f"{nodes[0]} to {nodes[-1]} with {memories[0]}, and then with {memories[-1]}. Where the plan is searched "
        f"again, the main bottleneck is {', then '.join(searched)} with {network}."
    )


def _runs(levels: Sequence[str], nodes: Sequence[str]) -> str:
    """Levels in order, each with the nodes at which it binds most."""
    runs: list[tuple[str, list[str]]] = []
    for level, node in zip(levels, nodes, strict=True):
        if not runs or runs[-1][0] != level:
            runs.append((level, []))
        runs[-1][1].append(node)
    return ", then ".join(
        f"{LEVEL_NAMES.get(level, level)} ({among[0]}{f' to {among[-1]}' if len(among) > 1 else ''})"
        for level, among in runs
    )


def _listed(shares: Mapping[str, float]) -> str:
    """Shares in words, the largest first, without small ones."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{LEVEL_NAMES.get(level, level)} {percent(share)}" for level, share in ranked if share >= SMALL)
