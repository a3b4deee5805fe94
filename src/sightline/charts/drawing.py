"""Colors, type and pieces shared by all charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.quantities import significant

VEGA_LITE = "6.4"
"""The version of Vega-Lite that specifications are written for, as vl-convert names it."""
INK, FAINT, LINE, WARNING, GOOD = "#222222", "#666666", "#ececec", "#c0392b", "#179e5f"
NETWORK, WAITING, HOST, REST = "#c4281f", "#b58300", "#919191", "#6e6e6e"
"""What means the same as a phase and as a limit: communication, bubbles and queues, the host; and what is left."""
PHASE_COLORS = {
    "forward": "#269ad4",
    "reference": "#2a2472",
    "backward": "#4a41be",
    "recompute": "#59758b",
    "optimizer": "#4d3f6a",
    "pipeline_bubble": WAITING,
    "communication_exposed": NETWORK,
    "queue": WAITING,
    "prefill": "#269ad4",
    "decode": "#4a41be",
    "communication": NETWORK,
    "transfer": "#59758b",
    "decode_queue": "#946400",
    "host": HOST,
}
"""Of phases: blue where the device works. Those of a task differ in hue and in lightness, as all families do, for the
color-blind and for print in grey; every color keeps 3 : 1 to its ground, that of a dark screen with `IN_THE_DARK`."""
INPUT_COLOR, OVERLAPPED_COLOR = "#2463a2", "#d0625b"
"""Of the backward pass to inputs alone, and of communication behind compute."""
MEMORY_COLORS = {
    "weights": "#5b42aa",
    "reference": "#513259",
    "gradients": "#ad71de",
    "optimizer": "#541d30",
    "activations": "#de63be",
    "kv_cache": "#90528b",
    "buffers": "#322270",
    "framework": "#767676",
}
"""Of parts of memory: violet to pink."""
LEVEL_COLORS = {"compute": "#058e53", "dram": "#214e4c", "l2": "#27341e", "network": NETWORK, "host": HOST}
"""Of the levels that bind: green on the device."""
LIMIT_COLORS = {
    "compute": LEVEL_COLORS["compute"],
    "memory": LEVEL_COLORS["dram"],
    "bubble": WAITING,
    "network": NETWORK,
    "host": HOST,
    "launches": REST,
    "input": "#7a7f1a",
    "imbalance": "#946400",
    "longest_sample": "#946400",
    "unmatched": HOST,
}
"""Of what limits a time."""
LINES = ("#3f454d", "#d2690a", "#007f89", "#a58a2c", "#8f5a3c", "#3f969b", "#6b7a10", "#8a8a8a")
"""Of lines that are named by a legend, in the order in which they are taken."""
PAIR = LINES[:2]
"""Of two sides: A and B, measured and predicted, less and more."""
LIGHT_TEXT, DARK_TEXT = "#fefefe", "#111111"
"""Text on a color; unlike ink and white they stay as they are where the screen is dark."""
IN_THE_DARK = {
    "white": "#16191d",
    INK: "#e8e8e8",
    FAINT: "#aab0b6",
    LINE: "#33383e",
    WARNING: "#ff7b6b",
    NETWORK: "#e5534b",
    "#269ad4": "#57b8ec",
    "#2a2472": "#c6c0ff",
    "#4a41be": "#6a60e0",
    "#2463a2": "#3a7cc0",
    "#4d3f6a": "#a892d6",
    "#5b42aa": "#8468e0",
    "#513259": "#e3c3ee",
    "#541d30": "#c4577f",
    "#322270": "#b7a8ff",
    "#058e53": "#35c27f",
    "#214e4c": "#3c7f7b",
    "#27341e": "#66785a",
    LINES[0]: "#c3cad3",
}
"""Colors that have another one where the reader's screen is dark, in the chart and in every picture of it."""


def text_on(color: str) -> str:
    """Return the color of a text on another color."""
    red, green, blue = ((channel / 255) ** 2.2 for channel in bytes.fromhex(color[1:]))
    return LIGHT_TEXT if 0.2126 * red + 0.7152 * green + 0.0722 * blue < _EVEN else DARK_TEXT


_EVEN = 0.18
"""Luminance at which light and dark texts stand out alike."""
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
