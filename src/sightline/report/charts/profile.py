"""The picture of a profile, or of several of one task: where the time goes, and the fullest device's memory."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import altair as alt

from sightline.profile import GENERATION, IDLE_PHASES, Profile
from sightline.report import labels, summary, units
from sightline.report.charts import drawing
from sightline.report.charts.curve import curve_chart

_WIDTH, _NARROW, _LABELS = 560, 330, 150
_MOST, _MOST_MODULES = 60, 10
_ROOM_ONE_TIME, _ROOM_MORE = 1.62, 2.3
"""Width for a bar and the text behind it over that of the longest bar, by how many times the text says."""

Bars = list[dict[str, Any]]
"""Values of bars, or of the texts behind them: the row they are in, where they start and end."""


def profile_chart(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return the Vega-Lite specification for one profile; for several a curve over the batch, or bars side by side."""
    return single_chart(profiles[0]) if len(profiles) == 1 else curve_chart(profiles) or _side_by_side(profiles)


def single_chart(profile: Profile, *, titled: bool = True) -> dict[str, Any]:
    """Return one profile as three panels: time by phase, time by module, memory by part."""
    panels = (_time_panel(profile), _module_panel(profile), _memory_panel(profile))
    chart = alt.vconcat(*(panel for panel in panels if panel is not None)).resolve_scale(color="independent")
    if not titled:
        return drawing.configure(chart)
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile), *summary.anchor_lines([profile])]
    return drawing.configure(chart, labels.title(profile.scenario), lines)


def _time_panel(profile: Profile) -> Any:
    """The time as one bar and, below it, its phases."""
    whole, total_s = profile.task.metrics[profile.task.whole].label, float(profile.whole_s)
    divisor, unit = units.time_unit(total_s)
    parts = [(part, units.seconds(part.value)) for part in summary.phases(profile)]
    bars, texts = _waterfall(parts, divisor, whole, units.seconds(total_s))
    title, reach = f"Where the {whole} goes", texts[0]["end"] * 1.24
    return _wide(bars, texts, drawing.PHASE_COLORS, title, f"{unit} on one device", reach)


def _memory_panel(profile: Profile) -> Any:
    """The fullest device's memory by part against what may be filled."""
    total, usable = float(profile.memory_bytes["total"]), float(profile.usable_bytes)
    parts = [(part, units.gib(part.value)) for part in summary.memory(profile)]
    bars, texts = _waterfall(parts, 2**30, "total", units.gib(total))
    reach = max(texts[0]["end"], usable / 2**30) * 1.24
    title, axis = "Memory of the fullest device", "GiB, and per cent of the device"
    panel = _wide(bars, texts, drawing.MEMORY_COLORS, title, axis, reach)
    color = drawing.FAINT if profile.fits else drawing.WARNING
    whose = "for the engine" if profile.task is GENERATION else "on the device"
    mark = drawing.of([{"x": usable / 2**30, "text": f"{units.gib(usable)} {whose}"}])
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=color).encode(x="x:Q")
    label = mark.mark_text(align="center", baseline="bottom", color=color, fontSize=11)
    said = label.encode(x="x:Q", y=alt.value(-4), text="text:N")
    return alt.layer(panel, rule, said)


def _module_panel(profile: Profile) -> Any:
    """Seconds by module of the phases in which the device works, on the scale of the whole; None without any."""
    total_s = float(profile.whole_s)
    divisor, unit = units.time_unit(total_s)
    busy = [phase for phase in profile.task.phases if phase not in IDLE_PHASES]
    tables = [(module, {p: s for p, s in times.items() if p in busy}) for module, times in summary.modules(profile)]
    tables = _shortened([(module, times) for module, times in tables if times])
    if not tables:
        return None
    bars: Bars = []
    texts: Bars = []
    for module, times in tables:
        bars += _stacked(summary.parts(busy, times, total_s), divisor, module)
        seconds = sum(times.values())
        texts.append({"row": module, "end": seconds / divisor, "text": units.seconds(seconds)})
    reach = max(text["end"] for text in texts) * 1.16
    legend = alt.Legend(title=None, orient="bottom")
    return _wide(bars, texts, drawing.PHASE_COLORS, "Device time by module", unit, reach, legend)


