"""What catalog entries of fits share: their source, rows and residuals, and constants between several fits."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from sightline.calibration.fitting import Array, FitResult
from sightline.catalog import names
from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.quantities import significant
from sightline.scenario import Device

Entry = dict[str, Any]

DATE = "2026-11"
DEVICES = {"a100-sxm": "a100-sxm-80gb", "h100-sxm": "h100-sxm-80gb"}
"""Fitted calibrations and the device of the catalog each was measured on."""


def provenance(source: str, evidence: str, part: str) -> Entry:
    """Where constants come from and how they are made again."""
    command = f"python -m sightline.calibration {part} --data DIR --out DIR"
    return {"source": source, "date": DATE, "evidence": evidence, "written_by": command}


def figures(result: FitResult) -> Entry:
    """How many rows a fit used, and what it leaves unexplained."""
    return {"rows": dict(result.rows), "residuals": {name: dict(r) for name, r in result.residuals.items()}}


def covered(sizes: Mapping[str, Array]) -> Entry:
    """The smallest and the largest of each size that was measured."""
    return {name: [float(end) for end in (size.min(), size.max())] for name, size in sizes.items()}


def between(sets: list[Mapping[str, Any]]) -> Entry:
    """Geometric means of the constants of several fits, where they are numbers or lists of them."""

    def mean(*values: float) -> float:
        return significant(prod(values) ** (1 / len(values)))

    means: Entry = {}
    for name, first in sets[0].items():
        values = [s[name] for s in sets]
        if isinstance(first, list) and not isinstance(first[0], list):
            means[name] = [mean(*column) for column in zip(*values, strict=True)]
        elif isinstance(first, int | float):
            means[name] = mean(*values)
    return means


def device_of(family: str) -> Device:
    """The device of the catalog that a family was measured on: that of its name, with or without its memory's size."""
    named = (name for name in names("devices") if name == family or name.startswith(f"{family}-"))
    return read_cluster(f"1x {DEVICES.get(family) or min(named, key=len)}").device


def existing(path: Path) -> Path:
    """The path of a table that is there; raises InputError where it is not."""
    if not path.is_file():
        raise InputError(
            f"the table {path.name} is not in '{path.parent}'; --data names the folder that holds the tables"
        )
    return path
