"""Which matmuls arithmetic bounds and which memory, as text, as JSON and as CSV: a table per scenario."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.prediction.operators.roofline_table import RooflineRow, RooflineTable
from sightline.profile.results import scenario_to_dict, stamped
from sightline.report import units
from sightline.report.csv_lines import csv_text
from sightline.report.terminal import parts

_STYLES = {"compute": "cyan", "memory": "yellow"}
_FIGURES = ("batch", "m", "n", "k", "flops", "bytes", "intensity", "ridge", "bound", "roofline_s", "predicted_s")


def classification(label: str, tables: Sequence[RooflineTable]) -> RenderableType:
    """Return one scenario's matmuls on one device or several, which differ in nothing else."""
    devices = [table.scenario.cluster.device.name for table in tables]
    edges = (f"{device} {ridges(table)}" for device, table in zip(devices, tables, strict=True))
    return Group(
        Text(label, style="bold"),
        Text(f"memory-bound below the ridge, in FLOP/byte: {', '.join(edges)}", style="dim"),
        Text(),
        _matmuls(devices, tables),
    )


def to_list(tables: Sequence[RooflineTable]) -> list[dict[str, Any]]:
    """Return each table with its scenario, device and rows, in SI units."""
    return [
        stamped(
            {
                "scenario": scenario_to_dict(table.scenario),
                "device": table.scenario.cluster.device.name,
                "rows": [_figures(row) for row in table.rows],
            }
        )
        for table in tables
    ]


def to_csv(named: Sequence[tuple[str, RooflineTable]]) -> str:
    """Return a line per matmul under its scenario's label and device."""
    return csv_text(
        [
            {"name": name, "device": t.scenario.cluster.device.name, **_figures(row)}
            for name, t in named
            for row in t.rows
        ]
    )


def _figures(row: RooflineRow) -> Mapping[str, Any]:
    named = {"phase": row.phase, "layer": row.layer, "matmul": row.matmul}
    return {**named, **{key: getattr(row, key) for key in _FIGURES}}


def ridges(table: RooflineTable) -> str:
    """Return the ridge of every type that the matmuls are computed in."""
    return " and ".join(units.digits(ridge) for ridge in sorted({row.ridge for row in table.rows}))


def _matmuls(devices: Sequence[str], tables: Sequence[RooflineTable]) -> Table:
    alone = len(devices) == 1
    table = parts.plain_table(("matmul", "batch, m, n, k"), ("FLOP/byte",))
    for heading in ("bound", "roofline", "predicted") if alone else devices:
        table.add_column(heading, justify="right" if heading in ("roofline", "predicted") else "left", no_wrap=True)
    kinds = {row.layer for row in tables[0].rows}
    above = ("", "")
    for rows in zip(*(t.rows for t in tables), strict=True):
        first = rows[0]
        group = (first.phase, "" if len(kinds) == 1 else first.layer)
        if group != above:
            table.add_row(*(Text(word, style="dim") for word in group))
        above = group
        cells = _alone(first) if alone else [_on_device(row) for row in rows]
        table.add_row(first.matmul, _shape(first), units.digits(first.intensity), *cells)
    return table


def _shape(row: RooflineRow) -> str:
    sizes = (row.batch, row.m, row.n, row.k) if row.batch != 1 else (row.m, row.n, row.k)
    return "x".join(f"{size:.0f}" if size >= 10 or size == int(size) else f"{size:.1f}" for size in sizes)


def _alone(row: RooflineRow) -> list[Any]:
    times = (units.seconds(row.roofline_s), units.seconds(row.predicted_s))
    return [Text(row.bound, style=_STYLES[row.bound]), *times]


def _on_device(row: RooflineRow) -> Any:
    return Text(f"{row.bound:7} {units.seconds(row.predicted_s):>7}", style=_STYLES[row.bound])