def _shortened(tables: list[tuple[str, dict[str, float]]]) -> list[tuple[str, dict[str, float]]]:
    """Keep the modules that take longest and add up the rest."""
    if len(tables) <= _MOST_MODULES:
        return tables
    rest: dict[str, float] = {}
    for _, times in tables[_MOST_MODULES - 1 :]:
        for phase, seconds in times.items():
            rest[phase] = rest.get(phase, 0.0) + seconds
    return [*tables[: _MOST_MODULES - 1], ("everything else", rest)]


def _side_by_side(profiles: Sequence[Profile]) -> dict[str, Any]:
    """A bar per scenario; of very many those with the best rate are drawn."""
    task = profiles[0].task
    chosen = list(zip(labels.variant_labels([p.scenario for p in profiles]), profiles, strict=True))
    whole = task.metrics[task.whole].label.capitalize()
    lines = [f"{whole} by phase, and memory of the fullest device by part; the red line is what may be filled."]
    if any(p.interval.get(task.whole) for p in profiles):
        lines.append(f"Thin lines are 80 % intervals of the {task.metrics[task.whole].label}.")
    if len(chosen) > _MOST:
        chosen.sort(key=lambda pair: -float(getattr(pair[1], task.best)))
        chosen = chosen[:_MOST]
        lines.append(f"The {_MOST} with most tokens per second and device of {len(profiles):,}.")
    lines += summary.anchor_lines([p for _, p in chosen])
    times, memory = _time_bars(chosen, whole), _memory_bars(chosen)
    chart = alt.hconcat(times, memory, spacing=36).resolve_scale(color="independent")
    return drawing.configure(chart, labels.common_title([p.scenario for p in profiles]), lines)


def _time_bars(chosen: Sequence[tuple[str, Profile]], title: str) -> Any:
    """A stacked bar per scenario with its times and rate behind it."""
    ends = {label: _ends(p) for label, p in chosen}
    longest_s = max(high for _, high in ends.values())
    divisor, unit = units.time_unit(longest_s)
    bars = [bar for label, p in chosen for bar in _stacked(summary.phases(p), divisor, label)]
    texts = [{"row": label, "end": ends[label][1] / divisor, "text": _figures(p)} for label, p in chosen]
    room = _ROOM_MORE if len(chosen[0][1].task.times) > 1 else _ROOM_ONE_TIME
    panel = _narrow(bars, texts, drawing.PHASE_COLORS, f"{title} ({unit})", longest_s / divisor * room, named=True)
    widths = {label: (low / divisor, high / divisor) for label, (low, high) in ends.items() if low < high}
    spans: Bars = [{"row": label, "low": low, "high": high} for label, (low, high) in widths.items()]
    whiskers = drawing.of(spans).mark_rule(strokeWidth=1.5)
    drawn = whiskers.encode(x="low:Q", x2="high:Q", y=alt.Y("row:N", sort=list(ends)), color=alt.value(drawing.INK))
    return alt.layer(panel, drawn)


def _ends(profile: Profile) -> tuple[float, float]:
    """The ends of the 80 % interval of a profile's time; that time twice where an end is unknown."""
    whole = float(profile.whole_s)
    low, high = profile.interval.get(profile.task.whole) or (whole, whole)
    return (whole, whole) if high is None else (float(low), float(high))


def _figures(profile: Profile) -> str:
    """The text behind a bar: the step time, or a batch's other times, and the rate."""
    task = profile.task
    others = [key for key in task.times if key != task.whole]
    times = [f"{task.metrics[key].label} {summary.figure(profile, key)}" for key in others]
    rate = f"{summary.figure(profile, task.rates[0])} tokens/s"
    return " · ".join([*(times or [units.seconds(float(profile.whole_s))]), rate])


