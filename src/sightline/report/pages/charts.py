"""The charts of an answer as pieces of a page."""

from collections.abc import Collection
from typing import Any

from sightline.report import pieces
from sightline.report.pieces import Piece


def charts_piece(
    answer: Any,
    said: str,
    start: str = "chart",
    *,
    narrow: bool = True,
    most: int = 8,
    names: Collection[str] = (),
    but: Collection[str] = (),
    titled: bool = True,
) -> Piece:
    """Return every chart that an answer has, each with its title.

    Args:
        answer: What the index of charts knows (`sightline.report.charts.index`).
        said: The main figures, for readers who do not see the charts.
        start: Of the ids of the charts.
        narrow: Whether they have a form for narrow screens.
        most: How many of them are shown.
        names: The kinds that are shown if the answer has them; all where none is named.
        but: Kinds that are not shown.
        titled: Whether they have titles of their own, which say what the answer is of.
    """
    from sightline.report.charts.drawing import PHONE
    from sightline.report.charts.index import KINDS, chart_of

    found: list[Piece] = []
    for name in (name for name in names or KINDS if name not in but):
        wide = chart_of(name, answer) if len(found) < most else None
        if wide is not None:
            small = chart_of(name, answer, PHONE) if narrow else None
            title = KINDS[name].title
            if not titled:
                wide, small = _without_title(wide), _without_title(small)
            phone = None if small is None else _titled(small, title)
            found.append(pieces.chart(f"{start}-{name}", _titled(wide, title), phone, label=f"{title}: {said}"))
    return pieces.joined(*found)


def _titled(spec: pieces.Spec, title: str) -> pieces.Spec:
    """A chart that says what it shows: the page has the name of the scenario, the lines below the title say it too."""
    told = spec.get("title")
    own = told if isinstance(told, dict) else {"anchor": "start", "offset": 12}
    return {**spec, "title": {**own, "text": title, "fontSize": 15}}


def _without_title(spec: Any) -> Any:
    return spec and {key: value for key, value in spec.items() if key != "title"}
