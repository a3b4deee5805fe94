"""What bounds a prediction, and which numbers it depends on, as text and as CSV."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.prediction.results import neighbour_to_dict, row_to_dict
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.prediction.sensitivity import Neighbour, Sensitivity
from sightline.quantities import percent
from sightline.report import labels, summary, units
from sightline.report.csv_lines import csv_text
from sightline.report.terminal import parts
from sightline.report.terminal.listing import Column, Listing

_STYLES = {"compute": "cyan", "memory": "yellow"}


def classification(label: str, tables: Sequence[RooflineTable]) -> RenderableType:
    """Return one scenario's matmuls on one device or several, which differ in nothing else."""
    devices = [table.scenario.cluster.device.name for table in tables]
    edges = (f"{device} {ridges(table)}" for device, table in zip(devices, tables, strict=True))
    return Group(
        Text(label, style="bold"),
        Text(f"memory-bound below the ridge (FLOP/byte): {', '.join(edges)}", style="dim"),
        Text(),
        _matmuls(devices, tables),
    )


def rooflines_to_csv(named: Sequence[tuple[str, RooflineTable]]) -> str:
    """Return a line per matmul under its scenario's label and device."""
    return csv_text(
        [
            {"name": name, "device": t.scenario.cluster.device.name, **row_to_dict(row)}
            for name, t in named
            for row in t.rows
        ]
    )


def ridges(table: RooflineTable) -> str:
    """Return the ridge of every type that the matmuls are computed in."""
    return " and ".join(units.digits(ridge) for ridge in sorted({row.ridge for row in table.rows}))


def _matmuls(devices: Sequence[str], tables: Sequence[RooflineTable]) -> Listing:
    """A line per matmul, by phase and kind of layer; of several devices a column with its bound and time each."""
    rows = tables[0].rows
    kinds = {row.layer for row in rows}
    if len(devices) == 1:
        times = {"roofline": [row.roofline_s for row in rows], "predicted": [row.predicted_s for row in rows]}
        shown = [Column(heading="bound", cells=[row.bound for row in rows], is_number=False, style=_style)]
        shown += [Column(heading=name, cells=list(map(units.seconds, seconds))) for name, seconds in times.items()]
    else:
        shown = [
            Column(heading=device, cells=list(map(_on_device, table.rows)), is_number=False, style=_style)
            for device, table in zip(devices, tables, strict=True)
        ]
    return Listing(
        labels=[Column(heading="matmul", cells=[row.matmul for row in rows], is_number=False)],
        figures=[
            Column(heading="batch, m, n, k", cells=list(map(shape, rows)), is_number=False),
            Column(heading="FLOP/byte", cells=[units.digits(row.intensity) for row in rows]),
            *shown,
        ],
        groups=[row.phase if len(kinds) == 1 else f"{row.phase}, {row.layer}" for row in rows],
        least=("batch, m, n, k",),
    )


def shape(row: RooflineRow) -> str:
    """Return the sizes of a matmul, with the batch where there is one."""
    sizes = (row.batch, row.m, row.n, row.k) if row.batch != 1 else (row.m, row.n, row.k)
    return "x".join(f"{size:.0f}" if size >= 10 or size == int(size) else f"{size:.1f}" for size in sizes)


def _style(cell: str) -> str:
    return _STYLES.get(cell.partition(" ")[0], "")


def _on_device(row: RooflineRow) -> str:
    return f"{row.bound:7} {units.seconds(row.predicted_s):>7}"


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
NEGLIGIBLE = 0.005
"""Elasticities below this would be 0.00 in the table."""


def sensitivity_table(found: Sensitivity) -> RenderableType:
    """Return one prediction's table of elasticities and, for training, of neighbours."""
    blocks: list[RenderableType] = [
        Text(labels.title(found.answer.scenario), style="bold"),
        *(Text(sentence, style="dim") for sentence in summary.anchor_sentences([found.answer])),
        Text("effect of raising an input by 1 %, in percent", style="dim"),
        Text(),
        _elasticities(found.elasticity),
    ]
    if found.neighbours:
        blocks += [Text(), Text("plans with a single change", style="dim"), _neighbour_table(found)]
    return Group(*blocks)


def _elasticities(by_number: Mapping[str, Mapping[str, float]]) -> Table:
    """A line per number that matters, the one with the largest elasticity of any result first."""
    keys = list(next(iter(by_number.values())))
    table = parts.grid(len(keys) + 2)
    table.add_row("", *(Text(key.removesuffix("_s").replace("_", " "), style="dim") for key in keys))
    largest = {name: max(abs(v) for v in values.values()) for name, values in by_number.items()}
    most = max(largest.values()) or 1.0
    for name in sorted(by_number, key=lambda n: -largest[n]):
        if largest[name] < NEGLIGIBLE:
            continue
        values = by_number[name]
        figures = [Text(f"{round(values[key], 2) + 0.0:+.2f}", justify="right") for key in keys]
        table.add_row(LABELS[name], *figures, parts.Bar(largest[name] / most, "cyan"))
    return table


def _neighbour_table(found: Sensitivity) -> Table:
    own = neighbour_to_dict(Neighbour("as requested", found.answer))
    table = parts.grid(4)
    for line in (own, *map(neighbour_to_dict, found.neighbours)):
        fits = Text("fits", style="green") if line["fits"] else Text("does not fit", style="red")
        change = "" if line is own else f" ({percent(line['step_time_s'] / own['step_time_s'] - 1, 1, signed=True)})"
        time = units.seconds(line["step_time_s"]) + change
        table.add_row(line["change"], Text(time, justify="right"), units.gib(line["memory_bytes"]), fits)
    return table
