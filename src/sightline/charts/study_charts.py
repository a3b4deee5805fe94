"""The pictures of a study, below each other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sightline.answers import labels
from sightline.answers.study import Quantity, numeric
from sightline.charts.drawing import LINES, SCREEN, Room, basis
from sightline.charts.figure import Group, Panel, axis, colored, curve, interval, mark, message, quantity, specification
from sightline.charts.stacks import ends_of
from sightline.charts.study_bars import bars, factors, stacks, tornado
from sightline.charts.study_lines import lines, names_below, points
from sightline.charts.study_maps import heat_map
from sightline.charts.study_table import Picture
from sightline.explanation.advice import LABELS
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
    if min(len({row[key] for row in varied}) for key in keys) < 2:
        return None
    return swept_chart((profiles, [{key: row[key] for key in keys} for row in varied]), room)


def swept_chart(
    answer: tuple[Sequence[Profile], Sequence[Mapping[str, Any]]], room: Room = SCREEN, key: str = ""
) -> dict[str, Any] | None:
    """Return a line with its 80 % interval over one swept key, or a map over two.

    None where other keys than one or two were swept, a combination occurs twice, or no profile has the result.

    Args:
        answer: Profiles of one task, and of each its values of the keys that were swept, by dotted key.
        room: How large it may be.
        key: The result that is shown; by default the rate of the task, or its time.
    """
    profiles, cells = answer
    task, keys = profiles[0].task, list(cells[0])
    names = [one.rpartition(".")[2] for one in keys]
    places = {tuple(str(cell[one]) for one in keys) for cell in cells}
    key = key or (task.rates[0] if task.rates else task.whole)
    known = any(profile.figure(key) is not None for profile in profiles)
    if not known or len(keys) not in (1, 2) or len(places) < len(cells) or len({*names}) < len(names):
        return None
    figure = task.figures[key]
    fits = [bool(profile.fits) for profile in profiles]
    ends = [(float(low), float(high)) for p in profiles for low, high in [p.interval.get(key) or (0.0, None)] if high]
    said = figure.label[:1].upper() + figure.label[1:]
    about = {name: Column(label=name.replace("_", " ")) for name in names}
    named = f"{said} by {' and '.join(about[name].label for name in reversed(names))}"
    if len(keys) == 1:
        chart: Panel | Group = _line(profiles, [cell[keys[0]] for cell in cells], names[0], key, named, room)
        interval = ("band" if numeric([cell[keys[0]] for cell in cells]) else "thin line") if ends else ""
        unfit = "" if all(fits) else "Hollow points do not fit in memory."
    else:
        # A rate that no device has the memory for would stand out as the best.
        shown = [one.figure(key) if fit or not any(fits) else None for one, fit in zip(profiles, fits, strict=True)]
        table = {name: [cell[one] for cell in cells] for name, one in zip(names, keys, strict=True)} | {key: shown}
        drawn = Figure(kind="map", title=named, x=names[1], y=(names[0], key), missing="does not fit")
        about[key] = Column(label=figure.label, unit=figure.unit)
        chart = heat_map(Picture(table=table, about=about, figure=drawn, room=room))
        interval = f"up to ± {percent(max((high / low) ** 0.5 - 1 for low, high in ends))}" if ends else ""
        unfit = "" if any(fits) else "None of these fit in memory."
    title = labels.common_title([profile.scenario for profile in profiles])
    return specification(chart, title, [unfit, basis([profile.evidence for profile in profiles], interval)], room)


def _line(profiles: Sequence[Profile], values: Sequence[Any], name: str, key: str, title: str, room: Room) -> Panel:
    """A result over one key: a line with its interval over numbers, points with theirs over words."""
    rows: list[dict[str, Any]] = []
    for profile, value in zip(profiles, values, strict=True):
        if (of := profile.figure(key)) is not None:
            low, high = ends_of(profile, key, float(of))
            place = {"line": title, name: value if numeric(values) else str(value)}
            rows.append({**place, key: float(of), "fits": bool(profile.fits), f"{key}.low": low, f"{key}.high": high})
    y = axis(quantity(key), [row[column] for row in rows for column in (f"{key}.low", f"{key}.high")], count=6)
    color, tooltip = colored("line", [title]), [(name, ""), (key, ",.4~g"), "fits"]
    if numeric(values):
        x = axis(Quantity(label=name.replace("_", " "), unit=""), [float(value) for value in values], count=room.ticks)
        x = replace(x, ticks={**x.ticks, "values": values} if len(values) <= 2 * room.ticks else x.ticks)
        band = mark("area", rows, x=name, y=f"{key}.low", y2=f"{key}.high", color=LINES[0], opacity=0.18)
        marks = [band, *curve(rows, color, name, x=name, y=key, filled="datum.fits", tooltip=tooltip)]
    else:
        x = replace(names_below([str(value) for value in values], room.panel), title=name.replace("_", " "))
        span = interval(rows, x=name, y=f"{key}.low", y2=f"{key}.high", color=color)
        marks = [span, *curve(rows, color, name, x=name, y=key, filled="datum.fits", tooltip=tooltip)[1:]]
    return Panel(title=title, x=x, y=y, marks=marks, width=room.plot(620), height=280)
