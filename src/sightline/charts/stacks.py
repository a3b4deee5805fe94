"""Bars in rows: parts of a whole one after the other, and amounts against a limit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sightline.answers import summary, units
from sightline.charts import figure
from sightline.charts.drawing import MEMORY_COLORS, PAIR, PHASE_COLORS, ROW_HEIGHT, SCREEN, WARNING, Room
from sightline.profile import COMMUNICATION, Profile, overlapped_s

Bars = list[dict[str, Any]]
"""Bars, or the texts behind them: the row they are in, where they start and end, in seconds or bytes."""
Ends = tuple[float, float]
Named = Sequence[tuple[str, Profile]]

OVERLAPPED = "overlapped communication"
WITHIN, BEYOND = "within the limit", "beyond the limit"
GIB = float(2**30)
_ROOM_ONE_TIME, _ROOM_MORE = 1.62, 2.3
"""Width for a bar and the text behind it over that of the longest bar, by how many times the text says."""
_TEXT = 60
"""Pixels of the text behind a bar against a limit."""


def stacked(parts: Iterable[summary.Part], unit: str, row: str = "") -> Bars:
    """Return a bar per part that begins where the one before ended, in one ``row`` or each in its own."""
    shown = list(parts)
    edges = [0.0, *accumulate(part.value for part in shown)]
    return [
        {"row": row or part.label, "part": part.label, f"start_{unit}": start, f"end_{unit}": end}
        for part, start, end in zip(shown, edges, edges[1:], strict=False)
    ]


def waterfall(
    parts: Sequence[tuple[summary.Part, str]], unit: str, whole: str, text: str, room: Room = SCREEN
) -> tuple[Bars, Bars]:
    """Return the bars of a whole in one row and of its parts below it, pulled apart; and the texts behind them."""
    bars = [{**bar, "row": room.row(bar["row"])} for bar in stacked((part for part, _ in parts), unit)]
    end = bars[-1][f"end_{unit}"] if bars else 0.0
    shown = [f"{value} · {units.percent(part.share)}" if room.side_by_side else value for part, value in parts]
    texts = [{**bar, "text": value} for bar, value in zip(bars, shown, strict=True)]
    together = stacked((part for part, _ in parts), unit, whole)
    return [*together, *bars], [{"row": whole, f"end_{unit}": end, "text": text}, *texts]


def overlapped(profile: Profile, row: str) -> dict[str, Any] | None:
    """Return the bar of communication behind compute: it ends where the exposed part begins. None without any."""
    hidden = overlapped_s(profile.rows)
    if hidden <= 0:
        return None
    phases = summary.phases(profile)
    at = next((i for i, part in enumerate(phases) if part.key in COMMUNICATION), len(phases))
    end = sum(part.value for part in phases[:at])
    return {"row": row, "part": OVERLAPPED, "start_s": max(end - hidden, 0.0), "end_s": end}


def ends_of(profile: Profile, key: str, value: float) -> Ends:
    """Return the ends of the 80 % interval of a figure; its ``value`` twice where one is unknown."""
    low, high = profile.interval.get(key) or (value, value)
    return (value, value) if high is None else (float(low), float(high))


def row_names(order: Sequence[str], room: Room, **looks: Any) -> figure.Axis:
    """Return the names of rows: on two lines where there is little room."""
    small = {} if room.side_by_side else {"labelFontSize": 10}
    return figure.names(order, line=11, **{"labelLimit": room.labels, **small, **looks})


def panel(
    bars: Bars,
    texts: Bars,
    colors: Mapping[str, str],
    title: str,
    *,
    reach: float,
    unit: str,
    divisor: float,
    room: Room,
    axis: str | None = None,
    legend: Mapping[str, Any] | None = None,
    more: Sequence[figure.Mark] = (),
    labels: figure.Axis | None = None,
    width: float | None = None,
) -> figure.Panel:
    """Return bars with a text behind each row, one row per text.

    Args:
        bars: Of parts.
        texts: Behind the bars, in the order of the rows.
        colors: Of the parts by their keys.
        title: Of the panel.
        reach: Where the axis ends, in SI units.
        unit: ``s`` or ``bytes``: the ending of the columns.
        divisor: Of the axis.
        room: How large it may be.
        axis: Title of the axis.
        legend: As Vega-Lite has it; None for none.
        more: Further marks.
        labels: The names of rows; by default of one width, so that panels below each other line up.
        width: By default all that the room has.
    """
    rows = [text["row"] for text in texts]
    used = {bar["part"] for bar in bars}
    named = {summary.LABELS.get(key, key): color for key, color in colors.items()}
    looks = {part: color for part, color in named.items() if part in used}
    color = figure.Series(column="part", looks=looks, legend=legend)
    start, end = f"start_{unit}", f"end_{unit}"
    return figure.Panel(
        title=title,
        heading={"frame": "bounds"},
        x=figure.linear(axis, 0, reach, divisor, tickCount=room.ticks, labelFlush=False),
        y=labels or row_names(rows, room, minExtent=room.labels, maxExtent=room.labels),
        marks=[
            figure.mark("bar", bars, x=start, x2=end, y="row", color=color, tooltip=["row", "part"]),
            figure.words(texts, x=end, y="row"),
            *more,
        ],
        width=width or room.panel,
        height=ROW_HEIGHT * len(rows),
    )


def whiskers(ends: Mapping[str, Ends], unit: str) -> list[figure.Mark]:
    """Return thin lines of the intervals that are known, by row."""
    low_column, high_column = f"low_{unit}", f"high_{unit}"
    spans = [{"row": row, low_column: low, high_column: high} for row, (low, high) in ends.items() if low < high]
    return [figure.interval(spans, x=low_column, x2=high_column, y="row")] if spans else []


def _half(order: Sequence[str], room: Room, *, named: bool, wide: bool) -> dict[str, Any]:
    """How one of two panels looks, of which one has the rows' names; below each other, both have."""
    width = room.panel * 0.59 if room.side_by_side and not wide else room.panel
    labels = figure.names(order, labels=named) if room.side_by_side else row_names(order, room, labels=named)
    return {"legend": {"columns": 3 if room.side_by_side else 2, "offset": 8}, "labels": labels, "width": width}


