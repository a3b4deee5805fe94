"""A Pareto front: plans by two of their figures, those that nothing beats in both, and the chosen one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import altair as alt

from sightline.answers import plan_columns, plan_sentences, summary
from sightline.charts import drawing, stacks
from sightline.charts.axes import Axis, axis
from sightline.charts.curves import LEAST_POINTS, Scale, scaling_panels
from sightline.charts.drawing import SCREEN, Room
from sightline.charts.stacks import Bar, limit_panel
from sightline.planning.plan_answer import PlanAnswer, RankedPlan
from sightline.profile import overlapped_s
from sightline.profile.metrics import metric_of

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
        *([_region_mark(region, x, y)] if region else []),
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
    for name, side, other in (("x", x, y), ("y", y, x)):
        spans = []
        for point in points:
            ends = point.x_interval if name == "x" else point.y_interval
            if ends is None:
                continue
            low, high = (min(max(end / side.divisor, side.low), side.high) for end in ends)
            fixed = (point.y if name == "x" else point.x) / other.divisor
            spans.append({"plan": point.label, name: low, f"{name}2": high, "y" if name == "x" else "x": fixed})
        if spans:
            scaled = {**_units(x, y), name: (f"{side.key}.low", side.divisor)}
            rule = drawing.of(spans, scaled).mark_rule(strokeWidth=1, color=drawing.INK, opacity=0.35)
            second = {"x2": "x2:Q"} if name == "x" else {"y2": "y2:Q"}
            layers.append(rule.encode(x=across, y=up, **second))
    return layers


def _region_mark(region: Region, x: Axis, y: Axis) -> Any:
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


_MOST = 12
"""Plans whose time and memory are drawn."""
_SHORT_ROW = 52
"""Pixels of the name of a row where there is little room."""
_FOLLOWS = {
    **dict.fromkeys(("run_time_s", "calendar_time_s", "cost_usd"), ("step_time_s", False)),
    "cost_usd_per_million_tokens": ("latency_s", False),
    "output_tokens_per_s_per_user": ("tpot_s", True),
    **dict.fromkeys(("output_tokens_per_s", "output_tokens_per_s_per_device"), ("latency_s", True)),
}
"""The time that a figure follows from, and whether it is a rate: less where the time is longer."""


def plan_chart(answer: PlanAnswer, room: Room = SCREEN, *, titled: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification.

    Args:
        answer: Of a search.
        room: How large the chart may be.
        titled: Whether it says what it shows, as it has to on its own.
    """
    if not answer.plans:
        nothing = drawing.of([{"text": plan_sentences.searched(answer)}]).mark_text().encode(text=alt.Text("text:N"))
        return drawing.configure(nothing, plan_sentences.title(answer), room=room)
    asked = _promised(answer) or answer.limits
    panels = [*_trade(answer, asked, room), *_limits(answer, asked, room), stacks_panel(answer, room)]
    chart = alt.concat(*panels, columns=1, spacing=30, align="none").resolve_scale(
        color="independent", shape="independent"
    )
    title = plan_sentences.title(answer) if titled else ""
    return drawing.configure(chart, title, _lines(answer) if titled else (), room)


def _lines(answer: PlanAnswer) -> list[str]:
    """What the picture shows, and what it rests on."""
    first = answer.plans[0].profile
    evidence = first.evidence.get("framework") if isinstance(first.evidence, Mapping) else None
    lines = [*plan_sentences.subtitle(answer), plan_sentences.searched(answer)]
    if any(one.profile.interval for one in answer.plans):
        said = f"; {summary.EVIDENCE_OF.get(first.task.name, 'evidence')}: {evidence}" if evidence else ""
        lines.append(f"Thin lines are 80 % intervals{said}.")
    if any(overlapped_s(one.profile.rows) > 0 for one in answer.plans[:_MOST]):
        lines.append("Red strips below the bars are overlapped communication.")
    return [*lines, *plan_sentences.standing(answer), *summary.anchor_sentences([one.profile for one in answer.plans])]


def stacks_panel(answer: PlanAnswer, room: Room = SCREEN) -> Any:
    """Return time by phase and memory by part of the best plans."""
    named = [(row_of(answer, one, room), one.profile) for one in answer.plans[:_MOST]]
    whole = answer.plans[0].profile
    title = whole.task.metrics[whole.task.whole.partition(".")[0]].label.capitalize()
    if not room.side_by_side:
        room = replace(room, panel=room.panel + room.labels - _SHORT_ROW, labels=_SHORT_ROW)
    return drawing.beside(stacks.times(named, title, room), stacks.memory(named, room), room=room)


def row_of(answer: PlanAnswer, plan: RankedPlan, room: Room = SCREEN) -> str:
    """Return the name of a plan's row: its rank, and where there is room what it alone does."""
    if not room.side_by_side:
        return f"plan {plan.rank}"
    return plan_columns.name_of(answer, plan)


