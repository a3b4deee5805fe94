"""The picture of a validation: predicted over measured, a panel per suite, with a band of ten per cent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.report import look
from sightline.report.accuracy import by_kind, case_label, quantity_name

if TYPE_CHECKING:
    from sightline.validation import Result

_SIDE, _COLUMNS = 230, 3
_BAND = 0.1
_POINTS = 150
"""Cases of a part that are drawn; of more, evenly many."""
_SPLIT_COLOURS = {"fit": "#b9c9da", "test": "#d9534f"}


def validation_chart(results: "Sequence[Result]") -> dict[str, Any]:
    """Return the Vega-Lite specification: one log-log panel per suite, the panels of a kind under one heading."""
    import altair as alt

    answered = [result for result in results if any(answer.predicted for answer in result.answers)]
    groups = []
    for kind, suites in by_kind(answered).items():
        panels = [_panel(name, parts[0].quantity, parts) for name, parts in suites.items()]
        heading = alt.TitleParams(kind, anchor="start", fontSize=16)
        groups.append(alt.concat(*panels, columns=_COLUMNS).properties(title=heading))
    if not groups:
        groups = [
            alt.Chart(alt.InlineData(values=[{"text": "no case was answered"}])).mark_text().encode(text="text:N")
        ]
    lines = ["Test cases red, fitted cases grey; the band is 10 per cent either way. SI units, logarithmic axes."]
    return look.configure(alt.vconcat(*groups), "Predicted over measured", lines)


def _panel(suite: str, quantity: str, parts: "Sequence[Result]") -> Any:
    import altair as alt

    points: list[dict[str, Any]] = [
        {"case": case_label(a), "measured": a.case.measured, "predicted": a.predicted, "part": part.split}
        for part in parts
        for a in part.answers[:: 1 + len(part.answers) // _POINTS]
        if a.predicted is not None
    ]
    values = [p[key] for p in points for key in ("measured", "predicted")]
    low, high = min(values) / 1.3, max(values) * 1.3
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(tickCount=4, format="~s", labelFontSize=11, grid=False, minExtent=40, maxExtent=40)
    band = [{"x": x, "low": x * (1 - _BAND), "high": x * (1 + _BAND), "y": x} for x in (low, high)]
    ends = alt.Chart(alt.InlineData(values=band))
    x = alt.X("x:Q", scale=scale)
    area = ends.mark_area(color="#e8eef5", clip=True).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q")
    line = ends.mark_line(color=look.FAINT, strokeWidth=1, clip=True).encode(x=x, y=alt.Y("y:Q", scale=scale))
    colours = alt.Scale(domain=list(_SPLIT_COLOURS), range=list(_SPLIT_COLOURS.values()))
    dots = (
        alt.Chart(alt.InlineData(values=points))
        .mark_circle(size=34, opacity=0.75, aria=False)
        .encode(
            x=alt.X("measured:Q", scale=scale, title="measured", axis=axis),
            y=alt.Y("predicted:Q", scale=scale, title="predicted", axis=axis),
            color=alt.Color("part:N", scale=colours, legend=None),
            tooltip=["case:N", "measured:Q", "predicted:Q", "part:N"],
        )
    )
    heading = alt.TitleParams(
        suite, subtitle=_errors(quantity, parts), anchor="start", fontSize=13, subtitleFontSize=11
    )
    return alt.layer(area, line, dots).properties(width=_SIDE, height=_SIDE, title=heading)


def _errors(quantity: str, parts: "Sequence[Result]") -> str:
    said = [f"{part.split} {100 * part.mape:.1f} %" for part in parts if part.mape is not None]
    return f"{quantity_name(quantity)}: mean error {', '.join(said)}"
