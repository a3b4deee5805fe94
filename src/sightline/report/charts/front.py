"""A Pareto front: plans by two of their figures, those that nothing beats in both, and the chosen one."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from sightline.report.charts import drawing
from sightline.report.charts.axes import Axis
from sightline.report.charts.drawing import SCREEN, Room

_HEIGHT = 280
_MOST_LABELS = 24
_CHARACTER, _LINE = 6.4, 13.0
"""Pixels of a character and of a line of a label."""
_PLACES = ((1, -1, "left", "bottom"), (-1, -1, "right", "bottom"), (1, 1, "left", "top"), (-1, 1, "right", "top"))
"""Where a label may stand next to its point, which lines of intervals run through straight: in the corners."""
_DISTANCE = 4.0
CHOSEN, FRONT, OTHER = "chosen", "on the Pareto front", "other plans"
_COLORS = {CHOSEN: "#d4570c", FRONT: "#174a8c", OTHER: "#a3a3a3"}
_SHAPES = {CHOSEN: "diamond", FRONT: "circle", OTHER: "circle"}

Ends = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A plan by two of its figures, in SI units."""

    x: float
    y: float
    label: str
    """Next to the point, if there is room."""
    about: str = ""
    """Shown when it is pointed at."""
    on_front: bool = False
    chosen: bool = False
    x_interval: Ends | None = None
    y_interval: Ends | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """What is asked for: values of an axis on one side of a limit; None where there is no limit."""

    label: str
    x_most: float | None = None
    x_least: float | None = None
    y_most: float | None = None
    y_least: float | None = None


def front_panel(
    points: Sequence[Point], x: Axis, y: Axis, *, title: str, region: Region | None = None, room: Room = SCREEN
) -> Any:
    """Return the panel of a front: all points, the front's line, intervals of the labelled ones, what is asked for."""
    width = room.panel + (0 if room.side_by_side else room.labels - 20)
    across = alt.X("x:Q", title=x.title, scale=x.scale(), axis=x.ticks(room.ticks))
    up = alt.Y("y:Q", title=y.title, scale=y.scale(), axis=y.ticks(6))
    layers = [
        *([_region(region, x, y)] if region else []),
        _line([p for p in points if p.on_front], x, y, across, up),
        *_intervals([p for p in points if p.chosen or p.on_front], x, y, across, up),
        _dots(points, x, y, across, up),
        *_labels(points, x, y, width, across, up),
    ]
    heading = drawing.heading(title, f"shaded: {region.label}" if region else "", frame="bounds")
    return alt.layer(*layers).properties(width=width, height=_HEIGHT, title=heading)


def _at(point: Point, x: Axis, y: Axis) -> dict[str, Any]:
    kind = CHOSEN if point.chosen else FRONT if point.on_front else OTHER
    named = {"plan": point.label, "about": point.about or point.label}
    return {"x": point.x / x.divisor, "y": point.y / y.divisor, "kind": kind, **named}


def _units(x: Axis, y: Axis) -> drawing.Units:
    """The columns of points by the result keys of the axes, and of the ends of their intervals."""
    named = {"x": (x, x.key), "y": (y, y.key)}
    named |= {"x2": (x, f"{x.key}.high"), "y2": (y, f"{y.key}.high")}
    return {column: (key, axis.divisor) for column, (axis, key) in named.items()}


def _line(front: Sequence[Point], x: Axis, y: Axis, across: Any, up: Any) -> Any:
    """The front as a line from point to point."""
    ordered = [_at(point, x, y) for point in sorted(front, key=lambda point: point.x)]
    line = drawing.of(ordered, _units(x, y)).mark_line(strokeWidth=1.5, color=_COLORS[FRONT], opacity=0.6)
    return line.encode(x=across, y=up, order=alt.Order("x:Q"))


def _dots(points: Sequence[Point], x: Axis, y: Axis, across: Any, up: Any) -> Any:
    drawn = sorted(points, key=lambda point: (point.chosen, point.on_front))
    there = [kind for kind in _COLORS if any(_at(point, x, y)["kind"] == kind for point in points)]
    colors = drawing.palette({kind: _COLORS[kind] for kind in there})
    shapes = alt.Scale(domain=there, range=[_SHAPES[kind] for kind in there])
    legend = alt.Legend(title=None, orient="bottom", direction="horizontal", symbolType="circle")
    marks = drawing.of([_at(point, x, y) for point in drawn], _units(x, y)).mark_point(filled=True, opacity=1)
    size = alt.condition(f"datum.kind === '{CHOSEN}'", alt.value(130), alt.value(48))
    return marks.encode(
        x=across,
        y=up,
        color=alt.Color("kind:N", scale=colors, legend=legend),
        shape=alt.Shape("kind:N", scale=shapes, legend=legend),
        size=size,
        tooltip=[
            alt.Tooltip("about:N", title="plan"),
            alt.Tooltip("x:Q", title=x.title, format=".4~g"),
            alt.Tooltip("y:Q", title=y.title, format=".4~g"),
        ],
    )


