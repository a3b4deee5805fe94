"""Half-widths of intervals on devices that nobody measured, by part and distance from the devices that were.

``left_out.yaml`` holds them, made by ``python -m sightline.validation.operators --data DIR --write`` from the errors of
every measured device left out in turn.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from sightline.catalog.yaml12 import parse

Distance: TypeAlias = Literal["same architecture", "same maker", "other", "server unknown"]
"""How far a device is from those that its constants were measured on: the same silicon or instructions, another
generation or kind of memory of the maker, or none that anybody knows it to be like. Of collectives over PCIe also: on a
server of which nobody knows how its links share the way through the host."""
GROWTH: tuple[Distance, ...] = ("same architecture", "same maker", "other", "server unknown")
SERVER_UNKNOWN = "server unknown"
FURTHER = 1.5
"""Half-width over that of the next smaller distance where too little was left out so far away. For other makers'
devices it is at least that: of element-wise kernels it is 1.6, and of other makers' products only the largest were
measured."""
OTHERS = 0.5
"""For parts that are not listed."""


@cache
def known() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return what was found by leaving devices out, by part and distance."""
    return parse(Path(__file__).with_name("left_out.yaml").read_text(encoding="utf-8")) or {}


@cache
def unmeasured_half_width(part: str, distance: Distance) -> float:
    """Return the half-width at a distance, never less than at a smaller one."""
    found = known().get(part, {})
    if not found:
        return OTHERS
    widest = 0.0
    for nearer in GROWTH[: GROWTH.index(distance) + 1]:
        if nearer == "other" or (nearer == "same maker" and nearer not in found):
            widest *= FURTHER
        widest = max(widest, float(found[nearer]["half_width"]) if nearer in found else 0.0)
    return widest


def half_width_without(part: str, distance: Distance, suite: str) -> float | None:
    """Return the half-width at a distance that other devices than a suite's say; None where they say nothing."""
    width = known().get(part, {}).get(distance, {}).get("without", {}).get(suite)
    return None if width is None else float(width)
