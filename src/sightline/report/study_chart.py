"""A study's table as a picture: what was measured and what was predicted, row by row."""

from collections.abc import Sequence
from typing import Any

from sightline.report.look import FAINT, ROW_HEIGHT, configure

MEASURED, PREDICTED = "measured", "predicted"


def study_chart(cells: Sequence[tuple[str, str, float | None, float | None]]) -> dict[str, Any] | None:
    """Return the dots of a table's first quantity; None where nothing was measured.

    Args:
        cells: Row, column, measured and predicted value of each cell.
    """
    import altair as alt

    dots = [
        {"row": row, "column": column, "source": source, "value": value}
        for row, column, measured, predicted in cells
        if measured is not None
        for source, value in ((MEASURED, measured), (PREDICTED, predicted))
        if value is not None
    ]
    if not dots:
        return None
    order = list(dict.fromkeys(row for row, *_ in cells))
    base = alt.Chart(alt.InlineData(values=dots)).encode(y=alt.Y("row:N", sort=order, title=None))
    colour = alt.Color(
        "source:N",
        title=None,
        scale=alt.Scale(domain=[MEASURED, PREDICTED], range=["#2b5d94", "#e08a3c"]),
        legend=alt.Legend(orient="top"),
    )
    line = base.mark_rule(color=FAINT, opacity=0.4).encode(x=alt.X("min(value):Q"), x2="max(value):Q")
    marks = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("value:Q", title=None, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5, format="~s")),
        color=colour,
        tooltip=[
            alt.Tooltip("row:N"),
            alt.Tooltip("column:N"),
            alt.Tooltip("source:N"),
            alt.Tooltip("value:Q", format=",.4~s"),
        ],
    )
    columns = list(dict.fromkeys(column for _, column, *_ in cells))
    width = max(160, 560 // min(len(columns), 3))
    layered = (line + marks).properties(width=width, height=alt.Step(ROW_HEIGHT))
    if len(columns) > 1:
        facet = alt.Facet("column:N", sort=columns, title=None, header=alt.Header(labelFontSize=12))
        return configure(layered.facet(facet=facet, columns=3).resolve_scale(x="independent"))
    return configure(layered)
