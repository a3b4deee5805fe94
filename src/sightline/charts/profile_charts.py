"""The picture of a profile, or of several of one task: where the time goes, and the fullest device's memory."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from sightline.answers import labels, summary, units
from sightline.charts import drawing, stacks
from sightline.charts.curves import curve_chart
from sightline.charts.drawing import SCREEN, Room
from sightline.charts.stacks import clear_of
from sightline.profile import IDLE_PHASES, SERVING, Profile, overlapped_s

_MOST, _MOST_MODULES = 60, 10


def profile_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification for one profile; for several a curve over the batch, or bars side by side."""
    if len(profiles) == 1:
        return single_chart(profiles[0], room=room)
    return curve_chart(profiles, room) or _side_by_side(profiles, room)


def single_chart(profile: Profile, *, titled: bool = True, room: Room = SCREEN) -> dict[str, Any]:
    """Return one profile as three panels: time by phase, time by module, memory by part."""
    # A server that answers no request has no times.
    is_idle = profile.task is SERVING and not profile.completed
    timed = () if is_idle else (_time_panel(profile, room), _module_panel(profile, room))
    panels = (*timed, _memory_panel(profile, room))
    chart = drawing.below(*(panel for panel in panels if panel is not None))
    if not titled:
        return drawing.configure(chart, room=room)
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile), *summary.anchor_sentences([profile])]
    return drawing.configure(chart, labels.title(profile.scenario), lines, room)


def time_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return where the time goes, by phase and module, of one profile or of several side by side; None without any."""
    timed = [p for p in profiles if p.task is not SERVING or p.completed]
    if not timed or not timed[0].phases:
        return None
    first = timed[0]
    if len(timed) > 1:
        whole = first.task.figures[first.task.whole].label.capitalize()
        return _of_one_kind(timed, stacks.times(_named(timed), whole, room, wide=True), room)
    panels = (_time_panel(first, room), _module_panel(first, room))
    chart = drawing.below(*(panel for panel in panels if panel is not None))
    return _of_one_kind(timed, chart, room)


def memory_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the fullest device's memory by part against what may be filled; None where it is not known."""
    known = [p for p in profiles if p.memory_bytes.get("total")]
    if not known:
        return None
    if len(known) > 1:
        return _of_one_kind(known, stacks.memory(_named(known), room, named=True, wide=True), room, times=False)
    return _of_one_kind(known, _memory_panel(known[0], room), room, times=False)


def _named(profiles: Sequence[Profile]) -> list[tuple[str, Profile]]:
    """The first profiles with what sets them apart."""
    return list(zip(labels.variant_labels([p.scenario for p in profiles]), profiles, strict=True))[:_MOST]


def _of_one_kind(profiles: Sequence[Profile], chart: Any, room: Room, *, times: bool = True) -> dict[str, Any]:
    """The chart with its title, and what it rests on."""
    first, key = profiles[0], "memory_bytes.total"
    has = any(p.interval.get(p.task.whole if times else key) for p in profiles)
    interval = "thin line" if has else ""
    lines = [
        *(labels.subtitle(first.scenario) if len(profiles) == 1 else ()),
        drawing.basis([p.evidence for p in profiles], interval),
    ]
    if len(profiles) > _MOST:
        lines.insert(0, f"Showing the first {_MOST} of {len(profiles):,}.")
    return drawing.configure(
        chart, labels.common_title([p.scenario for p in profiles]), list(filter(None, lines)), room
    )


def _time_panel(profile: Profile, room: Room) -> Any:
    """The time as one bar and, below it, its phases, and communication behind them."""
    whole, total_s = profile.task.figures[profile.task.whole].label, float(profile.whole_s)
    divisor, unit = units.time_unit(total_s)
    parts = [(part, units.seconds(part.value)) for part in summary.phases(profile)]
    bars, texts = stacks.waterfall(parts, divisor, whole, units.seconds(total_s), room)
    hidden = stacks.overlapped(profile, divisor, room.row(stacks.OVERLAPPED))
    if hidden is not None:
        bars.append(hidden)
        texts.append({**hidden, "text": units.seconds(overlapped_s(profile.rows)) + " overlapped" * room.side_by_side})
    title, reach = f"{whole[:1].upper()}{whole[1:]} by phase", texts[0]["end"] * room.with_text
    axis = f"{unit} {'per request' if profile.task is SERVING else 'per device'}"
    colors = drawing.PHASE_COLORS | {stacks.OVERLAPPED: drawing.OVERLAPPED_COLOR}
    scaled, ends = stacks.seconds_in(divisor), stacks.ends_of(profile, profile.task.whole, total_s, divisor)
    texts[0]["end"], reach = ends[1], max(reach, ends[1] * room.with_text)
    panel = stacks.panel(bars, texts, colors, title, reach=reach, axis=axis, room=room, scaled=scaled)
    return panel + stacks.whiskers({whole: ends}, scaled) if ends[0] < ends[1] else panel


