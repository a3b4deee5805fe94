"""The pictures of a study, below each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sightline.answers import labels
from sightline.answers.analyses import LABELS
from sightline.charts.drawing import SCREEN, Room, basis
from sightline.charts.figure import Group, Panel, mark, message, specification
from sightline.charts.study_bars import bars, factors, stacks, tornado
from sightline.charts.study_lines import lines, points
from sightline.charts.study_maps import heat_map
from sightline.charts.study_table import Picture
from sightline.exploration.study_answer import Column, Figure, StudyAnswer
from sightline.prediction.sensitivity import Sensitivity
from sightline.profile import Profile
from sightline.quantities import percent

_KINDS: Mapping[str, Callable[[Picture], Panel | Group]] = {
    "lines": lines,
    "points": points,
    "bars": bars,
    "stacks": stacks,
    "map": heat_map,
    "factors": factors,
    "tornado": tornado,
}
"""What draws each kind of figure."""


def study_chart(answer: StudyAnswer, room: Room = SCREEN) -> dict[str, Any]:
    """Return the Vega-Lite specification of a study's figures; those whose rows a small study lacks are left out."""
    table: dict[str, Any] = {"table": answer.columns, "about": answer.about, "shown": answer.shown, "room": room}
    pictures = [Picture(figure=figure, **table) for figure in answer.figures]
    panels = [
        _KINDS[one.figure.kind](one)
        for one in pictures
        if one.values(*one.ys) or (one.figure.kind == "map" and len(one.columns[one.figure.x]))
    ]
    # Plots below each other begin at one place, and so would leave a gap before short names; a plot of no width does.
    edge = Panel(marks=[mark("point", [{}], opacity=0)], width=1, height=1)
    rows = [Group(parts=[edge, one], columns=0, spacing=0, apart=()) for one in panels or [message("no data")]]
    # Scales of one picture say nothing of another.
    chart = Group(parts=rows, spacing=34, apart=("color", "shape", "strokeDash", "x", "y"))
    return specification(chart, answer.title, room=room)


_NAMES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token"}
_NEGLIGIBLE = 0.005
"""Elasticities below this are not drawn: their bars have no length."""


def sensitivity_chart(found: Sensitivity, room: Room = SCREEN) -> dict[str, Any] | None:
    """Return a tornado for each time of the answer, the longest bar first; None where nothing matters."""
    task = found.answer.task
    rows = [
        (key, LABELS[number], values[key])
        for key in task.times
        for number, values in found.elasticity.items()
        if abs(values.get(key, 0.0)) >= _NEGLIGIBLE
    ]
    if not rows:
        return None
    names = {key: _NAMES.get(key) or task.figures[key].label.capitalize() for key in task.times}
    columns = dict(zip(("time", "number", "elasticity"), map(list, zip(*rows, strict=True)), strict=True))
    about = {"time": Column(label="time", values=names), "elasticity": Column(label="change in time (%) for +1 %")}
    several = len({key for key, _, _ in rows}) > 1
    times = "Times" if several else names[rows[0][0]]
    figure = Figure(
        kind="tornado",
        title=f"{times} by hardware input",
        x="number",
        y="elasticity",
        panel="time" if several else "",
    )
    chart = tornado(Picture(table=columns, about=about, figure=figure, room=room))
    lines = [
        "Effect of raising an input by 1 %: dark reduces the time, orange increases it.",
        basis(found.answer.evidence),
    ]
    return specification(chart, labels.title(found.answer.scenario), lines, room)


_LEAST = 4
_FOLLOWING = ("plan.data_parallel", "plan.replicas", "cluster.name")
"""What follows from other keys."""


def sweep_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the map; None where profiles do not differ in two keys, with one profile for each pair of their values."""
    task = profiles[0].task
    if len(profiles) < _LEAST or any(profile.task is not task for profile in profiles):
        return None
    varied = labels.differing([profile.scenario for profile in profiles])
    keys = [key for key in varied[0] if key not in _FOLLOWING]
    if len(keys) != 2 or any(isinstance(row[key], list | dict) or row[key] is None for row in varied for key in keys):
        return None
    down, across = keys
    pairs = {(row[down], row[across]) for row in varied}
    sides = [len({row[key] for row in varied}) for key in keys]
    if len(pairs) != len(profiles) or min(sides) < 2:
        return None
    best = task.rates[0] if task.rates else task.whole
    figure = task.figures[best]
    columns: dict[str, list[Any]] = {key.rpartition(".")[2]: [row[key] for row in varied] for key in keys}
    fits = [bool(profile.fits) for profile in profiles]
    # A rate that no device has the memory for would stand out as the best.
    shown = [fit or not any(fits) for fit in fits]
    columns[best] = [profile.figure(best) if one else None for profile, one in zip(profiles, shown, strict=True)]
    if len(columns) != 3:
        return None
    y, x = (key.rpartition(".")[2] for key in keys)
    about = {best: Column(label=figure.label, unit=figure.unit)}
    about |= {name: Column(label=name.replace("_", " ")) for name in (x, y)}
    title = labels.common_title([profile.scenario for profile in profiles])
    named = f"{figure.label[:1].upper()}{figure.label[1:]} by {x.replace('_', ' ')} and {y.replace('_', ' ')}"
    shown_as = Figure(kind="map", title=named, x=x, y=(y, best))
    chart = heat_map(Picture(table=columns, about=about, figure=shown_as, room=room))
    ends = [(float(low), float(high)) for p in profiles for low, high in [p.interval.get(best) or (0.0, None)] if high]
    said = f"up to ± {percent(max((high / low) ** 0.5 - 1 for low, high in ends))}" if ends else ""
    unfit = "None of these fit in memory." if not any(fits) else "" if all(fits) else "Empty: does not fit in memory."
    lines = [unfit, basis([profile.evidence for profile in profiles], said)]
    return specification(chart, title, lines, room)
