"""Colors, type and pieces shared by all charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.quantities import significant

VEGA_LITE = "6.4"
"""The version of Vega-Lite that specifications are written for, as vl-convert names it."""
BLUE, _LIGHT_BLUE, _PURPLE, _GREEN, RED = "#174a8c", "#5cbcf0", "#9a6096", "#179e5f", "#c4281f"
_ORANGE, _YELLOW, _GREY, _MAROON = "#d4570c", "#eeb41e", "#a3a3a3", "#6c1330"
PHASE_COLORS = {
    "forward": _LIGHT_BLUE,
    "reference": _MAROON,
    "backward": BLUE,
    "recompute": _PURPLE,
    "optimizer": _GREEN,
    "communication_exposed": RED,
    "pipeline_bubble": _YELLOW,
    "queue": _YELLOW,
    "prefill": _LIGHT_BLUE,
    "decode": BLUE,
    "communication": RED,
    "transfer": _PURPLE,
    "decode_queue": _ORANGE,
    "host": _GREY,
}
"""Colors of the phases. Those of a task differ in hue and in lightness, for the color-blind and for print in grey."""
MEMORY_COLORS = {
    "weights": BLUE,
    "reference": _MAROON,
    "gradients": "#9dc8f5",
    "optimizer": _GREEN,
    "activations": _ORANGE,
    "kv_cache": "#b078ad",
    "buffers": "#edcf3c",
    "framework": "#7d7d7d",
}
OVERLAPPED_COLOR = "#eba7a2"
"""Of communication behind compute."""
INK, FAINT, LINE, WARNING = "#222222", "#666666", "#ececec", "#c0392b"
PAIR = (BLUE, "#e08a3c")
"""Colors of two sides: A and B, measured and predicted."""
LINES = (BLUE, _ORANGE, _GREEN, _LIGHT_BLUE, _PURPLE, _YELLOW, RED, "#7d7d7d", "#8c564b", "#17becf")
"""Colors of lines that are named by a legend, in the order in which they are taken."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
"""Shapes of points, in the order in which they are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How large a chart may be."""

    panel: int
    """Width of what is drawn, without the names of rows."""
    labels: int
    """Width of the names of rows."""
    characters: int
    """Of a line of the title."""
    side_by_side: bool
    """Whether two panels have room next to each other."""

    def row(self, name: str) -> str:
        """The name of a row; where there is little room, on two lines."""
        return name if self.side_by_side else name.replace(", ", ",\n", 1)

    @property
    def ticks(self) -> int:
        """About as many ticks as the axis of a panel has room for."""
        return 6 if self.side_by_side else 4

    def plot(self, most: int) -> int:
        """Pixels of a plot with numbers next to it: ``most`` where there is room."""
        return most if self.side_by_side else min(most, self.panel + self.labels - 24)

    @property
    def text(self) -> int:
        """Pixels of the text behind a bar."""
        return _TEXT if self.side_by_side else _SHORT_TEXT

    @property
    def with_text(self) -> float:
        """The width of a bar and of the text behind it over that of the bar."""
        return self.panel / (self.panel - self.text)


_TEXT, _SHORT_TEXT = 108, 66
"""Pixels of a text behind a bar, with its share and without."""
SCREEN = Room(panel=560, labels=150, characters=120, side_by_side=True)
PHONE = Room(panel=212, labels=112, characters=56, side_by_side=False)

ROW_HEIGHT = 22


def rounded(value: float) -> float:
    """Return a number as specifications of many points keep it: of six digits, more than any of them is known to."""
    return significant(value, 6)


Evidence = Mapping[str, str] | str
"""Its kind by part, or of a single operator the kind alone."""


def basis(evidence: Evidence | Sequence[Evidence], interval: str = "") -> str:
    """Return the line below a title that says what a chart rests on; empty where nothing is known.

    Args:
        evidence: Of one answer, or of each of several; a part that differs between them has several kinds.
        interval: How 80 % intervals are drawn, such as "thin line"; empty where none is.
    """
    parts: dict[str, dict[str, None]] = {}
    for one in [evidence] if isinstance(evidence, Mapping | str) else evidence:
        for part, kind in one.items() if isinstance(one, Mapping) else [("", one)] if one else []:
            parts.setdefault(str(kind), {})[part] = None
    kinds = ", ".join(f"{kind} ({', '.join(found)})" if any(found) else kind for kind, found in parts.items())
    said = [f"80 % interval: {interval}"] if interval else []
    return " · ".join([*said, *([f"evidence: {kinds}"] if kinds else [])])


CONFIG: Mapping[str, Any] = {
    "font": "Helvetica, Arial, sans-serif",
    "lineBreak": "\n",
    "title": {
        "fontSize": 18,
        "color": INK,
        "subtitleFontSize": 12,
        "subtitleColor": FAINT,
        "subtitleLineHeight": 17,
    },
    "axis": {
        "labelColor": INK,
        "titleColor": FAINT,
        "labelFontSize": 12,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "domain": False,
        "ticks": False,
        "gridColor": LINE,
        "labelLimit": 360,
    },
    "legend": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "symbolType": "square",
        "labelColor": INK,
        "titleColor": INK,
        "labelLimit": 320,
        # The schema wants an expression: legends of one chart stand below each other.
        "layout": {"expr": "{bottom: {anchor: 'start', direction: 'vertical', margin: 8, offset: 16}}"},
    },
    "view": {"stroke": None},
    "concat": {"spacing": 26},
}
"""Type, axes and legends of all charts."""
