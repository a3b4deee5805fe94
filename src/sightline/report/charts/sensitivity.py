"""The picture of a sensitivity: elasticities to the numbers of a device and its links as a tornado."""

from typing import Any

from sightline.answers import labels
from sightline.answers.analyses import LABELS
from sightline.exploration.answer import Column, Figure, StudyAnswer
from sightline.prediction.sensitivity import Sensitivity
from sightline.report.charts import drawing
from sightline.report.charts.drawing import SCREEN, Room
from sightline.report.charts.studies.data import Picture
from sightline.report.charts.studies.factors import tornado

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
        if abs(values[key]) >= _NEGLIGIBLE
    ]
    if not rows:
        return None
    names = {key: _NAMES.get(key) or task.figures[key].label.capitalize() for key in task.times}
    columns = dict(zip(("time", "number", "elasticity"), map(list, zip(*rows, strict=True)), strict=True))
    answer = StudyAnswer(
        study="sensitivity",
        title=labels.title(found.answer.scenario),
        axes={},
        columns=columns,
        about={
            "time": Column(label="time", values=names),
            "elasticity": Column(label="change in time (%) for +1 %"),
        },
    )
    several = len({key for key, _, _ in rows}) > 1
    about = "Times" if several else names[rows[0][0]]
    figure = Figure(
        kind="tornado",
        title=f"{about} by hardware input",
        x="number",
        y="elasticity",
        panel="time" if several else "",
    )
    chart = tornado(Picture(answer=answer, figure=figure, room=room))
    lines = [
        "Effect of raising an input by 1 %: blue reduces the time, orange increases it.",
        drawing.basis(found.answer.evidence),
    ]
    return drawing.configure(chart, answer.title, list(filter(None, lines)), room)
