"""The picture of a profile, or of several of one task: where the time goes, and the fullest device's memory."""

from collections.abc import Sequence
from typing import Any

from sightline.answers import labels, summary, units
from sightline.charts import stacks
from sightline.charts.curves import batch_chart
from sightline.charts.drawing import FAINT, MEMORY_COLORS, OVERLAPPED_COLOR, PHASE_COLORS, SCREEN, WARNING, Room, basis
from sightline.charts.figure import Group, Panel, beside, specification
from sightline.content import sums
from sightline.profile import IDLE_PHASES, SERVING, Profile, overlapped_s

_MOST, _MOST_MODULES = 60, 10


def profile_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification for one profile; for several a curve over the batch, or bars side by side."""
    if len(profiles) == 1:
        return single_chart(profiles[0], room)
    return batch_chart(profiles, room) or _side_by_side(profiles, room)


def single_chart(profile: Profile, room: Room = SCREEN) -> dict[str, Any]:
    """Return one profile as three panels: time by phase, time by module, memory by part."""
    # A server that answers no request has no times.
    is_idle = profile.task is SERVING and not profile.completed
    timed = () if is_idle else (_time_panel(profile, room), _module_panel(profile, room))
    chart = Group(parts=[panel for panel in (*timed, _memory_panel(profile, room)) if panel is not None])
    lines = [*labels.subtitle(profile.scenario), summary.in_a_line(profile), *summary.anchor_sentences([profile])]
    return specification(chart, labels.title(profile.scenario), lines, room)


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
    chart = Group(parts=[panel for panel in panels if panel is not None])
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


def _of_one_kind(
    profiles: Sequence[Profile], chart: Group | Panel, room: Room, *, times: bool = True
) -> dict[str, Any]:
    """The chart with its title, and what it rests on."""
    first, key = profiles[0], "memory_bytes.total"
    has = any(p.interval.get(p.task.whole if times else key) for p in profiles)
    interval = "thin line" if has else ""
    lines = [
        *(labels.subtitle(first.scenario) if len(profiles) == 1 else ()),
        basis([p.evidence for p in profiles], interval),
    ]
    if len(profiles) > _MOST:
        lines.insert(0, f"Showing the first {_MOST} of {len(profiles):,}.")
    return specification(chart, labels.common_title([p.scenario for p in profiles]), lines, room)


def _time_panel(profile: Profile, room: Room) -> Panel:
    """The time as one bar and, below it, its phases, and communication behind them."""
    whole, total_s = profile.task.figures[profile.task.whole].label, float(profile.whole_s)
    divisor, unit = units.time_unit(total_s)
    parts = [(part, units.seconds(part.value)) for part in summary.phases(profile)]
    bars, texts = stacks.waterfall(parts, "s", whole, units.seconds(total_s), room)
    hidden = stacks.overlapped(profile, room.row(stacks.OVERLAPPED))
    if hidden is not None:
        bars.append(hidden)
        texts.append({**hidden, "text": units.seconds(overlapped_s(profile.rows)) + " overlapped" * room.side_by_side})
    ends = stacks.ends_of(profile, profile.task.whole, total_s)
    reach = max(texts[0]["end_s"], ends[1]) * room.with_text
    texts[0]["end_s"] = ends[1]
    return stacks.panel(
        *(bars, texts, PHASE_COLORS | {stacks.OVERLAPPED: OVERLAPPED_COLOR}),
        f"{whole[:1].upper()}{whole[1:]} by phase",
        reach=reach,
        axis=f"{unit} {'per request' if profile.task is SERVING else 'per device'}",
        unit="s",
        divisor=divisor,
        room=room,
        more=stacks.whiskers({whole: ends}, "s"),
    )


def _memory_panel(profile: Profile, room: Room) -> Panel:
    """The fullest device's memory by part against what may be filled."""
    total, usable = float(profile.memory_bytes["total"]), float(profile.usable_bytes)
    parts = [(part, units.gib(part.value)) for part in summary.memory(profile)]
    bars, texts = stacks.waterfall(parts, "bytes", "total", units.gib(total), room)
    ends = stacks.ends_of(profile, "memory_bytes.total", total)
    texts[0]["end_bytes"] = ends[1]
    reach = max(ends[1], usable) * room.with_text
    width = room.text * reach / room.panel
    whose = "device memory" if usable >= float(profile.scenario.cluster.device.memory_bytes) else "engine limit"
    limit = {"row": "total", "usable_bytes": usable, "text": f"{units.gib(usable)} {whose}"}
    return stacks.panel(
        bars,
        [{**text, "end_bytes": stacks.clear_of(usable, text["end_bytes"], width)} for text in texts],
        MEMORY_COLORS,
        "Memory of the fullest device",
        reach=reach,
        axis="GiB" + ", and share of the device" * room.side_by_side,
        unit="bytes",
        divisor=stacks.GIB,
        room=room,
        more=[
            *stacks.limit_line(limit, "usable_bytes", FAINT if profile.fits else WARNING),
            *stacks.whiskers({"total": ends}, "bytes"),
        ],
    )


def _module_panel(profile: Profile, room: Room) -> Panel | None:
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
        bars += stacks.stacked(summary.parts(busy, times, total_s), "s", module)
        texts.append({"row": module, "end_s": sum(times.values()), "text": units.seconds(sum(times.values()))})
    return stacks.panel(
        *(bars, texts, PHASE_COLORS, "Device time by module"),
        reach=max(text["end_s"] for text in texts) * (1 + (room.with_text - 1) * 2 / 3),
        axis=unit,
        unit="s",
        divisor=divisor,
        room=room,
        legend={"columns": 0 if room.side_by_side else 2},
    )


def _shortened(tables: list[tuple[str, dict[str, float]]]) -> list[tuple[str, dict[str, float]]]:
    """Keep the modules that take longest and add up the rest."""
    if len(tables) <= _MOST_MODULES:
        return tables
    rest = sums(item for _, times in tables[_MOST_MODULES - 1 :] for item in times.items())
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
    return specification(beside(*panels, room=room), labels.common_title([p.scenario for p in profiles]), lines, room)
