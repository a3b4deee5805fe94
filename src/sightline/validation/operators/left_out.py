"""How far devices that nobody measured are off: every measured device left out in turn, and the intervals from that.

A half-width holds four in five errors of the other devices, each device counting the same; a device's own errors never
make the interval that it is held against, nor do those of its architecture. Half-widths grow with the distance from the
devices that were measured: another device of the architecture, another architecture of the maker, another maker.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sightline.calibration.error_figures import covered, error_statistics, width_holding
from sightline.calibration.manifest import manifest
from sightline.cost import families
from sightline.cost.families import SERVER_UNKNOWN, Distance
from sightline.loading.clusters import read_device
from sightline.quantities import significant
from sightline.validation.operators import Array, OperatorSuite

PARTS: Mapping[str, str] = {
    "matmul": "matmul",
    "attention-prefill": "prefill_attention",
    "attention-decode": "decode_attention",
    "attention-mla": "latent_decode_attention",
    "element-wise": "elementwise",
    "grouped-matmul": "grouped",
    "nccl": "collectives",
}
"""Part of a calibration by the beginning of a suite's name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """One kind of operator on one device that was left out."""

    suite: str
    part: str
    device: str
    distance: Distance
    predicted: Array
    measured: Array

    @property
    def errors(self) -> Array:
        """Sizes of the logarithmic errors."""
        return np.abs(np.log(self.predicted / self.measured))


def part_of(suite: str) -> str:
    """Return the part of a calibration that a suite's operators belong to."""
    return next(part for kind, part in PARTS.items() if suite.startswith(kind))


def device_of(suite: str) -> str:
    """Return the device, or its family, in the name of a suite: ``matmul-fp8 h100-sxm never fitted``."""
    return suite.split()[1]


def distance_of(suite: str) -> Distance:
    """Return how far the devices whose constants a suite takes are from its own."""
    if suite.endswith(SERVER_UNKNOWN):
        return "server unknown"
    if suite.endswith("sibling fitted"):
        return "same architecture"
    name = device_of(suite)
    device = read_device(manifest("devices").get(name, name))
    same = families.of_device(device)["maker"] == families.MEASURED_MAKER
    return "same maker" if same else "other"


def left_out(suites: Iterable[OperatorSuite]) -> list[LeftOut]:
    """Return what each suite of devices left out predicts."""
    compared = ((suite.name, suite.compare()["test"]) for suite in suites)
    return [
        LeftOut(
            suite=name,
            part=part_of(name),
            device=device_of(name),
            distance=distance_of(name),
            predicted=part.predicted,
            measured=part.measured,
        )
        for name, part in compared
    ]


def rows(rows_left_out: Sequence[LeftOut]) -> list[dict[str, Any]]:
    """Return one row for each device and kind of operator: errors, and how many lie within the others' interval."""
    table = []
    for left in rows_left_out:
        width = _width(_apart(left, rows_left_out))
        coverage = None if width is None else covered(left.errors, width)
        row = {key: getattr(left, key) for key in ("part", "device", "distance", "suite")}
        figures = error_statistics(left.predicted, left.measured)
        table.append({**row, **figures, "half_width": width, "coverage": coverage})
    return table


def summary(table: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each part and distance: over devices, medians of their medians, means of the rest."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in table:
        groups.setdefault((row["part"], row["distance"]), []).append(row)
    return [
        {
            "part": part,
            "distance": distance,
            "devices": len({row["device"] for row in group}),
            "median": round(float(np.median([row["median"] for row in group])), 4),
            "mean": round(float(np.mean([row["mean"] for row in group])), 4),
            "coverage": _mean([row["coverage"] for row in group]),
        }
        for (part, distance), group in sorted(groups.items())
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 4) if known else None


def half_widths(rows_left_out: Sequence[LeftOut]) -> dict[str, dict[str, Any]]:
    """Return what `sightline.cost.families` reads: half-widths by part and distance, and those without a device."""
    table: dict[str, dict[str, Any]] = {}
    for part in dict.fromkeys(left.part for left in rows_left_out):
        for distance in dict.fromkeys(left.distance for left in rows_left_out if left.part == part):
            alike = [left for left in rows_left_out if (left.part, left.distance) == (part, distance)]
            without = {
                alike_case.suite: width
                for alike_case in alike
                if (width := _width(_apart(alike_case, rows_left_out))) is not None
            }
            table.setdefault(part, {})[distance] = {"half_width": _width(alike), "without": without}
    return table


def _apart(one: LeftOut, rows_left_out: Sequence[LeftOut]) -> list[LeftOut]:
    """The others of the part at the same distance, without those of the device's architecture.

    Where there are no such, those at the next smaller distance.
    """
    kin = families.kin(one.device)
    others = [x for x in rows_left_out if x.part == one.part and x.device not in kin]
    same = [x for x in others if x.distance == one.distance]
    nearer = same or [x for x in others if x.distance == "same maker"]
    # Of a part that only one architecture was measured in, its other devices.
    return nearer or [
        x for x in rows_left_out if (x.part, x.distance) == (one.part, one.distance) and x.device != one.device
    ]


def _width(rows_left_out: Sequence[LeftOut]) -> float | None:
    """The least half-width that holds four in five errors, each device counting the same; None without errors."""
    if not rows_left_out:
        return None
    devices = [left.device for left in rows_left_out]
    weights = np.concatenate(
        [np.full(len(x.errors), 1 / len(x.errors) / devices.count(x.device)) for x in rows_left_out]
    )
    return significant(width_holding(np.concatenate([left.errors for left in rows_left_out]), weights), 2)
