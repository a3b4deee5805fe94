"""The picture of a profile, or of several of one task: where the time goes, and the fullest device's memory."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightline.profile import Profile
from sightline.report import labels, summary, units
from sightline.report.charts import drawing, panels
from sightline.report.charts.curve import curve_chart

_WIDTH = 330
_MOST = 60
_ROOM_ONE_TIME, _ROOM_MORE = 1.62, 2.3
"""Width for a bar and the text behind it over that of the longest bar, by how many times the text says."""


def profile_chart(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return the Vega-Lite specification for one profile; for several a curve over the batch, or bars side by side."""
    return single_chart(profiles[0]) if len(profiles) == 1 else curve_chart(profiles) or _side_by_side(profiles)


def single_chart(profile: Profile, *, titled: bool = True) -> dict[str, Any]:
    """Return one profile as three panels: time by phase, time by module, memory by part."""
    total_s = float(profile.whole_s)
    busy = [phase for phase in profile.task.phases if phase not in summary.IDLE_PHASES]
    drawn = [
        panels.time_panel(summary.phases(profile), total_s, profile.task.metrics[profile.task.whole].label),
        panels.module_panel(summary.modules(profile), busy, total_s),
        panels.memory_panel(profile),
    ]
    chart = alt.vconcat(*(panel for panel in drawn if panel is not None)).resolve_scale(color="independent")
    if not titled:
        return drawing.configure(chart)
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile)]
    return drawing.configure(chart, labels.title(profile.scenario), lines)


def _side_by_side(profiles: Sequence[Profile]) -> dict[str, Any]:
    """A bar per scenario; of very many those with the best rate are drawn."""
    task = profiles[0].task
    chosen = list(zip(labels.variant_labels([p.scenario for p in profiles]), profiles, strict=True))
    whole = task.metrics[task.whole].label.capitalize()
    lines = [f"{whole} by phase and memory of the fullest device by part; the tick is the memory that may be filled."]
    if len(chosen) > _MOST:
        chosen.sort(key=lambda pair: -float(getattr(pair[1], task.best)))
        chosen = chosen[:_MOST]
        lines.append(f"The {_MOST} with most tokens per second and device of {len(profiles):,}.")
    times, memory = _time_bars(chosen, whole), _memory_bars(chosen)
    chart = alt.hconcat(times, memory, spacing=36).resolve_scale(color="independent")
    return drawing.configure(chart, labels.common_title([p.scenario for p in profiles]), lines)


def _time_bars(chosen: Sequence[tuple[str, Profile]], title: str) -> Any:
    """A stacked bar per scenario with its times and rate behind it."""
    longest_s = max(float(p.whole_s) for _, p in chosen)
    divisor, unit = units.time_unit(longest_s)
    bars = [bar for label, p in chosen for bar in _stack(label, summary.phases(p), divisor)]
    texts = [{"row": label, "end": float(p.whole_s) / divisor, "text": _figures(p)} for label, p in chosen]
    room = _ROOM_MORE if len(chosen[0][1].task.times) > 1 else _ROOM_ONE_TIME
    rows = [label for label, _ in chosen]
    return _panel(bars, texts, rows, drawing.PHASE_COLORS, f"{title} ({unit})", longest_s / divisor * room, named=True)


def _figures(profile: Profile) -> str:
    """The text behind a bar: the step time, or a batch's other times, and the rate."""
    task = profile.task
    others = [key for key in task.times if key != task.whole]
    times = [f"{task.metrics[key].label} {summary.figure(profile, key)}" for key in others]
    rate = f"{summary.figure(profile, task.rates[0])} tokens/s"
    return " · ".join([*(times or [units.seconds(float(profile.whole_s))]), rate])


def _memory_bars(chosen: Sequence[tuple[str, Profile]]) -> Any:
    """A stacked bar of memory by part per scenario, with a tick at what may be filled."""
    rows = [label for label, _ in chosen]
    bars = [bar for label, p in chosen for bar in _stack(label, summary.memory(p), 2**30)]
    texts: list[dict[str, Any]] = []
    ticks: list[dict[str, Any]] = []
    for label, p in chosen:
        total, there = float(p.memory_bytes["total"]), float(p.usable_bytes)
        verdict = units.gib(total) if p.fits else f"{units.gib(total)}, does not fit"
        texts.append({"row": label, "end": max(total, there) / 2**30, "text": verdict})
        ticks.append({"row": label, "there": there / 2**30})
    reach = max(t["end"] for t in texts) * 1.5
    panel = _panel(bars, texts, rows, drawing.MEMORY_COLORS, "Memory of the fullest device (GiB)", reach, named=False)
    tick = alt.Chart(alt.InlineData(values=ticks)).mark_tick(
        thickness=2, size=drawing.ROW_HEIGHT, color=drawing.WARNING
    )
    return alt.layer(panel, tick.encode(x="there:Q", y=alt.Y("row:N", sort=rows)))


def _stack(label: str, parts: Sequence[summary.Part], divisor: float) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    start = 0.0
    for part in parts:
        end = start + part.value / divisor
        bars.append({"row": label, "part": part.label, "start": start, "end": end})
        start = end
    return bars


def _panel(
    bars: list[dict[str, Any]],
    texts: list[dict[str, Any]],
    rows: list[str],
    colors: dict[str, str],
    title: str,
    reach: float,
    *,
    named: bool,
) -> Any:
    used = {bar["part"] for bar in bars}
    palette = {summary.LABELS.get(key, key): color for key, color in colors.items()}
    palette = {part: color for part, color in palette.items() if part in used}
    legend = alt.Legend(title=None, orient="bottom", columns=3, offset=8)
    color = alt.Color("part:N", scale=alt.Scale(domain=list(palette), range=list(palette.values()))).legend(legend)
    x = alt.X(
        "start:Q",
        title=None,
        scale=alt.Scale(domain=[0, reach], nice=False),
        axis=alt.Axis(tickCount=5, labelFlush=False),
    )
    axis = alt.Axis(grid=False, labels=named)
    y = alt.Y("row:N", sort=rows, title=None, axis=axis, scale=alt.Scale(paddingInner=0.25))
    drawn = alt.Chart(alt.InlineData(values=bars)).mark_bar().encode(x=x, x2="end:Q", y=y, color=color)
    text = alt.Chart(alt.InlineData(values=texts)).mark_text(align="left", dx=6, fontSize=11, color=drawing.INK)
    heading = alt.TitleParams(title, anchor="start", fontSize=13, offset=8)
    return alt.layer(drawn, text.encode(x="end:Q", y=y, text="text:N")).properties(
        width=_WIDTH, height=drawing.ROW_HEIGHT * len(rows), title=heading
    )