def _trade(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[Any]:
    """The Pareto front if one was asked for, or the curve over numbers of devices if these vary."""
    if answer.pareto and plan_columns.front_axes(answer):
        yield front(answer, limits, room)
    scales = _scales(answer)
    lines = {scale.line for scale in scales}
    if any(sum(s.line == line for s in scales) >= LEAST_POINTS for line in lines):
        yield scaling_panels(scales, room)


def front(answer: PlanAnswer, limits: Mapping[str, float], room: Room = SCREEN) -> Any:
    """Return the panel of the Pareto front."""
    keys = list(plan_columns.front_axes(answer))
    across, up = (_axis(answer, key) for key in keys)
    there = [one for one in answer.plans if all(plan_columns.value(one, key) is not None for key in keys)]
    points = [_point(answer, one, keys) for one in there]
    title = " and ".join(plan_columns.name(key) for key in keys)
    title = f"Pareto front: {title}"
    return front_panel(points, across, up, title=title, region=_region(keys, limits), room=room)


def front_chart(answer: PlanAnswer, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Pareto front alone, with what was asked for; None where no front was asked for."""
    if not answer.plans or not answer.pareto or not plan_columns.front_axes(answer):
        return None
    has = "thin line" if any(one.profile.interval for one in answer.plans) else ""
    lines = [plan_sentences.searched(answer), drawing.basis([one.profile.evidence for one in answer.plans], has)]
    panel = front(answer, _promised(answer) or answer.limits, room)
    # In a concatenation the panel keeps its own title, which says what is shaded.
    return drawing.configure(alt.vconcat(panel), plan_sentences.title(answer), [line for line in lines if line], room)


def _axis(answer: PlanAnswer, key: str) -> Axis:
    values = [found for one in answer.plans if (found := plan_columns.value(one, key)) is not None]
    shown = [one for position, one in enumerate(answer.plans) if position in answer.pareto or one.rank == 1]
    values += [end for one in shown for end in interval_of(one, key) or ()]
    better = "more" if metric_of(key).better == "higher" else "less"
    return axis(key, plan_columns.name(key), values, best=better)


def _point(answer: PlanAnswer, plan: RankedPlan, keys: list[str]) -> Point:
    x, y = (plan_columns.value(plan, key) or 0.0 for key in keys)
    ends = [interval_of(plan, key) for key in keys]
    return Point(
        x=x,
        y=y,
        label=str(plan.rank),
        about=row_of(answer, plan),
        on_front=any(answer.plans[position] is plan for position in answer.pareto),
        chosen=plan.rank == 1,
        x_interval=ends[0],
        y_interval=ends[1],
    )


def interval_of(plan: RankedPlan, key: str) -> Ends | None:
    """Return the 80 % interval of a figure; one that follows from a time has that time's, turned round for a rate."""
    interval, value = plan.profile.interval, plan_columns.value(plan, key)
    time, is_rate = _FOLLOWS.get(key, (key, False))
    ends = interval.get(key) or interval.get(time)
    whole = plan_columns.value(plan, key if key in interval else time)
    if ends is None or ends[1] is None or not value or not whole:
        return None
    low, high = float(ends[0]), float(ends[1])
    if is_rate and key not in interval:
        return value * whole / high, value * whole / low
    return value * low / whole, value * high / whole


def _region(keys: list[str], limits: Mapping[str, float]) -> Region | None:
    """What was allowed of the figures on the axes; a time per token is the reciprocal of a user's rate."""
    asked = {key: limits[key] for key in keys if key in limits}
    said = [f"at most a {plan_columns.name(key)} of {plan_columns.shown(key, most)}" for key, most in asked.items()]
    rate = 1 / limits["tpot_s"] if "tpot_s" in limits and keys[0] == plan_columns.SERVING_AXES[0] else None
    if rate is not None:
        said.append(f"at least {plan_columns.shown(keys[0], rate)} {plan_columns.name(keys[0])}")
    if not said:
        return None
    return Region(label=" and ".join(said), x_most=asked.get(keys[0]), y_most=asked.get(keys[1]), x_least=rate)


def _promised(answer: PlanAnswer) -> dict[str, float]:
    """The limits of a load's objective by the result key of the percentile that has to keep them."""
    slo = getattr(answer.plans[0].profile.scenario.workload, "slo", None)
    if slo is None:
        return {}
    from sightline.planning.serving.layouts import limits_of

    return {plan_columns.at_percentile(key, slo.percentile): limit for key, limit in limits_of(slo).items()}


def _limits(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[Any]:
    """A panel for each limit that no axis of the front shows: what the plans take of it."""
    on_axes = plan_columns.front_axes(answer)
    for key, limit in limits.items():
        there = [(one, value) for one in answer.plans[:_MOST] if (value := plan_columns.value(one, key)) is not None]
        if key in (*on_axes, plan_columns.MEMORY) or not there:
            continue
        bars = [
            Bar(row=row_of(answer, one, room), value=v, text=plan_columns.shown(key, v), interval=interval_of(one, key))
            for one, v in there
        ]
        label = plan_columns.name(key)
        yield limit_panel(
            key, label[:1].upper() + label[1:], bars, limit, f"at most {plan_columns.shown(key, limit)}", room
        )


def _scales(answer: PlanAnswer) -> list[Scale]:
    """The fastest of the plans for each kind and number of devices."""
    best: dict[tuple[str, int], RankedPlan] = {}
    for one in answer.plans:
        cluster = one.profile.scenario.cluster
        place = (cluster.device.name, int(cluster.devices))
        if place not in best or _rate(one) > _rate(best[place]):
            best[place] = one
    return [
        Scale(
            line=line,
            devices=count,
            tokens_per_s=_rate(one),
            interval=interval_of(one, one.profile.task.rates[0]),
            label=row_of(answer, one),
        )
        for (line, count), one in sorted(best.items())
    ]


def _rate(plan: RankedPlan) -> float:
    return float(getattr(plan.profile, plan.profile.task.rates[0]))
