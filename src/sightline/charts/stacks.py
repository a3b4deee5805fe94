"""Stacked bars of parts of a whole: time by phase, memory against what may be filled, a row each or pulled apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import altair as alt

from sightline.answers import summary, units
from sightline.charts import drawing
from sightline.charts.axes import Axis, axis
from sightline.charts.drawing import SCREEN, Room
from sightline.profile import COMMUNICATION, Profile, overlapped_s

Bars = list[dict[str, Any]]
"""Values of bars, or of the texts behind them: the row they are in, where they start and end."""
Named = Sequence[tuple[str, Profile]]

GIB = drawing.in_si("bytes", 2**30, "start", "end", "low", "high", "usable")
"""Of bars of memory."""

OVERLAPPED = "overlapped communication"
_ROOM_ONE_TIME, _ROOM_MORE = 1.62, 2.3
"""Width for a bar and the text behind it over that of the longest bar, by how many times the text says."""
_STRIP = 4
"""Height of the strip of what is overlapped, below its bar."""


def stacked(parts: Iterable[summary.Part], divisor: float, row: str = "") -> Bars:
    """Return a bar per part that begins where the one before ended, in one ``row`` or each in its own."""
    found = list(parts)
    edges = [0.0, *accumulate(part.value / divisor for part in found)]
    return [
        {"row": row or part.label, "part": part.label, "start": start, "end": end}
        for part, start, end in zip(found, edges, edges[1:], strict=False)
    ]


def waterfall(
    parts: Sequence[tuple[summary.Part, str]], divisor: float, whole: str, text: str, room: Room = SCREEN
) -> tuple[Bars, Bars]:
    """Return the bars of a whole in one row and of its parts below it, pulled apart; and the texts behind them."""
    bars = [{**bar, "row": room.row(bar["row"])} for bar in stacked((part for part, _ in parts), divisor)]
    end = bars[-1]["end"] if bars else 0.0
    said = [f"{value} · {units.percent(part.share)}" if room.side_by_side else value for part, value in parts]
    texts = [{**bar, "text": value} for bar, value in zip(bars, said, strict=True)]
    together = stacked((part for part, _ in parts), divisor, whole)
    return [*together, *bars], [{"row": whole, "end": end, "text": text}, *texts]


def overlapped(profile: Profile, divisor: float, row: str) -> dict[str, Any] | None:
    """Return the bar of communication behind compute: it ends where the exposed part begins. None without any."""
    hidden = overlapped_s(profile.rows)
    if hidden <= 0:
        return None
    before = [part.value for part in summary.phases(profile)]
    keys = [part.key for part in summary.phases(profile)]
    at = next((i for i, key in enumerate(keys) if key in COMMUNICATION), len(keys))
    end = sum(before[:at])
    return {"row": row, "part": OVERLAPPED, "start": max(end - hidden, 0.0) / divisor, "end": end / divisor}


def times(chosen: Named, title: str, room: Room = SCREEN, *, wide: bool = False) -> Any:
    """Return a stacked bar of time by phase per profile, with its interval, its times and its rate behind it."""
    chosen = [(room.row(label), p) for label, p in chosen]
    divisor, unit = units.time_unit(max(float(p.whole_s) for _, p in chosen))
    ends = {label: ends_of(p, p.task.whole, float(p.whole_s), divisor) for label, p in chosen}
    longest = max(high for _, high in ends.values())
    bars = [bar for label, p in chosen for bar in stacked(summary.phases(p), divisor, label)]
    texts = [{"row": label, "end": ends[label][1], "text": _figures(p, room)} for label, p in chosen]
    space = _ROOM_MORE if len(chosen[0][1].task.times) > 1 else _ROOM_ONE_TIME
    scaled, colors, heading = seconds_in(divisor), drawing.PHASE_COLORS, f"{title} ({unit})"
    panel = _one_of_two(bars, texts, colors, heading, longest * space, room, scaled=scaled, wide=wide)
    strips = [strip for label, p in chosen if (strip := overlapped(p, divisor, label)) is not None]
    layers = [panel, *([_strips(strips, list(ends), scaled)] if strips else []), whiskers(ends, scaled)]
    return alt.layer(*layers)


def memory(chosen: Named, room: Room = SCREEN, *, named: bool = False, wide: bool = False) -> Any:
    """Return a stacked bar of memory by part per profile, with a tick at what may be filled."""
    chosen = [(room.row(label), p) for label, p in chosen]
    bars = [bar for label, p in chosen for bar in stacked(summary.memory(p), 2**30, label)]
    ends = {label: ends_of(p, "memory_bytes.total", float(p.memory_bytes["total"]), 2**30) for label, p in chosen}
    texts: Bars = []
    for label, p in chosen:
        total, there = float(p.memory_bytes["total"]), float(p.usable_bytes)
        verdict = units.gib(total) if p.fits else f"{units.gib(total)}, does not fit"
        end = max(ends[label][1], there / 2**30)
        texts.append({"row": label, "end": end, "text": verdict, "usable": there / 2**30})
    reach = max(text["end"] for text in texts) * 1.5
    title = "Memory of the fullest device (GiB)"
    named = named or not room.side_by_side
    panel = _one_of_two(bars, texts, drawing.MEMORY_COLORS, title, reach, room, scaled=GIB, named=named, wide=wide)
    limits = [{"row": text["row"], "usable": text.pop("usable")} for text in texts]
    tick = drawing.of(limits, GIB).mark_tick(thickness=2, size=drawing.ROW_HEIGHT, color=drawing.WARNING)
    capacity = tick.encode(x=alt.X("usable:Q"), y=alt.Y("row:N", sort=list(ends)))
    return alt.layer(panel, capacity, whiskers(ends, GIB))


def panel(
    bars: Bars,
    texts: Bars,
    colors: Mapping[str, str],
    title: str,
    *,
    reach: float,
    axis: str | None,
    room: Room,
    scaled: drawing.Units,
    legend: Any = None,
) -> Any:
    """Return one of several panels below each other: labels of one width, so that the panels line up."""
    names = alt.Axis(grid=False, minExtent=room.labels, maxExtent=room.labels, **names_of(room))
    return _panel(
        bars,
        texts,
        colors,
        title,
        scaled=scaled,
        reach=reach,
        axis=axis,
        names=names,
        legend=legend,
        width=room.panel,
        ticks=room.ticks,
    )


def names_of(room: Room) -> dict[str, Any]:
    """Return how names of rows are written: on two lines where there is little room."""
    if room.side_by_side:
        return {"labelLimit": room.labels}
    raised = {"condition": {"test": "indexof(datum.label, '\\n') >= 0", "value": -5}, "value": 0}
    return {"labelLimit": room.labels, "labelFontSize": 10, "labelLineHeight": 11, "labelOffset": raised}


def _one_of_two(
    bars: Bars,
    texts: Bars,
    colors: Mapping[str, str],
    title: str,
    reach: float,
    room: Room,
    *,
    scaled: drawing.Units,
    named: bool = True,
    wide: bool = False,
) -> Any:
    """One of two panels next to each other, of which one has the rows' names; below each other, both have."""
    columns = 3 if room.side_by_side else 2
    legend = alt.Legend(title=None, orient="bottom", columns=columns, offset=8)
    limits = {} if room.side_by_side else names_of(room)
    names = alt.Axis(grid=False, labels=named, **limits)
    width = room.panel * 0.59 if room.side_by_side and not wide else room.panel
    return _panel(
        bars,
        texts,
        colors,
        title,
        scaled=scaled,
        reach=reach,
        names=names,
        legend=legend,
        width=width,
        ticks=room.ticks,
    )


