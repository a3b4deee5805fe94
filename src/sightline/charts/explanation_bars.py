"""Bars of what explains a time: its limits and modules, and both sides of a comparison with their ratios."""

from collections.abc import Sequence
from typing import Any

from sightline.answers import comparison as texts_of
from sightline.answers import units
from sightline.answers.analyses import interval_of, whole_name
from sightline.charts import figure, stacks
from sightline.charts.drawing import FAINT, INK, LIMIT_COLORS, PAIR, ROW_HEIGHT, SCREEN, Room
from sightline.content import grouped, sums
from sightline.explanation.answer import Explanation
from sightline.explanation.compared import UNKNOWN
from sightline.explanation.comparison import NO_DIFFERENCE, Comparison, Difference
from sightline.profile import IDLE_PHASES

_MOST_MODULES = 8
_ROOM = 1.35
"""Width of a panel over its longest bar: the text behind it needs the rest."""
_MOST_ROWS = 14
_DRAWN = ("step", "request", "phase", "module", "operator", "memory")
_SIDES = ("A", "B")
_FURTHEST = 4.0
"""Larger ratios are drawn at the edge."""
_COARSE, _FINE = (0.25, 0.5, 0.7, 1, 1.4, 2, 4), (0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2)
"""Marks of the axis of ratios."""


def explained_chart(explanation: Explanation, room: Room = SCREEN) -> dict[str, Any]:
    """Return the chart of an explanation: limits with their distance, and time by module stacked by limit."""
    whole = whole_name(explanation)
    panels = [_limits(explanation, whole, room)]
    if any(row.module and float(row.exposed_s) > 0 for row in explanation.rows):
        panels.append(_modules(explanation, whole, room))
    what = f"{explanation.source} {whole} {units.seconds(explanation.whole_s)}"
    lines = [", ".join(filter(None, (what, interval_of(explanation))))]
    if any(one.alone_s is not None for one in explanation.limits):
        lines.append("tick: time if nothing else limited it")
    return figure.specification(figure.Group(parts=panels), explanation.title, lines, room)


def _limits(explanation: Explanation, whole: str, room: Room) -> figure.Panel:
    """A bar for each limit, with a tick at what it would take alone."""
    bars: stacks.Bars = []
    texts: stacks.Bars = []
    for limit in explanation.limits:
        alone = {} if limit.alone_s is None else {"alone_s": limit.alone_s}
        bars.append({"row": limit.limit, "part": limit.limit, "start_s": 0.0, "end_s": limit.time_s, **alone})
        share = f" · {units.percent(limit.share)}" if room.side_by_side else ""
        end = max(limit.time_s, limit.alone_s or 0.0)
        texts.append({"row": limit.limit, "end_s": end, "text": units.seconds(limit.time_s) + share})
    known = [bar for bar in bars if "alone_s" in bar]
    tick = figure.mark("tick", known, x="alone_s", y="row", thickness=3, opacity=1, size=ROW_HEIGHT, color=INK)
    return _bars(bars, texts, f"What limits the {whole}", room, more=[tick] if known else [])


def _modules(explanation: Explanation, whole: str, room: Room) -> figure.Panel:
    """The longest modules, each split by limit."""
    busy = (row for row in explanation.rows if row.module and row.phase not in IDLE_PHASES and row.exposed_s > 0)
    rows = grouped((row.module, (row.bound, float(row.exposed_s))) for row in busy)
    by = {module: sums(of) for module, of in rows.items()}
    bars: stacks.Bars = []
    texts: stacks.Bars = []
    for module, cell in sorted(by.items(), key=lambda item: -sum(item[1].values()))[:_MOST_MODULES]:
        end = 0.0
        for limit in (name for name in LIMIT_COLORS if name in cell):
            bars.append({"row": module, "part": limit, "start_s": end, "end_s": end + cell[limit]})
            end += cell[limit]
        texts.append({"row": module, "end_s": end, "text": units.seconds(end)})
    legend = {"columns": 5 if room.side_by_side else 3}
    return _bars(bars, texts, f"Time by module and limit ({whole}, ", room, legend=legend)


def _bars(bars: stacks.Bars, texts: stacks.Bars, title: str, room: Room, **looks: Any) -> figure.Panel:
    longest = max((text["end_s"] for text in texts), default=1.0)
    divisor, unit = units.time_unit(longest)
    named = f"{title}{unit})" if title.endswith(", ") else f"{title} ({unit})"
    reach = longest * _ROOM or divisor
    return stacks.panel(bars, texts, LIMIT_COLORS, named, reach=reach, unit="s", divisor=divisor, room=room, **looks)


