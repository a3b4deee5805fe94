"""Where operators stand on the roofline, and where its axes end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.answers import summary
from sightline.profile import Profile, Row
from sightline.report.charts import drawing

_LEFT, _RIGHT = 0.5, 3.0
"""Factors by which the axis goes on beyond the operators."""
_MOST_MODULES = 7
REST = "other modules"
_OF_MEMORY, _OF_NETWORK = 1.35, 1.9
"""Where, over the lower end of the axis, operators without FLOPs stand in the left edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Where the axes end."""

    x: tuple[float, float]
    y: tuple[float, float]


def placed(profile: Profile, rows: Sequence[Row], peaks: Mapping[str, float]) -> tuple[list[dict[str, Any]], Ends]:
    """Return the points of operators, and the ends of the axes around them."""
    total_s = sum(float(row.exposed_s) for row in rows) or 1.0
    merged = list(_merged(rows))
    inner = [one for one in merged if one["flops"] > 0 and one["bytes"] > 0]
    intensities = [one["flops"] / one["bytes"] for one in inner]
    device = profile.scenario.cluster.device
    ridge = max(peaks.values()) / float(device.memory_bandwidth)
    low = min([*intensities, ridge / 30]) * _LEFT / 4
    high = max([*intensities, ridge]) * _RIGHT
    shown = _shown_modules(merged)
    points = []
    for one in merged:
        point = _point(one, low, shown, total_s)
        if point is not None:
            points.append(point)
    rates = [point["flop_per_s"] for point in points]
    top = max(peaks.values()) * 1.9
    return points, Ends(x=(low, high), y=(min([*rates, top / 1e3]) / 1.6, top))


def _merged(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Operators of one name in all kinds of layers, the longest first."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        at = found.setdefault((row.phase, row.module, row.operator), dict.fromkeys(_SUMS, 0.0))
        for key in _SUMS:
            at[key] += float(getattr(row, key))
        at["bound"] = row.bound_level or row.bound
    for (phase, module, operator), sums in sorted(found.items(), key=lambda pair: -pair[1]["time_s"]):
        yield {"phase": phase, "module": module, "operator": operator, **sums}


_SUMS = ("flops", "bytes", "network_bytes", "time_s", "exposed_s")


def _shown_modules(merged: Sequence[Mapping[str, Any]]) -> list[str]:
    """The modules that take longest, which have a shape of their own."""
    seconds: dict[str, float] = {}
    for one in merged:
        seconds[one["module"]] = seconds.get(one["module"], 0.0) + one["time_s"]
    return sorted(seconds, key=lambda module: -seconds[module])[:_MOST_MODULES]


def _point(one: Mapping[str, Any], low: float, shown: Sequence[str], total_s: float) -> dict[str, Any] | None:
    """An operator's place: at its intensity, or at the left edge by its bytes per second."""
    seconds = one["time_s"]
    if one["flops"] > 0 and one["bytes"] > 0:
        intensity, rate = one["flops"] / one["bytes"], one["flops"] / seconds
    elif one["bytes"] > 0:
        intensity, rate = low * _OF_MEMORY, low * _OF_MEMORY * one["bytes"] / seconds
    elif one["network_bytes"] > 0:
        intensity, rate = low * _OF_NETWORK, low * _OF_NETWORK * one["network_bytes"] / seconds
    else:
        return None
    phase = one["phase"]
    return {
        "operator": one["operator"],
        "module": one["module"] if one["module"] in shown else REST,
        "phase": summary.LABELS.get(phase, phase),
        "flop_per_byte": drawing.rounded(intensity),
        "flop_per_s": drawing.rounded(rate),
        "time_s": drawing.rounded(seconds),
        "share": drawing.rounded(one["exposed_s"] / total_s),
        "bound": one["bound"],
    }