def _panel(
    bars: Bars,
    texts: Bars,
    colors: Mapping[str, str],
    title: str,
    *,
    reach: float,
    names: Any,
    legend: Any,
    ticks: int,
    scaled: drawing.Units,
    width: float,
    axis: str | None = None,
) -> Any:
    """Bars with a text behind each row, one row per text."""
    rows = [text["row"] for text in texts]
    used = {bar["part"] for bar in bars}
    named = {summary.LABELS.get(key, key): color for key, color in colors.items()}
    shown = drawing.palette({part: color for part, color in named.items() if part in used})
    color = alt.Color("part:N", scale=shown, legend=legend)
    scale = alt.Scale(domain=[0, reach], nice=False)
    x = alt.X("start:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=ticks, labelFlush=False))
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=alt.Scale(paddingInner=0.25))
    tooltip = [alt.Tooltip("row:N"), alt.Tooltip("part:N")]
    drawn = drawing.of(bars, scaled).mark_bar().encode(x=x, x2=alt.X2("end:Q"), y=y, color=color, tooltip=tooltip)
    text = drawing.of(texts, scaled).mark_text(align="left", dx=5, fontSize=11, color=drawing.INK)
    said = text.encode(x=alt.X("end:Q"), y=y, text=alt.Text("text:N"))
    # Given here, Altair does not hold each against its whole schema.
    height, head = drawing.ROW_HEIGHT * len(rows), drawing.heading(title, frame="bounds")
    return alt.layer(drawn, said, width=width, height=height, title=head)


def _strips(strips: Bars, order: list[str], scaled: drawing.Units) -> Any:
    """Strips of overlapped communication at the lower edge of the bars."""
    color = drawing.PHASE_COLORS["communication_exposed"]
    mark = drawing.of(strips, scaled).mark_bar(height=_STRIP, color=color, yOffset=drawing.ROW_HEIGHT * 0.75 / 2 + 1)
    tooltip = [alt.Tooltip("row:N"), alt.Tooltip("part:N")]
    return mark.encode(x=alt.X("start:Q"), x2=alt.X2("end:Q"), y=alt.Y("row:N", sort=order), tooltip=tooltip)