def _memory_panel(profile: Profile, room: Room) -> Any:
    """The fullest device's memory by part against what may be filled."""
    total, usable = float(profile.memory_bytes["total"]), float(profile.usable_bytes)
    parts = [(part, units.gib(part.value)) for part in summary.memory(profile)]
    bars, texts = stacks.waterfall(parts, 2**30, "total", units.gib(total), room)
    ends = stacks.ends_of(profile, "memory_bytes.total", total, 2**30)
    texts[0]["end"] = ends[1]
    reach = max(texts[0]["end"], usable / 2**30) * room.with_text
    width = room.text * reach / room.panel
    texts = [{**text, "end": clear_of(usable / 2**30, text["end"], width)} for text in texts]
    title, axis = "Memory of the fullest device", "GiB" + ", and share of the device" * room.side_by_side
    panel = stacks.panel(
        bars, texts, drawing.MEMORY_COLORS, title, reach=reach, axis=axis, room=room, scaled=stacks.GIB
    )
    color = drawing.FAINT if profile.fits else drawing.WARNING
    whose = "device memory" if usable >= float(profile.scenario.cluster.device.memory_bytes) else "engine limit"
    mark = drawing.of([{"row": "total", "usable": usable / 2**30, "text": f"{units.gib(usable)} {whose}"}], stacks.GIB)
    rule = mark.mark_rule(strokeDash=[5, 4], strokeWidth=1.5, color=color).encode(x=alt.X("usable:Q"))
    label = mark.mark_text(align="center", baseline="bottom", color=color, fontSize=11)
    above = alt.YValue(-4)  # type: ignore[no-untyped-call]
    said = label.encode(x=alt.X("usable:Q"), y=above, text=alt.Text("text:N"))
    spans = [stacks.whiskers({"total": ends}, stacks.GIB)] if ends[0] < ends[1] else []
    return alt.layer(panel, rule, said, *spans)


def _module_panel(profile: Profile, room: Room) -> Any:
    """Seconds by module of the phases in which the device works, on the scale of the whole; None without any."""
    total_s = float(profile.whole_s)
    divisor, unit = units.time_unit(total_s)
    busy = [phase for phase in profile.task.phases if phase not in IDLE_PHASES]
    tables = [(module, {p: s for p, s in times.items() if p in busy}) for module, times in summary.modules(profile)]
    tables = _shortened([(module, times) for module, times in tables if times])
    if not tables:
        return None
    bars: stacks.Bars = []
    texts: stacks.Bars = []
    for module, times in tables:
        bars += stacks.stacked(summary.parts(busy, times, total_s), divisor, module)
        seconds = sum(times.values())
        texts.append({"row": module, "end": seconds / divisor, "text": units.seconds(seconds)})
    reach = max(text["end"] for text in texts) * (1 + (room.with_text - 1) * 2 / 3)
    legend = alt.Legend(title=None, orient="bottom", columns=0 if room.side_by_side else 2)
    looks = {"reach": reach, "axis": unit, "room": room, "legend": legend, "scaled": stacks.seconds_in(divisor)}
    return stacks.panel(bars, texts, drawing.PHASE_COLORS, "Device time by module", **looks)


def _shortened(tables: list[tuple[str, dict[str, float]]]) -> list[tuple[str, dict[str, float]]]:
    """Keep the modules that take longest and add up the rest."""
    if len(tables) <= _MOST_MODULES:
        return tables
    rest: dict[str, float] = {}
    for _, times in tables[_MOST_MODULES - 1 :]:
        for phase, seconds in times.items():
            rest[phase] = rest.get(phase, 0.0) + seconds
    return [*tables[: _MOST_MODULES - 1], ("everything else", rest)]


def _side_by_side(profiles: Sequence[Profile], room: Room) -> dict[str, Any]:
    """A bar per scenario; of very many those with the best rate are drawn."""
    task = profiles[0].task
    chosen = list(zip(labels.variant_labels([p.scenario for p in profiles]), profiles, strict=True))
    whole = task.figures[task.whole].label.capitalize()
    lines = [f"{whole} by phase, and memory of the fullest device by part. The red line is the usable memory."]
    if any(p.interval.get(task.whole) for p in profiles):
        lines.append(f"Thin lines are 80 % intervals of the {task.figures[task.whole].label}.")
    if len(chosen) > _MOST:
        chosen.sort(key=lambda pair: -float(pair[1].figure(task.best) or 0.0))
        chosen = chosen[:_MOST]
        lines.append(f"Showing the {_MOST} of {len(profiles):,} with the most tokens per second and device.")
    if any(overlapped_s(p.rows) > 0 for _, p in chosen):
        lines.append("Red strips below the bars are overlapped communication.")
    lines += summary.anchor_sentences([p for _, p in chosen])
    panels = stacks.times(chosen, whole, room), stacks.memory(chosen, room)
    return drawing.configure(
        drawing.beside(*panels, room=room), labels.common_title([p.scenario for p in profiles]), lines, room
    )