def comparison_bars(comparison: Comparison, room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification: a pair of panels per level; of very many rows the longest are drawn."""
    levels = {level: rows for level in _DRAWN if (rows := _longest(comparison, level))}
    sides = zip(_SIDES, (comparison.a, comparison.b), strict=True)
    ratios = [row.ratio for rows in levels.values() for row in rows if row.ratio]
    is_cut = room.side_by_side and any(not 1 / _FURTHEST <= ratio <= _FURTHEST for ratio in ratios)
    lines = [
        *(f"{letter}: {texts_of.side_line(side)}" for letter, side in sides),
        comparison.about,
        f"Ratios beyond {_FURTHEST:g} are drawn at the edge." if is_cut else "",
        texts_of.footnote(comparison),
    ]
    titles = list(dict.fromkeys(filter(None, (comparison.a.title, comparison.b.title))))
    title = titles[0] if len(titles) == 1 else f"{comparison.a.name} vs {comparison.b.name}"
    panels = [_level(level, rows, room) for level, rows in levels.items()]
    return figure.specification(figure.Group(parts=panels, spacing=24, apart=()), title, lines, room)


def _longest(comparison: Comparison, level: str) -> list[Difference]:
    """The level's rows in order, the longest of very many; of the key figures only times, which share an axis."""
    rows = [row for row in comparison.rows if row.level == level]
    if level == "step":
        rows = [row for row in rows if texts_of.is_time(row)]
    chosen = sorted(rows, key=lambda row: -_larger(row))[:_MOST_ROWS]
    return [row for row in rows if row in chosen]


def _larger(row: Difference) -> float:
    return max(row.a or 0.0, row.b or 0.0)


def _level(level: str, rows: Sequence[Difference], room: Room) -> figure.Panel | figure.Group:
    """The bars of both sides, and where there is room their ratios next to them."""
    divisor, unit = (stacks.GIB, "GiB") if level == "memory" else units.time_unit(max(map(_larger, rows)))
    column = "value_bytes" if level == "memory" else "value_s"
    # Where there is little room, the last part of a name has a line of its own.
    titles = [texts_of.label(row) for row in rows]
    order = titles if room.side_by_side else [":\n".join(title.rsplit(": ", 1)) for title in titles]
    bars: stacks.Bars = [
        {"level": level, "row": name, "side": side, column: value, "text": _text(row, value, side, room)}
        for name, row in zip(order, rows, strict=True)
        for side, value in zip(_SIDES, (row.a, row.b), strict=True)
        if value is not None
    ]
    extent = 240 if room.side_by_side else 138
    offset = {"field": "side", "type": "nominal", "sort": list(_SIDES)}
    looks: dict[str, Any] = {"x": column, "y": "row", "yOffset": offset}
    legend = {"orient": "top", "direction": "horizontal", "symbolOpacity": 1}
    color = figure.Series(column="side", looks=dict(zip(_SIDES, PAIR, strict=True)), legend=legend)
    reach = max(bar[column] for bar in bars) * (1.3 if room.side_by_side else 1.75)
    extents = {"minExtent": extent, "maxExtent": extent, "labelLimit": extent}
    panel = figure.Panel(
        title=f"{texts_of.LEVEL_TITLES[level]} ({unit})",
        x=figure.linear(None, 0, reach, divisor, tickCount=4),
        y=stacks.row_names(order, room, **extents, scale={}),
        marks=[
            figure.mark("bar", bars, opacity=1, color=color, **looks),
            figure.words(bars, dx=4, fontSize=10, **looks),
        ],
        width=360 if room.side_by_side else room.panel + room.labels - 142,
        height=26 * len(rows),
    )
    if not room.side_by_side:
        return panel
    return figure.Group(parts=[panel, _ratios(rows)], columns=0, spacing=18, apart=())


def _text(row: Difference, value: float, side: str, room: Room) -> str:
    """The figure of a side; B has the ratio too where that has no panel."""
    text = texts_of.value(row, value)
    return f"{text}, × {units.digits(row.ratio)}" if side == "B" and row.ratio and not room.side_by_side else text


def _ratios(rows: Sequence[Difference]) -> figure.Panel:
    """A dot per ratio on a logarithmic axis around 1, its interval as a line; filled in where there is a difference."""
    values: stacks.Bars = []
    for row in rows:
        if row.ratio:
            low, high = row.interval or (row.ratio, row.ratio)
            color = FAINT if row.verdict in (NO_DIFFERENCE, UNKNOWN) else INK
            at = {"level": row.level, "row": texts_of.label(row), "color": color, "text": units.digits(row.ratio)}
            values.append({**at, "ratio": row.ratio, "ratio.low": low, "ratio.high": high})
    furthest = max((max(row["ratio.high"], 1 / row["ratio.low"]) for row in values), default=1.0) * 1.1
    end = max(min(furthest, _FURTHEST), 1.2)
    ticks = [tick for tick in (_COARSE if end > _FURTHEST / 2 else _FINE) if 1 / end <= tick <= end]
    shade = {"field": "color", "type": "nominal", "scale": None}
    order = [texts_of.label(row) for row in rows]
    return figure.Panel(
        x=figure.logarithmic("B / A", 1 / end, end, values=ticks, labelOverlap=False).clamped(),
        y=figure.names(order, labels=False, scale={"domain": order}),
        marks=[
            figure.mark("rule", [{"ratio": 1}], x="ratio", color=FAINT, strokeDash=[4, 4]),
            figure.interval(
                values, x="ratio.low", x2="ratio.high", y="row", strokeWidth=2.5, opacity=0.55, color=shade
            ),
            figure.mark("circle", values, x="ratio", y="row", size=46, opacity=1, color=shade),
            figure.words(values, x="ratio", y="row", dx=8, dy=-8, fontSize=10),
        ],
        width=230,
        height=26 * len(rows),
    )
