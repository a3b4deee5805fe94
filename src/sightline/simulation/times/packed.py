"""The tables of iteration times as compiled code takes them: few arrays and one record.

Compiled code counts references to every array that it hands on, and passes every figure of a tuple by itself.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from sightline.simulation.requests import Floats
from sightline.simulation.times.tables import IterationTimes

ROWS: Final = ("tokens", "logits", "decodes", "drafts")
"""Tables over counts."""
CELLS: Final = ("decode_attention", "prompt_attention")
"""Tables of attention."""
FIGURES: Final = tuple(name for name in IterationTimes._fields if name not in (*ROWS, *CELLS))
PLACES: Final = tuple(f"{name}_{of}" for name in (*ROWS, *CELLS) for of in ("at", "size", "width"))
"""Where a table begins, and its rows and columns."""


class PackedTimes(NamedTuple):
    """A replica's iteration times."""

    rows: Floats
    """All tables over counts, one behind the other."""
    cells: Floats
    """All tables of attention, row by row."""
    figures: Any
    """A record of the other figures, and of where each table stands; for several pools a record each."""


def packed(times: IterationTimes) -> PackedTimes:
    """Return the same times for compiled code."""
    found = packed_together([times])
    return found._replace(figures=found.figures[0])


def packed_together(pools: Sequence[IterationTimes]) -> PackedTimes:
    """Return the times of several pools for compiled code, with a record of figures for each."""
    records = np.zeros(len(pools), [(name, np.float64) for name in FIGURES] + [(name, np.int64) for name in PLACES])
    rows: list[Floats] = []
    cells: list[Floats] = []
    for record, times in zip(records, pools, strict=True):
        for name in FIGURES:
            record[name] = getattr(times, name)
        for names, tables in ((ROWS, rows), (CELLS, cells)):
            for name in names:
                table = getattr(times, name)
                record[f"{name}_at"] = sum(map(len, tables))
                record[f"{name}_size"], record[f"{name}_width"] = table.shape
                tables.append(table if names is ROWS else table.ravel())
    return PackedTimes(np.concatenate(rows), np.concatenate(cells), records)
