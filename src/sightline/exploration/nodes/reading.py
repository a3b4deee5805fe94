"""What the study of logic nodes finds in sentences: gains per node, what binds, and the best devices."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from sightline.exploration.nodes.binding import PUBLISHED_ORDER, Columns, row_at, shares_at
from sightline.exploration.nodes.gains import SATURATED, TURN, UNFELT
from sightline.exploration.nodes.times import ONE_PLAN
from sightline.profile import LEVEL_NAMES
from sightline.quantities import percent

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
                f"{task.capitalize()}, {view} view, vendor scaling: with {memories[0]} and {old} most is bound by "
                f"{runs}; at {nodes[-1]} {first}. With {memories[-1]} it is {second}. The network binds at most "
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
        f"again, most is bound by {', then '.join(searched)} with {network}."
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