def _intervals(points: Sequence[Point], x: Axis, y: Axis, across: Any, up: Any) -> list[Any]:
    """Thin lines through points, in the directions in which their intervals are known."""
    layers = []
    for name, axis, other in (("x", x, y), ("y", y, x)):
        spans = []
        for point in points:
            ends = point.x_interval if name == "x" else point.y_interval
            if ends is None:
                continue
            low, high = (min(max(end / axis.divisor, axis.low), axis.high) for end in ends)
            fixed = (point.y if name == "x" else point.x) / other.divisor
            spans.append({"plan": point.label, name: low, f"{name}2": high, "y" if name == "x" else "x": fixed})
        if spans:
            scaled = {**_units(x, y), name: (f"{axis.key}.low", axis.divisor)}
            rule = drawing.of(spans, scaled).mark_rule(strokeWidth=1, color=drawing.INK, opacity=0.35)
            second = {"x2": "x2:Q"} if name == "x" else {"y2": "y2:Q"}
            layers.append(rule.encode(x=across, y=up, **second))
    return layers


def _region(region: Region, x: Axis, y: Axis) -> Any:
    """A shaded area of what is asked for."""
    sides = (
        ("x", x, region.x_least, x.low),
        ("x2", x, region.x_most, x.high),
        ("y", y, region.y_least, y.low),
        ("y2", y, region.y_most, y.high),
    )
    box = {
        name: min(max(end if limit is None else limit / side.divisor, side.low), side.high)
        for name, side, limit, end in sides
    }
    area = drawing.of([box]).mark_rect(color="#179e5f", opacity=0.13)
    return area.encode(
        x=alt.X("x:Q", scale=x.scale()), x2=alt.X2("x2:Q"), y=alt.Y("y:Q", scale=y.scale()), y2=alt.Y2("y2:Q")
    )


def _labels(points: Sequence[Point], x: Axis, y: Axis, width: float, across: Any, up: Any) -> list[Any]:
    """Labels next to their points, as far as they overlap neither each other nor a point."""
    by_place: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for point, (right, down, *_) in placed(points, x, y, width):
        by_place.setdefault((right, down), []).append({**_at(point, x, y), "text": point.label})
    layers = []
    for right, down, align, baseline in _PLACES:
        found = by_place.get((right, down))
        if found:
            text = drawing.of(found, _units(x, y)).mark_text(
                align=align,
                baseline=baseline,
                dx=right * _DISTANCE,
                dy=down * _DISTANCE,
                fontSize=11,
                color=drawing.INK,
            )
            layers.append(text.encode(x=across, y=up, text=alt.Text("text:N")))
    return layers


Box = tuple[float, float, float, float]


def placed(points: Sequence[Point], x: Axis, y: Axis, width: float) -> list[tuple[Point, tuple[int, int, str, str]]]:
    """Return the points whose label has a place, with that place; the chosen one and the front come first."""
    spots = {id(point): (x.place(point.x) * width, (1 - y.place(point.y)) * _HEIGHT) for point in points}
    taken: list[Box] = [(left - 3, top - 3, left + 3, top + 3) for left, top in spots.values()]
    found = []
    for point in sorted(points, key=lambda point: (not point.chosen, not point.on_front))[:_MOST_LABELS]:
        left, top = spots[id(point)]
        for place in _PLACES:
            box = box_of(point.label, left, top, place[0], place[1])
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= width and box[3] <= _HEIGHT
            if inside and not any(overlap(box, other) for other in taken):
                taken.append(box)
                found.append((point, place))
                break
    return found


def box_of(label: str, left: float, top: float, right: int, down: int) -> Box:
    """Return where the label of a point lies: left, top, right, bottom."""
    wide = _CHARACTER * len(label)
    start = left + right * _DISTANCE - wide * (right < 0)
    above = top + down * _DISTANCE - _LINE * (down < 0)
    return start, above, start + wide, above + _LINE


def overlap(one: Box, other: Box) -> bool:
    """Return whether two boxes share any place."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