def times(chosen: Named, title: str, room: Room = SCREEN, *, wide: bool = False) -> figure.Panel:
    """Return a stacked bar of time by phase per profile, with its interval, its times and its rate behind it."""
    chosen = [(room.row(label), p) for label, p in chosen]
    divisor, unit = units.time_unit(max(float(p.whole_s) for _, p in chosen))
    ends = {label: ends_of(p, p.task.whole, float(p.whole_s)) for label, p in chosen}
    bars = [bar for label, p in chosen for bar in stacked(summary.phases(p), "s", label)]
    texts = [{"row": label, "end_s": ends[label][1], "text": _figures(p, room)} for label, p in chosen]
    space = _ROOM_MORE if len(chosen[0][1].task.times) > 1 else _ROOM_ONE_TIME
    strips = [strip for label, p in chosen if (strip := overlapped(p, label)) is not None]
    more = whiskers(ends, "s")
    if strips:
        looks = {"height": 4, "yOffset": ROW_HEIGHT * 0.75 / 2 + 1, "color": PHASE_COLORS["communication_exposed"]}
        more.insert(0, figure.mark("bar", strips, x="start_s", x2="end_s", y="row", tooltip=["row", "part"], **looks))
    return panel(
        *(bars, texts, PHASE_COLORS, f"{title} ({unit})"),
        reach=max(high for _, high in ends.values()) * space,
        unit="s",
        divisor=divisor,
        room=room,
        more=more,
        **_half([*ends], room, named=True, wide=wide),
    )


