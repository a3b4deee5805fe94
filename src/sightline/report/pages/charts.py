"""The charts of an answer as pieces of a page."""

from typing import Any

from sightline.report import pieces
from sightline.report.pieces import Piece


def charts_piece(answer: Any, said: str, start: str = "chart", *, narrow: bool = True, most: int = 8) -> Piece:
    """Return every chart that an answer has, each under its title.

    Args:
        answer: What the index of charts knows (`sightline.report.charts.index`).
        said: The main figures, for readers who do not see the charts.
        start: Of the ids of the charts.
        narrow: Whether they have a form for narrow screens.
        most: How many of them are shown.
    """
    from sightline.report.charts.index import charts_of

    found = (
        pieces.chart(
            f"{start}-{one.name}",
            one.wide,
            one.phone if narrow else None,
            label=f"{one.title}: {said}",
            caption=one.title,
        )
        for one in charts_of(answer)[:most]
    )
    return pieces.joined(*found)
