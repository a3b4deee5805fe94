"""Elasticities of a prediction and the neighbors of its plan, as text with bars and as JSON."""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.prediction.sensitivity import Neighbour, Sensitivity
from sightline.profile.results import profile_to_dict
from sightline.report import labels, units
from sightline.report.terminal import parts

LABELS = {
    "device.peak_flops": "device: peak FLOP/s",
    "device.memory_bandwidth": "device: memory bandwidth",
    "device.l2_bandwidth": "device: L2 bandwidth",
    "device.l2_bytes": "device: L2 size",
    "device.vector_flops": "device: element-wise FLOP/s",
    "intra_node.bandwidth": "links: bandwidth",
    "intra_node.latency_s": "links: latency",
    "network.bandwidth_per_node": "network: bandwidth",
    "network.latency_s": "network: latency",
}
_NEGLIGIBLE = 0.005
"""Elasticities below this would be 0.00 in the table."""


def sensitivity_to_dict(found: Sensitivity) -> dict[str, Any]:
    """Return the prediction's result keys, ``elasticity`` by number and result key, and ``neighbours``."""
    neighbours = [_neighbour(neighbour) for neighbour in found.neighbours]
    return {**profile_to_dict(found.answer), "elasticity": found.elasticity, "neighbours": neighbours}


def terminal(found: Sensitivity) -> RenderableType:
    """Return one prediction's table of elasticities and, for training, of neighbours."""
    blocks: list[RenderableType] = [
        Text(labels.title(found.answer.scenario), style="bold"),
        Text("what 1 % more of a number changes, in per cent", style="dim"),
        Text(),
        _elasticities(found.elasticity),
    ]
    if found.neighbours:
        blocks += [Text(), Text("plans that differ in one decision", style="dim"), _neighbors(found)]
    return Group(*blocks)


def _elasticities(by_number: Mapping[str, Mapping[str, float]]) -> Table:
    """A line per number that matters, the one with the largest elasticity of any result first."""
    keys = list(next(iter(by_number.values())))
    table = parts.grid(len(keys) + 2)
    table.add_row("", *(Text(key.removesuffix("_s").replace("_", " "), style="dim") for key in keys))
    largest = {name: max(abs(v) for v in values.values()) for name, values in by_number.items()}
    most = max(largest.values()) or 1.0
    for name in sorted(by_number, key=lambda n: -largest[n]):
        if largest[name] < _NEGLIGIBLE:
            continue
        values = by_number[name]
        figures = [Text(f"{values[key]:+.2f}", justify="right") for key in keys]
        table.add_row(LABELS[name], *figures, parts.bar(largest[name] / most, "cyan"))
    return table


def _neighbors(found: Sensitivity) -> Table:
    own = _neighbour(Neighbour("as asked", found.answer))
    table = parts.grid(4)
    for line in (own, *map(_neighbour, found.neighbours)):
        fits = Text("fits", style="green") if line["fits"] else Text("does not fit", style="red")
        change = "" if line is own else f" ({100 * (line['step_time_s'] / own['step_time_s'] - 1):+.1f} %)"
        time = units.seconds(line["step_time_s"]) + change
        table.add_row(line["change"], Text(time, justify="right"), units.gib(line["memory_bytes"]), fits)
    return table


def _neighbour(neighbour: Neighbour) -> dict[str, Any]:
    profile = neighbour.profile
    return {
        "change": neighbour.change,
        "step_time_s": float(profile.step_time_s),
        "memory_bytes": float(profile.memory_bytes["total"]),
        "fits": bool(profile.fits),
    }
