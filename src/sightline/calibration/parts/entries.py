"""What catalog entries of fits share: their source, rows and residuals, and constants between several fits."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from sightline.calibration.fits.fitting import Array, FitResult
from sightline.calibration.parts.part import Entry
from sightline.quantities import significant

DATE = "2026-11"


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


def between(sets: Sequence[Mapping[str, Any]]) -> Entry:
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


def constants_in(entry: Mapping[str, Any]) -> Entry:
    """The constants that stand in an entry beside words, rows and residuals."""
    return {name: value for name, value in entry.items() if isinstance(value, float)}
