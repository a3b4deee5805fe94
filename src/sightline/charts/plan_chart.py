"""A search of plans: the Pareto front or the scaling, limits, and where time and memory of the best plans go."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sightline.answers import plan_columns, plan_sentences, summary
from sightline.charts import figure, stacks
from sightline.charts.curves import LEAST_POINTS, Scale, scaling_panels
from sightline.charts.drawing import HOST, PAIR, SCREEN, Room, basis
from sightline.charts.stacks import Bar, Ends, limit_panel
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
_COLORS = {CHOSEN: PAIR[1], FRONT: PAIR[0], OTHER: HOST}
_SHAPES = {CHOSEN: "diamond", FRONT: "circle", OTHER: "circle"}
Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point with its label, in SI units."""

    x: float
    y: float
    label: str
    is_first: bool = False
    """Whether its label has a place before those of others."""


def placed(
    points: Sequence[Point], x: figure.Axis, y: figure.Axis, width: float
) -> list[tuple[Point, tuple[int, int, str, str]]]:
    """Return the points whose label has a place, with that place: they overlap neither each other nor a point."""
    spots = {id(point): (x.place(point.x) * width, (1 - y.place(point.y)) * _HEIGHT) for point in points}
    taken: list[Box] = [(left - 3, top - 3, left + 3, top + 3) for left, top in spots.values()]
    found = []
    for point in sorted(points, key=lambda point: not point.is_first)[:_MOST_LABELS]:
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


def point_labels(
    points: Sequence[Point], x: figure.Axis, y: figure.Axis, width: float, columns: tuple[str, str], size: int = 11
) -> list[figure.Mark]:
    """Return the labels of points on two columns, as far as they have room."""
    across, up = columns
    by_place: dict[tuple[int, int, str, str], list[dict[str, Any]]] = {}
    for point, place in placed(points, x, y, width):
        if point.label:
            by_place.setdefault(place, []).append({across: point.x, up: point.y, "text": point.label})
    return [
        figure.words(rows, x=across, y=up, align=align, baseline=baseline, fontSize=size, dx=4 * right, dy=4 * down)
        for (right, down, align, baseline), rows in by_place.items()
    ]


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