def _memory_bars(chosen: Sequence[tuple[str, Profile]]) -> Any:
    """A stacked bar of memory by part per scenario, with a tick at what may be filled."""
    bars = [bar for label, p in chosen for bar in _stacked(summary.memory(p), 2**30, label)]
    texts: Bars = []
    for label, p in chosen:
        total, there = float(p.memory_bytes["total"]), float(p.usable_bytes)
        verdict = units.gib(total) if p.fits else f"{units.gib(total)}, does not fit"
        texts.append({"row": label, "end": max(total, there) / 2**30, "text": verdict, "there": there / 2**30})
    reach = max(text["end"] for text in texts) * 1.5
    panel = _narrow(bars, texts, drawing.MEMORY_COLORS, "Memory of the fullest device (GiB)", reach, named=False)
    tick = drawing.of(texts).mark_tick(thickness=2, size=drawing.ROW_HEIGHT, color=drawing.WARNING)
    ticks = tick.encode(x="there:Q", y=alt.Y("row:N", sort=[label for label, _ in chosen]))
    return alt.layer(panel, ticks)


def _stacked(parts: Iterable[summary.Part], divisor: float, row: str = "") -> Bars:
    """A bar per part that begins where the one before ended, in one ``row`` or each in its own."""
    found = list(parts)
    edges = [0.0, *accumulate(part.value / divisor for part in found)]
    return [
        {"row": row or part.label, "part": part.label, "start": start, "end": end}
        for part, start, end in zip(found, edges, edges[1:], strict=False)
    ]


def _waterfall(parts: Sequence[tuple[summary.Part, str]], divisor: float, whole: str, text: str) -> tuple[Bars, Bars]:
    """The bars of a whole in one row and of its parts below it, pulled apart; and the texts behind them."""
    bars = _stacked((part for part, _ in parts), divisor)
    end = bars[-1]["end"] if bars else 0.0
    said = [f"{value} · {units.percent(part.share)}" for part, value in parts]
    texts = [{**bar, "text": value} for bar, value in zip(bars, said, strict=True)]
    stacked = _stacked((part for part, _ in parts), divisor, whole)
    return [*stacked, *bars], [{"row": whole, "end": end, "text": text}, *texts]


def _wide(
    bars: Bars, texts: Bars, colors: Mapping[str, str], title: str, axis: str, reach: float, legend: Any = None
) -> Any:
    """One of several panels below each other: labels of one width, so that the panels line up."""
    names = alt.Axis(grid=False, minExtent=_LABELS, maxExtent=_LABELS, labelLimit=_LABELS)
    panel = _panel(bars, texts, colors, reach=reach, axis=axis, names=names, legend=legend)
    return panel.properties(width=_WIDTH, title=drawing.heading(title, frame="bounds"))


def _narrow(bars: Bars, texts: Bars, colors: Mapping[str, str], title: str, reach: float, *, named: bool) -> Any:
    """One of two panels next to each other, of which one has the rows' names."""
    legend = alt.Legend(title=None, orient="bottom", columns=3, offset=8)
    panel = _panel(bars, texts, colors, reach=reach, names=alt.Axis(grid=False, labels=named), legend=legend)
    return panel.properties(width=_NARROW, title=drawing.heading(title))


def _panel(
    bars: Bars,
    texts: Bars,
    colors: Mapping[str, str],
    *,
    reach: float,
    names: Any,
    legend: Any,
    axis: str | None = None,
) -> Any:
    """Bars with a text behind each row, one row per text."""
    rows = [text["row"] for text in texts]
    used = {bar["part"] for bar in bars}
    named = {summary.LABELS.get(key, key): color for key, color in colors.items()}
    shown = drawing.palette({part: color for part, color in named.items() if part in used})
    color = alt.Color("part:N", scale=shown, legend=legend)
    scale = alt.Scale(domain=[0, reach], nice=False)
    x = alt.X("start:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=6, labelFlush=False))
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=alt.Scale(paddingInner=0.25))
    drawn = drawing.of(bars).mark_bar().encode(x=x, x2="end:Q", y=y, color=color)
    text = drawing.of(texts).mark_text(align="left", dx=5, fontSize=11, color=drawing.INK)
    said = text.encode(x="end:Q", y=y, text="text:N")
    return alt.layer(drawn, said).properties(height=drawing.ROW_HEIGHT * len(rows))
