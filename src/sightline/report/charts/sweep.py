"""A sweep over two keys as a heat map: the rate, or the time, of every pair of values."""

from collections.abc import Sequence
from typing import Any

from sightline.answers import labels
from sightline.exploration.answer import Column, Figure, StudyAnswer
from sightline.profile import Profile
from sightline.quantities import percent
from sightline.report.charts import drawing
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.studies.data import Picture
from sightline.report.charts.studies.heat import heat_map

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
    answer = StudyAnswer(study="sweep", title=title, axes={}, columns=columns, about=about)
    named = f"{figure.label[:1].upper()}{figure.label[1:]} by {x.replace('_', ' ')} and {y.replace('_', ' ')}"
    chart = heat_map(Picture(answer=answer, figure=Figure(kind="map", title=named, x=x, y=(y, best)), room=room))
    ends = [(float(low), float(high)) for p in profiles for low, high in [p.interval.get(best) or (0.0, None)] if high]
    said = f"up to ± {percent(max((high / low) ** 0.5 - 1 for low, high in ends))}" if ends else ""
    unfit = "None of these fit in memory." if not any(fits) else "" if all(fits) else "Empty: does not fit in memory."
    lines = [unfit, drawing.basis([profile.evidence for profile in profiles], said)]
    return drawing.configure(chart, title, list(filter(None, lines)), room)
