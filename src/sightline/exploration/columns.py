"""Labels and units of columns that several studies have: results of a task, and parts by level."""

from collections.abc import Iterable, Mapping
from typing import Final

from sightline.exploration.answer import Column
from sightline.profile import BOUNDS, LEVEL_NAMES, MEMORY_PARTS, Task

BOUND_BY: Final = Column(label="bound by", values=LEVEL_NAMES)
_DERIVED: Final[Mapping[str, Column]] = {
    "cost_usd_per_million_tokens": Column(label="rent", unit="USD", per="per million tokens"),
    "energy_j_per_token": Column(label="energy", unit="J", per="per token"),
    "power_w": Column(label="power", unit="W", per="per device"),
    "device_cost_usd": Column(label="cost of making", unit="USD", per="per device"),
    "device_peak_flops": Column(label="peak in bf16", unit="FLOP/s"),
    "device_l2_bytes": Column(label="L2 capacity", unit="B"),
    "device_frequency_hz": Column(label="clock", unit="Hz"),
    "device_tdp_w": Column(label="power limit", unit="W"),
    "carbon_kg": Column(label="carbon", unit="kg"),
    "carbon_kg_per_million_tokens": Column(label="carbon", unit="kg", per="per million tokens"),
}
"""Results that studies work out themselves."""


def memory_name(part: str) -> str:
    """Return what readers call a part of memory."""
    return part.replace("kv_cache", "KV cache")


def memories(names: Iterable[str]) -> Column:
    """Return a column of memories of the catalog, which are written as products are: ``HBM3E``."""
    return Column(label="memory", values={name: name.upper().replace("BEYOND-", "beyond ") for name in names})


def by_level(key: str, unit: str, label: str = "{}") -> dict[str, Column]:
    """Return a column for each level; ``{}`` stands for the level in keys and labels."""
    return {key.format(level): Column(label=label.format(name), unit=unit) for level, name in LEVEL_NAMES.items()}


def result_columns(task: Task) -> dict[str, Column]:
    """Return the columns of all results of a task that a study may report, by their keys."""
    units = {"count": "", "word": ""}
    found = {
        key: Column(label=metric.label, unit=units.get(metric.unit, metric.unit))
        for key, metric in task.figures.items()
    }
    memory = {f"memory_bytes.{part}": Column(label=f"memory of {memory_name(part)}", unit="B") for part in MEMORY_PARTS}
    phases = {f"phases.{name}": Column(label=name.replace("_", " "), unit="s") for name in task.phases}
    limits = {f"limits.{name}": Column(label=f"time limited by {name}", unit="s") for name in BOUNDS}
    return {
        **found,
        **_DERIVED,
        **memory,
        "memory_bytes.total": Column(label="memory", unit="B"),
        **phases,
        **limits,
        **by_level("levels.{}", "s", "time bound by {}"),
        "bound_level": BOUND_BY,
        "exposed_share": Column(label="exposed communication", unit="share"),
        "bubble_share": Column(label="pipeline bubbles", unit="share"),
    }