def memory(chosen: Named, room: Room = SCREEN, *, named: bool = False, wide: bool = False) -> figure.Panel:
    """Return a stacked bar of memory by part per profile, with a tick at what may be filled."""
    chosen = [(room.row(label), p) for label, p in chosen]
    bars = [bar for label, p in chosen for bar in stacked(summary.memory(p), "bytes", label)]
    ends = {label: ends_of(p, "memory_bytes.total", float(p.memory_bytes["total"])) for label, p in chosen}
    texts: Bars = []
    for label, p in chosen:
        total = units.gib(float(p.memory_bytes["total"]))
        end = max(ends[label][1], float(p.usable_bytes))
        texts.append({"row": label, "end_bytes": end, "text": total if p.fits else f"{total}, does not fit"})
    limits = [{"row": label, "usable_bytes": float(p.usable_bytes)} for label, p in chosen]
    tick = {"thickness": 2, "size": ROW_HEIGHT, "color": WARNING}
    return panel(
        *(bars, texts, MEMORY_COLORS, "Memory of the fullest device (GiB)"),
        reach=max(text["end_bytes"] for text in texts) * 1.5,
        unit="bytes",
        divisor=GIB,
        room=room,
        more=[figure.mark("tick", limits, x="usable_bytes", y="row", **tick), *whiskers(ends, "bytes")],
        **_half([*ends], room, named=named or not room.side_by_side, wide=wide),
    )


def _figures(profile: Profile, room: Room) -> str:
    """The text behind a bar: the step time, or a batch's other times, and where there is room the rate."""
    task, whole = profile.task, units.seconds(float(profile.whole_s))
    if not room.side_by_side:
        return whole
    others = [f"{task.figures[key].label} {summary.figure(profile, key)}" for key in task.times if key != task.whole]
    return " · ".join([*(others or [whole]), f"{summary.figure(profile, task.rates[0])} tokens/s"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What a plan takes, in SI units."""

    row: str
    value: float
    text: str
    interval: Ends | None = None


def limit_panel(
    key: str, label: str, bars: Sequence[Bar], limit: float, words_of_limit: str, room: Room
) -> figure.Panel:
    """Return the panel of one result key: a bar per plan with its interval, and the limit as a line that says so."""
    values = [limit, *(bar.value for bar in bars), *(end for bar in bars for end in bar.interval or ())]
    shown = figure.axis(figure.quantity(key, label), [0.0, *values], count=room.ticks, is_log=False)
    reach = max(values) * room.with_text
    low, high = f"{key}.low", f"{key}.high"
    rows: Bars = []
    for bar in bars:
        ends = bar.interval or (bar.value, bar.value)
        at = clear_of(limit, max(bar.value, ends[1]), _TEXT * reach / room.panel)
        kind = WITHIN if bar.value <= limit else BEYOND
        about = {"row": room.row(bar.row), key: bar.value, low: ends[0], high: ends[1]}
        rows.append({**about, "text_at": at, "text": bar.text, "kind": kind})
    order = [row["row"] for row in rows]
    color = figure.Series(column="kind", looks={WITHIN: PAIR[0], BEYOND: PAIR[1]})
    return figure.Panel(
        title=shown.title or "",
        heading={"frame": "bounds"},
        x=figure.linear(None, 0, reach, shown.divisor, **shown.ticks),
        y=figure.names(order) if room.side_by_side else row_names(order, room),
        marks=[
            figure.mark("bar", rows, x=key, y="row", color=color),
            figure.interval([row for row in rows if row[low] < row[high]], x=low, x2=high, y="row"),
            figure.words(rows, x="text_at", y="row"),
            *limit_line({"limit": limit, "text": words_of_limit}, "limit"),
        ],
        width=room.panel,
        height=ROW_HEIGHT * len(rows),
    )


def limit_line(row: Mapping[str, Any], column: str, color: str = WARNING) -> list[figure.Mark]:
    """Return a dashed line down a panel, with its words above it."""
    above = {"y": {"value": -4}, "align": "center", "baseline": "bottom", "dx": 0, "color": color}
    return [figure.threshold(row, color, x=column), figure.words([row], x=column, **above)]


def clear_of(line: float, end: float, width: float) -> float:
    """Return where the text behind a bar begins so that no ``line`` runs through it: at the bar's end, or behind it."""
    return line if end <= line < end + width else end
