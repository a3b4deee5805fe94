"""The pictures of a study, below each other."""

from collections.abc import Callable, Mapping
from typing import Any

import altair as alt

from sightline.exploration.answer import StudyAnswer
from sightline.report.charts import drawing
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.studies.bars import bars, stacks
from sightline.report.charts.studies.data import Picture
from sightline.report.charts.studies.factors import factors, tornado
from sightline.report.charts.studies.heat import heat_map
from sightline.report.charts.studies.lines import lines, points

_KINDS: Mapping[str, Callable[[Picture], Any]] = {
    "lines": lines,
    "points": points,
    "bars": bars,
    "stacks": stacks,
    "map": heat_map,
    "factors": factors,
    "tornado": tornado,
}
"""What draws each kind of figure."""


def study_chart(answer: StudyAnswer, room: Room = SCREEN, *, titled: bool = True) -> dict[str, Any]:
    """Return the Vega-Lite specification of a study's figures; those whose rows a small study lacks are left out."""
    pictures = [Picture(answer=answer, figure=figure, room=room) for figure in answer.figures]
    panels = [
        _KINDS[one.figure.kind](one)
        for one in pictures
        if one.values(*one.ys) or (one.figure.kind == "map" and len(one.columns[one.figure.x]))
    ]
    if not panels:
        panels = [drawing.of([{"text": "no data"}]).mark_text(color=drawing.FAINT).encode(text=alt.Text("text:N"))]
    # Scales of one picture say nothing of another.
    apart: dict[str, Any] = dict.fromkeys(("color", "shape", "strokeDash", "x", "y"), "independent")
    chart = alt.vconcat(*map(_from_the_left, panels), spacing=34).resolve_scale(**apart)
    return drawing.configure(chart, answer.title if titled else "", room=room)


def _from_the_left(panel: Any) -> Any:
    """A figure that begins at the left edge, however long the names of other figures' rows are.

    Plots below each other begin at one place, and so would leave a gap before short names; a plot of no width does.
    """
    nothing = drawing.of([{}]).mark_point(opacity=0).properties(width=1, height=1)
    return alt.hconcat(nothing, panel, spacing=0)
