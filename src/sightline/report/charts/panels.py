"""Panels that pictures are made of: a whole pulled apart into its parts, bars by module, the memory of a device."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from sightline.profile import GENERATION, Profile
from sightline.report import summary, units
from sightline.report.charts import drawing

_WIDTH, _LABELS = 560, 150
_MOST_MODULES = 10


def time_panel(parts: Sequence[summary.Part], total_s: float, whole: str) -> Any:
    """Return a time as one bar named ``whole`` and, below it, its parts."""
    divisor, unit = units.time_unit(total_s)
    bars = _waterfall(parts, divisor, [f"{units.seconds(p.value)} · {units.percent(p.share)}" for p in parts])
    colors = [drawing.PHASE_COLORS[p.key] for p in parts]
    axis = f"{unit} on one device"
    return _waterfall_panel(bars, colors, f"Where the {whole} goes", axis, (whole, units.seconds(total_s)))


def memory_panel(profile: Profile) -> Any:
    """Return the fullest device's memory by part against what may be filled."""
    parts = summary.memory(profile)
    bars = _waterfall(parts, 2**30, [f"{units.gib(p.value)} · {units.percent(p.share)}" for p in parts])
    total, usable = float(profile.memory_bytes["total"]), float(profile.usable_bytes)
    whose = "for the engine" if profile.task is GENERATION else "on the device"
    panel = _waterfall_panel(
        bars,
        [drawing.MEMORY_COLORS[p.key] for p in parts],
        "Memory of the fullest device",
        "GiB, and per cent of the device",
        ("total", units.gib(total)),
        reach=usable / 2**30,
    )
    color = drawing.FAINT if profile.fits else drawing.WARNING
    mark = alt.Chart(alt.InlineData(values=[{"x": usable / 2**30, "text": f"{units.gib(usable)} {whose}"}]))
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=color).encode(x="x:Q")
    label = mark.mark_text(align="center", baseline="bottom", color=color, fontSize=11).encode(
        x="x:Q", y=alt.value(-4), text="text:N"
    )
    return alt.layer(panel, rule, label)


def module_panel(modules: Sequence[tuple[str, Mapping[str, float]]], phases: Sequence[str], total_s: float) -> Any:
    """Return seconds of ``phases`` by module, on the scale of ``total_s``; None without any."""
    divisor, unit = units.time_unit(total_s)
    tables = [(module, {p: t for p, t in times.items() if p in phases}) for module, times in modules]
    tables = _shorten([(module, times) for module, times in tables if times])
    if not tables:
        return None
    bars: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for module, times in tables:
        start = 0.0
        for phase in (p for p in phases if p in times):
            end = start + times[phase] / divisor
            bars.append({"row": module, "part": _label(phase), "start": start, "end": end})
            start = end
        totals.append({"row": module, "end": start, "text": units.seconds(start * divisor)})
    used = [p for p in phases if any(p in times for _, times in tables)]
    colors = alt.Scale(domain=[_label(p) for p in used], range=[drawing.PHASE_COLORS[p] for p in used])
    rows = [module for module, _ in tables]
    reach = max(t["end"] for t in totals) * 1.16
    return _panel(bars, totals, rows, colors, "Device time by module", unit, reach, legend=True)


def _label(phase: str) -> str:
    return summary.LABELS.get(phase, phase)


def _waterfall(parts: Sequence[summary.Part], divisor: float, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return a bar per part that begins where the one before ended."""
    bars: list[dict[str, Any]] = []
    start = 0.0
    for part, text in zip(parts, texts, strict=True):
        end = start + part.value / divisor
        bars.append({"row": part.label, "part": part.label, "start": start, "end": end, "text": text})
        start = end
    return bars


def _waterfall_panel(
    bars: list[dict[str, Any]],
    colors: Sequence[str],
    title: str,
    axis: str,
    whole: tuple[str, str],
    reach: float = 0.0,
) -> Any:
    """Return the whole as one stacked bar and, below it, its parts pulled apart and labelled."""
    name, text = whole
    end = bars[-1]["end"] if bars else 0.0
    stacked = [{**bar, "row": name} for bar in bars]
    labels = [{"row": name, "end": end, "text": text}, *bars]
    scale = alt.Scale(domain=[bar["part"] for bar in bars], range=list(colors))
    rows = [name, *(bar["row"] for bar in bars)]
    return _panel([*stacked, *bars], labels, rows, scale, title, axis, max(end, reach) * 1.24)


def _panel(
    bars: list[dict[str, Any]],
    labels: list[dict[str, Any]],
    rows: list[str],
    colors: Any,
    title: str,
    axis: str,
    reach: float,
    *,
    legend: bool = False,
) -> Any:
    color = alt.Color("part:N", scale=colors, legend=alt.Legend(title=None, orient="bottom") if legend else None)
    x_scale, y_scale = alt.Scale(domain=[0, reach], nice=False), alt.Scale(paddingInner=0.25)
    x = alt.X("start:Q", title=axis, scale=x_scale, axis=alt.Axis(tickCount=6, labelFlush=False))
    # One width of labels for all panels, so that they line up.
    names = alt.Axis(grid=False, minExtent=_LABELS, maxExtent=_LABELS, labelLimit=_LABELS)
    y = alt.Y("row:N", sort=rows, title=None, axis=names, scale=y_scale)
    drawn = alt.Chart(alt.InlineData(values=bars)).mark_bar().encode(x=x, x2="end:Q", y=y, color=color)
    text = alt.Chart(alt.InlineData(values=labels)).mark_text(align="left", dx=5, fontSize=11, color=drawing.INK)
    heading = alt.TitleParams(title, anchor="start", fontSize=13, frame="bounds", offset=8)
    return alt.layer(drawn, text.encode(x="end:Q", y=y, text="text:N")).properties(
        width=_WIDTH, height=drawing.ROW_HEIGHT * len(rows), title=heading
    )


def _shorten(tables: list[tuple[str, dict[str, float]]]) -> list[tuple[str, dict[str, float]]]:
    """Keep the modules that take longest and add up the rest."""
    if len(tables) <= _MOST_MODULES:
        return tables
    rest: dict[str, float] = {}
    for _, times in tables[_MOST_MODULES - 1 :]:
        for phase, time in times.items():
            rest[phase] = rest.get(phase, 0.0) + time
    return [*tables[: _MOST_MODULES - 1], ("everything else", rest)]
