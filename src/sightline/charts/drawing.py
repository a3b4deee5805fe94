"""Colors, type and pieces shared by all charts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import altair as alt

from sightline.quantities import significant

BLUE, _LIGHT_BLUE, _PURPLE, _GREEN, RED = "#174a8c", "#5cbcf0", "#9a6096", "#179e5f", "#c4281f"
_ORANGE, _YELLOW, _GREY = "#d4570c", "#eeb41e", "#a3a3a3"
PHASE_COLORS = {
    "forward": _LIGHT_BLUE,
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


Units = Mapping[str, tuple[str, float | None]]
"""By a column's name in marks: its name in SI units, and what it is divided by where it is drawn; None of words."""


def in_si(unit: str, divisor: float, *columns: str) -> Units:
    """Return the units of columns that are called as in marks, with the SI unit behind: ``start_s``."""
    return {column: (f"{column}_{unit}", divisor) for column in columns}


def of(values: Sequence[dict[str, Any]], units: Units | None = None) -> Any:
    """Return a chart of these values, which marks and encodings make visible.

    Args:
        values: As they are drawn.
        units: Of columns that a specification keeps in SI units, under the name that its table has.
    """
    if not units:
        # Altair copies lists and mappings whenever panels are joined, but no tuples.
        return _Shared(alt.InlineData(values=tuple(values)))
    kept = tuple(
        {key: of for column, value in row.items() for key, of in [_kept(column, value, units)]} for row in values
    )
    there = [column for column in units if any(column in row for row in values)]
    scaled = [{"calculate": _drawn(*units[column]), "as": column} for column in there]
    return _Shared(alt.InlineData(values=kept), transform=scaled)


def _drawn(name: str, divisor: float | None) -> str:
    """What is drawn of a column in SI units, as Vega's expression."""
    return f"datum[{name!r}]" if divisor is None else f"datum[{name!r}] / {divisor!r}"


def _kept(column: str, value: Any, units: Units) -> tuple[str, Any]:
    """A column and its value in SI units."""
    if column not in units:
        return column, value
    name, divisor = units[column]
    return name, value if value is None or divisor is None else value * divisor


class _Shared(alt.Chart):
    """A chart whose copies share its encodings: joining charts copies each several times, and changes none of those."""

    def __deepcopy__(self, _: Any = None) -> Any:
        return self.copy(deep=False)


def heading(title: str, subtitle: str = "", **style: Any) -> Any:
    """Return the title of a panel, with a line below it if there is one."""
    below: dict[str, Any] = {"subtitle": subtitle, "subtitleFontSize": 11} if subtitle else {}
    looks: dict[str, Any] = {"anchor": "start", "fontSize": 13, "offset": 8} | below | style
    return alt.TitleParams(title, **looks)


def beside(*panels: Any, room: "Room", spacing: int = 36) -> Any:
    """Return panels next to each other where there is room, else below each other, each with its own colors."""
    joined = alt.hconcat(*panels, spacing=spacing) if room.side_by_side else alt.vconcat(*panels)
    return joined.resolve_scale(color="independent", strokeDash="independent")


def below(*panels: Any) -> dict[str, Any]:
    """Return panels below each other, each with its own colors, as a specification.

    Joined as plain mappings: Altair copies every object of a chart several times over to join it to others.
    """
    datasets: dict[str, Any] = {}
    context = {"top_level": False, "datasets": datasets}
    found = [panel.to_dict(validate=False, context=context) for panel in panels]
    joined = {"vconcat": found, "resolve": {"scale": {"color": "independent"}}}
    return {"$schema": alt.SCHEMA_URL, **joined, "datasets": datasets}


def logarithmic(low: float, high: float, **style: Any) -> Any:
    """Return a logarithmic scale that ends where it is told."""
    return alt.Scale(type="log", domain=[low, high], nice=False, **style)


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


def palette(colors: Mapping[str, str]) -> Any:
    """Return a scale of names and their colors."""
    return alt.Scale(domain=list(colors), range=list(colors.values()))


def configure(chart: Any, title: str = "", lines: Sequence[str] = (), room: Room = SCREEN) -> dict[str, Any]:
    """Return the chart as a specification with Sightline's title, axes and fonts."""
    # Set on the specification itself: Altair copies a whole chart for each property.
    spec: dict[str, Any] = chart if isinstance(chart, dict) else chart.to_dict(validate=False)
    if title and _is_headed(spec):
        spec = _as_panel(spec)
    if title:
        named = wrap(title, room.characters * 2 // 3)
        below = [line for said in lines for line in wrap(said, room.characters, break_on_hyphens=False)]
        text = named if len(named) > 1 else title
        spec["title"] = {"text": text, "subtitle": below, "anchor": "start", "offset": 18}
    padding = {"left": 16, "right": 16, "top": 14, "bottom": 12}
    return {**spec, "background": "white", "padding": padding, "config": _CONFIG}


def _is_headed(spec: Mapping[str, Any]) -> bool:
    """Whether a single view, or one of its layers, has a heading, which says what its axis is of and in which unit."""
    return "title" in spec or any(_is_headed(layer) for layer in spec.get("layer", ()))


def _as_panel(spec: dict[str, Any]) -> dict[str, Any]:
    """A single view as the only panel of a picture: the picture's title would otherwise take its heading's place."""
    whole: dict[str, Any] = {key: spec[key] for key in ("$schema", "datasets") if key in spec}
    panel = {key: value for key, value in spec.items() if key not in (*whole, "config")}
    return {**whole, "vconcat": [panel]}


_CONFIG: Mapping[str, Any] = {
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
