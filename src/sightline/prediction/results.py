"""What a prediction is bound by, and what it depends on, as JSON says it."""

from collections.abc import Sequence
from typing import Any

from sightline.loading import to_mapping
from sightline.prediction.roofline_table import RooflineRow, RooflineTable
from sightline.prediction.sensitivity import Neighbour, Sensitivity
from sightline.profile.results import stamped

_SIZES = ("batch", "m", "n", "k", "flops", "bytes")
_FIGURES = (*_SIZES, "intensity", "ridge", "bound", "bound_level", "roofline_s", "predicted_s")


def rooflines_to_list(tables: Sequence[RooflineTable]) -> list[dict[str, Any]]:
    """Return each table with its scenario, device and rows, in SI units."""
    return [
        stamped(
            {
                "scenario": to_mapping(table.scenario),
                "device": table.scenario.cluster.device.name,
                "rows": [row_to_dict(row) for row in table.rows],
            }
        )
        for table in tables
    ]


def row_to_dict(row: RooflineRow) -> dict[str, Any]:
    """Return a matmul of a roofline: what it is, its figures and what bounds it."""
    named = {"phase": row.phase, "layer": row.layer, "matmul": row.matmul}
    return {**named, **{key: getattr(row, key) for key in _FIGURES}}


def sensitivity_to_dict(answer: Sensitivity) -> dict[str, Any]:
    """Return the prediction's result keys, ``elasticity`` by number and result key, and ``neighbours``."""
    neighbours = [neighbour_to_dict(neighbour) for neighbour in answer.neighbours]
    return {**answer.answer.to_dict(), "elasticity": answer.elasticity, "neighbours": neighbours}


def neighbour_to_dict(neighbour: Neighbour) -> dict[str, Any]:
    """Return a plan that differs in one decision, with its time and memory."""
    profile = neighbour.profile
    return {
        "change": neighbour.change,
        "step_time_s": float(profile.step_time_s),
        "memory_bytes": float(profile.memory_bytes["total"]),
        "fits": bool(profile.fits),
    }