def seconds_in(divisor: float) -> drawing.Units:
    """Return the units of bars of times and of their intervals, which are drawn over ``divisor``."""
    return drawing.in_si("s", divisor, "start", "end", "low", "high")


def whiskers(ends: Mapping[str, tuple[float, float]], scaled: drawing.Units) -> Any:
    """Return thin lines of intervals, by row."""
    spans: Bars = [{"row": label, "low": low, "high": high} for label, (low, high) in ends.items() if low < high]
    lines = drawing.of(spans, scaled).mark_rule(strokeWidth=1.5)
    return lines.encode(
        x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=alt.Y("row:N", sort=list(ends)), color=alt.ColorValue(drawing.INK)
    )


def ends_of(profile: Profile, key: str, value: float, divisor: float) -> tuple[float, float]:
    """Return the ends of the 80 % interval of a figure over ``divisor``; its ``value`` twice where one is unknown."""
    low, high = profile.interval.get(key) or (value, value)
    return (value / divisor, value / divisor) if high is None else (float(low) / divisor, float(high) / divisor)


def _figures(profile: Profile, room: Room) -> str:
    """The text behind a bar: the step time, or a batch's other times, and where there is room the rate."""
    task = profile.task
    others = [key for key in task.times if key != task.whole]
    said = [f"{task.figures[key].label} {summary.figure(profile, key)}" for key in others]
    rate = f"{summary.figure(profile, task.rates[0])} tokens/s"
    if not room.side_by_side:
        return units.seconds(float(profile.whole_s))
    return " · ".join([*(said or [units.seconds(float(profile.whole_s))]), rate])


WITHIN, BEYOND = "within the limit", "beyond the limit"
_TEXT = 60
"""Pixels of the text behind a bar."""
_COLORS = {WITHIN: "#5cbcf0", BEYOND: "#d4570c"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a plan takes, in SI units."""

    row: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


def limit_panel(key: str, label: str, bars: Sequence[Bar], limit: float, said: str, room: Room = SCREEN) -> Any:
    """Return the panel of one result key: a bar per plan with its interval, and the limit as a line that says so."""
    values = [limit, *(bar.value for bar in bars), *(end for bar in bars for end in bar.interval or ())]
    shown = axis(key, label, [0.0, *values], log=False)
    reach = max(values) / shown.divisor * room.with_text
    rows = [room.row(bar.row) for bar in bars]
    x = alt.X("value:Q", title=None, scale=alt.Scale(domain=[0, reach], nice=False), axis=shown.ticks(room.ticks))
    names = alt.Axis(grid=False, **({} if room.side_by_side else names_of(room)))
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=alt.Scale(paddingInner=0.25))
    colors = drawing.palette(_COLORS)
    scaled = {name: (f"{key}.{name}", shown.divisor) for name in ("value", "low", "high", "end")}
    there = [_row(bar, row, shown, limit, reach / room.panel) for bar, row in zip(bars, rows, strict=True)]
    drawn = drawing.of(there, scaled).mark_bar().encode(x=x, y=y, color=alt.Color("kind:N", scale=colors, legend=None))
    spans = drawing.of([row for row in there if row["low"] < row["high"]], scaled).mark_rule(
        strokeWidth=1.5, color=drawing.INK
    )
    text = drawing.of(there, scaled).mark_text(align="left", dx=5, fontSize=11, color=drawing.INK)
    layers = [
        drawn,
        spans.encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"), y=y),
        text.encode(x=alt.X("end:Q"), y=y, text=alt.Text("text:N")),
    ]
    heading = drawing.heading(shown.title, frame="bounds")
    panel = alt.layer(*layers, *_limit(limit / shown.divisor, said))
    return panel.properties(width=room.panel, height=drawing.ROW_HEIGHT * len(bars), title=heading)


def _row(bar: Bar, row: str, shown: Axis, limit: float, pixel: float) -> dict[str, Any]:
    """A bar with its text, which stands behind the limit where it would run into it; ``pixel`` is the width of one."""
    low, high = (end / shown.divisor for end in bar.interval or (bar.value, bar.value))
    value = bar.value / shown.divisor
    end = clear_of(limit / shown.divisor, max(value, high), _TEXT * pixel)
    kind = WITHIN if bar.value <= limit else BEYOND
    return {"row": row, "value": value, "low": low, "high": high, "end": end, "text": bar.text, "kind": kind}


def clear_of(line: float, end: float, width: float) -> float:
    """Return where the text behind a bar begins so that no ``line`` runs through it: at the bar's end, or behind it."""
    return line if end <= line < end + width else end


def _limit(limit: float, said: str) -> list[Any]:
    """The line of the limit with its words above it."""
    mark = drawing.of([{"x": limit, "text": said}])
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=drawing.WARNING).encode(x=alt.X("x:Q"))
    words = mark.mark_text(align="center", baseline="bottom", color=drawing.WARNING, fontSize=11)
    return [rule, words.encode(x=alt.X("x:Q"), y=alt.value(-4), text=alt.Text("text:N"))]
