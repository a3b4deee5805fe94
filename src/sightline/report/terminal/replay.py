"""Measured and simulated times of the same requests in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from sightline.quantities import percent
from sightline.report import units

LABELS = {"ttft_s": "time to first token", "tpot_s": "time per token", "latency_s": "latency"}


def replay_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of every time's mean and percentiles: measured, simulated, and how far apart."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("matched requests", "", "measured", "simulated", "error"):
        table.add_column(heading, justify="right" if heading in ("measured", "simulated", "error") else "left")
    for row in rows:
        first = row["statistic"] == "mean"
        table.add_row(
            LABELS[row["time"]] if first else "",
            row["statistic"],
            units.seconds(row["measured"]),
            units.seconds(row["simulated"]),
            percent(row["error"], 1, signed=True),
        )
    return table
