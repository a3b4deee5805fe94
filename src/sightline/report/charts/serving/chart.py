"""The picture of served loads: one over time with its latencies, or several over their rate."""

from collections.abc import Sequence
from typing import Any

from sightline.answers import labels
from sightline.profile import Profile
from sightline.report.charts import drawing
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.serving.course import course_panel, lines_of
from sightline.report.charts.serving.latencies import latency_panels, slo_line
from sightline.report.charts.serving.rates import is_curve, rate_chart

_WIDTH = 840
"""Pixels of the course where the latencies have three panels below it."""


def serving_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return the picture of one load over time, or of several over their rate; None where neither can be drawn."""
    if len(profiles) == 1:
        return _load_chart(profiles[0], room)
    answered = [profile for profile in profiles if profile.completed]
    if not answered or not is_curve([profile.scenario for profile in profiles]):
        return None
    return rate_chart(answered, room)


def _load_chart(profile: Profile, room: Room) -> dict[str, Any] | None:
    """One load over time, and below how its latencies are spread; None where no request was answered."""
    latencies = latency_panels(profile, None, room)
    if not latencies:
        return None
    course = course_panel(profile, room.plot(_WIDTH))
    spread = drawing.beside(*latencies, room=room, spacing=30)
    chart = drawing.below(*(panel for panel in (course, spread) if panel is not None))
    lines = [*lines_of(profile), *slo_line(profile)]
    return drawing.configure(chart, labels.title(profile.scenario), lines, room)