def plan_chart(answer: PlanAnswer, room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification of the trade, limits, and where time and memory of the best plans go."""
    title = plan_sentences.title(answer)
    if not answer.plans:
        return figure.specification(figure.message(plan_sentences.searched(answer)), title, room=room)
    limits = _promised(answer) or answer.limits
    panels = [*_trade(answer, limits, room), *_limits(answer, limits, room), _stacks(answer, room)]
    return figure.specification(figure.Group(parts=panels, spacing=30), title, _lines(answer), room)


def _lines(answer: PlanAnswer) -> list[str]:
    """What the picture shows, and what it rests on."""
    first = answer.plans[0].profile
    evidence = first.evidence.get("framework") if isinstance(first.evidence, Mapping) else None
    lines = [*plan_sentences.subtitle(answer), plan_sentences.searched(answer)]
    if any(one.profile.interval for one in answer.plans):
        said = f"; evidence for {summary.CONSTANTS_OF[first.task.name]}: {evidence}" if evidence else ""
        lines.append(f"Thin lines are 80 % intervals{said}.")
    if any(overlapped_s(one.profile.rows) > 0 for one in answer.plans[:_MOST]):
        lines.append("Red strips below the bars are overlapped communication.")
    return [*lines, *plan_sentences.standing(answer), *summary.anchor_sentences([one.profile for one in answer.plans])]


def _stacks(answer: PlanAnswer, room: Room) -> figure.Group:
    """Time by phase and memory by part of the best plans."""
    named = [(row_of(answer, one, room), one.profile) for one in answer.plans[:_MOST]]
    whole = answer.plans[0].profile
    title = whole.task.metrics[whole.task.whole.partition(".")[0]].label.capitalize()
    if not room.side_by_side:
        room = replace(room, panel=room.panel + room.labels - _SHORT_ROW, labels=_SHORT_ROW)
    return figure.beside(stacks.times(named, title, room), stacks.memory(named, room), room=room)


def row_of(answer: PlanAnswer, plan: RankedPlan, room: Room = SCREEN) -> str:
    """Return the name of a plan's row: its rank, and where there is room what it alone does."""
    return plan_columns.name_of(answer, plan) if room.side_by_side else f"plan {plan.rank}"


def _trade(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[figure.Panel | figure.Group]:
    """The Pareto front if one was asked for, or the curve over numbers of devices if these vary."""
    if answer.pareto and plan_columns.front_axes(answer):
        yield _front(answer, limits, room)
    scales = _scales(answer)
    lines = {scale.line for scale in scales}
    if any(sum(s.line == line for s in scales) >= LEAST_POINTS for line in lines):
        yield scaling_panels(scales, room)


def _front(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> figure.Panel:
    """The panel of the front: all points, the front's line, intervals of the labelled ones, what is asked for."""
    keys = list(plan_columns.front_axes(answer))
    (x, y), (across, up) = (_axis(answer, keys[0], room.ticks), _axis(answer, keys[1], 6)), keys
    rows = [
        row
        for position, plan in enumerate(answer.plans)
        if (row := _point(answer, plan, keys, is_best=position in answer.pareto))
    ]
    rows.sort(key=lambda row: (row["kind"] == CHOSEN, row["is_best"]))
    best = [row for row in rows if row["kind"] != OTHER]
    kinds = [kind for kind in _COLORS if any(row["kind"] == kind for row in rows)]
    legend = {"direction": "horizontal", "symbolType": "circle"}
    color, shape = (
        figure.Series(column="kind", looks={kind: looks[kind] for kind in kinds}, legend=legend)
        for looks in (_COLORS, _SHAPES)
    )
    size = {"condition": {"test": f"datum.kind === '{CHOSEN}'", "value": 130}, "value": 48}
    tooltip = [("about", "", "plan"), (across, ".4~g", x.title), (up, ".4~g", y.title)]
    line = sorted((row for row in rows if row["is_best"]), key=lambda row: row[across])
    order = {"field": across, "type": "quantitative"}
    thin = {"strokeWidth": 1, "opacity": 0.35}
    spans = {key: [row for row in best if f"{key}.low" in row] for key in keys}
    asked, about = _region(keys, limits, x, y)
    width = room.panel + (0 if room.side_by_side else room.labels - 20)
    points = [
        Point(x=row[across], y=row[up], label=row["plan"], is_first=row["kind"] != OTHER) for row in reversed(rows)
    ]
    marks = [
        *asked,
        figure.mark("point", _behind(answer, keys), x=across, y=up, size=16, color=_COLORS[OTHER], opacity=0.5),
        figure.mark("line", line, x=across, y=up, order=order, strokeWidth=1.5, color=_COLORS[FRONT], opacity=0.6),
        figure.interval(spans[across], y=up, x=f"{across}.low", x2=f"{across}.high", **thin),
        figure.interval(spans[up], x=across, y=f"{up}.low", y2=f"{up}.high", **thin),
        figure.mark(
            "point", rows, x=across, y=up, filled=True, opacity=1, color=color, shape=shape, size=size, tooltip=tooltip
        ),
        *point_labels(points, x, y, width, (across, up)),
    ]
    title = " and ".join(plan_columns.name(key) for key in keys)
    return figure.Panel(
        title=f"Pareto front: {title}",
        subtitle=f"shaded: {about}" if about else "",
        heading={"frame": "bounds"},
        x=x,
        y=y,
        marks=[one for one in marks if one.rows],
        width=width,
        height=_HEIGHT,
    )


_FAR, _MOST_BEHIND = 1.25, 300
"""How many times a front's figures those of plans behind it may be, and how many of these are drawn."""


def _behind(answer: PlanAnswer, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Plans that are not on the front, near enough to be seen with it."""
    if not answer.sampled:
        return []
    shown = [[v for one in answer.plans if (v := plan_columns.value(one, key)) is not None] for key in keys]
    rows = [[value * own[0] for value, own in zip(figures, shown, strict=True)] for figures in answer.sampled]
    near = [
        row for row in rows if all(min(own) / _FAR <= x <= _FAR * max(own) for x, own in zip(row, shown, strict=True))
    ]
    return [dict(zip(keys, row, strict=True)) for row in near[:: len(near) // _MOST_BEHIND + 1]]


def front_chart(answer: PlanAnswer, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the Pareto front alone, with what was asked for; None where no front was asked for."""
    if not answer.plans or not answer.pareto or not plan_columns.front_axes(answer):
        return None
    has = "thin line" if any(one.profile.interval for one in answer.plans) else ""
    lines = [plan_sentences.searched(answer), basis([one.profile.evidence for one in answer.plans], has)]
    panel = _front(answer, _promised(answer) or answer.limits, room)
    return figure.specification(panel, plan_sentences.title(answer), lines, room)


def _axis(answer: PlanAnswer, key: str, ticks: int) -> figure.Axis:
    values = [value for one in answer.plans if (value := plan_columns.value(one, key)) is not None]
    shown = [one for position, one in enumerate(answer.plans) if position in answer.pareto or one.rank == 1]
    values += [end for one in shown for end in interval_of(one, key) or ()]
    values += [row[key] for row in _behind(answer, plan_columns.front_axes(answer))]
    better = "more" if metric_of(key).better == "higher" else "less"
    return figure.axis(figure.quantity(key, plan_columns.name(key)), values, count=ticks, better=better)


def _point(answer: PlanAnswer, plan: RankedPlan, keys: Sequence[str], *, is_best: bool) -> dict[str, Any] | None:
    """A plan by two of its figures with their intervals; None where one is not known."""
    figures = {key: value for key in keys if (value := plan_columns.value(plan, key)) is not None}
    if len(figures) < len(keys):
        return None
    kind = CHOSEN if plan.rank == 1 else FRONT if is_best else OTHER
    ends = {key: interval_of(plan, key) for key in keys}
    known = {
        f"{key}.{name}": end
        for key, both in ends.items()
        for name, end in zip(("low", "high"), both or (), strict=False)
    }
    about = {"plan": str(plan.rank), "about": row_of(answer, plan), "kind": kind, "is_best": is_best}
    return {**about, **figures, **known}


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


def _region(
    keys: Sequence[str], limits: Mapping[str, float], x: figure.Axis, y: figure.Axis
) -> tuple[list[figure.Mark], str]:
    """A shaded area of what was allowed of the figures on the axes, with its words; nothing where there is no limit.

    A time per token is the reciprocal of a user's rate.
    """
    most = {key: limits[key] for key in keys if key in limits}
    label = [f"at most a {plan_columns.name(key)} of {plan_columns.shown(key, limit)}" for key, limit in most.items()]
    rate = 1 / limits["tpot_s"] if "tpot_s" in limits and keys[0] == plan_columns.SERVING_AXES[0] else None
    if rate is not None:
        label.append(f"at least {plan_columns.shown(keys[0], rate)} {plan_columns.name(keys[0])}")
    if not label:
        return [], ""
    box = {
        "left": x.within(rate or float("-inf")),
        "right": x.within(most.get(keys[0], float("inf"))),
        "bottom": y.within(float("-inf")),
        "top": y.within(most.get(keys[1], float("inf"))),
    }
    area = figure.mark("rect", [box], x="left", x2="right", y="bottom", y2="top", color="#179e5f", opacity=0.13)
    return [area], " and ".join(label)


def _promised(answer: PlanAnswer) -> dict[str, float]:
    """The limits of a load's objective by the result key of the percentile that has to keep them."""
    slo = getattr(answer.plans[0].profile.scenario.workload, "slo", None)
    if slo is None:
        return {}
    return {plan_columns.at_percentile(key, slo.percentile): limit for key, limit in slo.limits.items()}


def _limits(answer: PlanAnswer, limits: Mapping[str, float], room: Room) -> Iterator[figure.Panel | figure.Group]:
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
