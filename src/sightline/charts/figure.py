"""The declarative figure of every chart: marks, axes, series and panels as data, and the specification they become.

Rows hold SI units under the names that readers of the numbers see. An axis says by what its column is divided where it
is drawn; nothing else converts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, log, log10
from textwrap import wrap
from typing import Any

from sightline.answers.study import Quantity
from sightline.charts.drawing import CONFIG, INK, LINES, SCREEN, SHAPES, VEGA_LITE, WARNING, Room
from sightline.profile.metrics import metric_of

Rows = Sequence[Mapping[str, Any]]
Spec = dict[str, Any]

SCHEMA = f"https://vega.github.io/schema/vega-lite/v{VEGA_LITE}.0.json"
_PLACES = ("x", "y", "x2", "y2")
_CHANNELS = frozenset(
    (
        *(*_PLACES, "xOffset", "yOffset", "color", "fill", "stroke", "shape", "size", "strokeDash"),
        *("text", "order", "detail", "tooltip"),
    )
)
_SPREAD_OF_LOG = 12.0
"""Largest over smallest value from which an axis is logarithmic."""
_THOUSANDS = 1e4
"""Value from which an axis counts in thousands, millions and so on."""
_PADDING = 0.08
"""Share of an axis that is left free at either end."""
_LEAST_TICKS = 4
_DIGITS = ((1,), (1, 2, 5), (1, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9))
"""What is marked of each decade, more where few marks fall on the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One side of a panel: its title, the unit of its column, its scale and its ticks as Vega-Lite has them."""

    title: str | None = None
    divisor: float = 1.0
    """By what the column's values, in SI units, are divided where they are drawn."""
    scale: Mapping[str, Any] = field(default_factory=dict)
    ticks: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "quantitative"
    """``quantitative``, or ``nominal`` and ``ordinal`` for names."""
    names: Sequence[Any] | None = None
    """Of names: their order."""

    @property
    def is_log(self) -> bool:
        """Whether the scale is logarithmic."""
        return self.scale.get("type") == "log"

    def place(self, value: float) -> float:
        """Return where a value, in SI units, lies: 0 at the lower end, 1 at the upper."""
        low, high = map(float, self.scale["domain"])
        shown = value / self.divisor
        return log(shown / low) / log(high / low) if self.is_log else (shown - low) / (high - low)

    def clamped(self) -> "Axis":
        """Return the axis with what lies beyond it drawn at its end."""
        return replace(self, scale={**self.scale, "clamp": True})

    def within(self, value: float) -> float:
        """Return the value, in SI units, or the end of the axis that it lies beyond."""
        low, high = map(float, self.scale["domain"])
        return min(max(value, low * self.divisor), high * self.divisor)


def names(order: Sequence[str], *, line: float = 13, scale: Mapping[str, Any] | None = None, **labels: Any) -> Axis:
    """Return an axis of names in their order, which may have several lines of some height."""
    if any("\n" in name for name in order):
        # A label of several lines begins at the middle of its row, if it is not raised.
        tests = ((f"split(datum.label, '\\n').length === {count}", line / 2 * (1 - count)) for count in (2, 3, 4))
        raised = {"condition": [{"test": test, "value": value} for test, value in tests], "value": 0}
        labels = {"labelOffset": raised, "labelLineHeight": line, **labels}
    return Axis(
        kind="nominal",
        names=order,
        ticks={"grid": False, **labels},
        scale={"paddingInner": 0.25} if scale is None else scale,
    )


def quantity(key: str, label: str = "") -> Quantity:
    """Return what a result key holds, as its metric states it."""
    metric = metric_of("memory_bytes.total" if key.startswith("memory_bytes") else key)
    return Quantity(label=label or metric.label, unit="" if metric.unit in ("count", "word") else metric.unit)


def logarithmic(title: str | None, low: float, high: float, divisor: float = 1.0, **ticks: Any) -> Axis:
    """Return a logarithmic axis between two values in SI units, with marks at round numbers."""
    domain = [low / divisor, high / divisor]
    marks = {"values": decade_ticks(*domain), "format": "~g", "labelOverlap": True}
    return Axis(
        title=title, divisor=divisor, scale={"type": "log", "domain": domain, "nice": False}, ticks=marks | ticks
    )


def linear(title: str | None, low: float, high: float, divisor: float = 1.0, **ticks: Any) -> Axis:
    """Return an axis that ends at two values in SI units."""
    scale = {"domain": [low / divisor, high / divisor], "nice": False}
    return Axis(title=title, divisor=divisor, scale=scale, ticks=ticks)


def axis(
    quantity: Quantity, values: Sequence[float], *, count: int = 6, better: str = "", is_log: bool | None = None
) -> Axis:
    """Return the axis of a quantity in the unit that suits the largest of its values.

    Args:
        quantity: Its label and unit.
        values: In SI units.
        count: About how many ticks there are.
        better: Which values are better, said behind the label; empty says nothing.
        is_log: Whether the axis is logarithmic; by default where the values spread far.
    """
    divisor, unit = quantity.scaled(max(values))
    title = quantity.titled(unit) + (f", {better} is better" if better else "")
    low, high = min(values), max(values)
    if (low > 0 and high / low > _SPREAD_OF_LOG) if is_log is None else is_log:
        room = (high / low) ** _PADDING
        return logarithmic(title, low / room, high * room, divisor, **_format(quantity, high * room / divisor, "~g"))
    room = _PADDING * (high - low) or 0.1 * abs(high) or 1.0
    low, high = max(low - room, 0.0) if low >= 0 else low - room, high + room
    form = _format(quantity, high / divisor, ",~f")
    return linear(title, low, high, divisor, **form, tickCount=count, labelOverlap=True)


def _format(quantity: Quantity, highest: float, plain: str) -> dict[str, str]:
    """The format of ticks up to the highest: amounts of money, and thousands with a letter."""
    return {"format": "$" * (quantity.unit == "USD") + ("~s" if highest >= _THOUSANDS else plain)}


def decade_ticks(low: float, high: float) -> list[float]:
    """Return marks between two values of a logarithmic axis: the decades of a long one, more of each of a short one."""
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for digits in _DIGITS:
        marks = [digit * 10.0**decade for decade in decades for digit in digits if low <= digit * 10.0**decade <= high]
        if len(marks) >= _LEAST_TICKS:
            return marks
    step = 10.0 ** floor(log10(high - low))
    while (floor(high / step) - ceil(low / step) + 1) < _LEAST_TICKS:
        step /= 2.0
    return [float(f"{count * step:.6g}") for count in range(ceil(low / step), floor(high / step) + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What tells marks apart: a column of words, and the color, shape or dash of each."""

    column: str
    looks: Mapping[str, Any]
    legend: Mapping[str, Any] | None = None
    """Of Vega-Lite, beyond its place below the panel; None where none is drawn."""

    def channel(self) -> Spec:
        """Return the encoding."""
        scale = {"domain": list(self.looks), "range": list(self.looks.values())}
        legend = None if self.legend is None else {"title": None, "orient": "bottom", **self.legend}
        return {"field": self.column, "type": "nominal", "scale": scale, "legend": legend}


def colored(column: str, words: Sequence[str], legend: Mapping[str, Any] | None = None) -> Series:
    """Return the series of words in the colors of lines, with a legend where there are several."""
    found = list(dict.fromkeys(words))
    looks = dict(zip(found, (LINES[i % len(LINES)] for i in range(len(found))), strict=True))
    return Series(column=column, looks=looks, legend=(legend or {}) if len(found) > 1 else None)


def shaped(column: str, words: Sequence[str], legend: Mapping[str, Any] | None = None) -> Series:
    """Return the series of words in shapes of their own."""
    looks = {word: SHAPES[i % len(SHAPES)] for i, word in enumerate(words)}
    return Series(column=column, looks=looks, legend=legend)


def only_if(test: str, series: Series) -> Spec:
    """Return the color of a series where a test holds, else white: hollow points."""
    return {"condition": {"test": test, **series.channel(), "legend": None}, "value": "white"}


@dataclass(frozen=True, slots=True)
class Mark:
    """Rows that are drawn in one way."""

    kind: str
    """As Vega-Lite calls it: bar, line, point, rule, text and so on."""
    rows: Rows
    encoding: Mapping[str, Any]
    """A column, a `Series`, or an encoding as Vega-Lite has it, by channel."""
    style: Mapping[str, Any]


def mark(kind: str, rows: Rows, **looks: Any) -> Mark:
    """Return rows as marks; numbers and colors are the same for all of them, the names of columns encode."""
    given = {key: value for key, value in looks.items() if value is not None}
    encoding = {key: value for key, value in given.items() if key in _CHANNELS and _encodes(key, value)}
    return Mark(kind, rows, encoding, {key: value for key, value in given.items() if key not in encoding})


def _encodes(channel: str, value: Any) -> bool:
    is_color = isinstance(value, str) and (value.startswith("#") or value == "white")
    return channel == "tooltip" or (isinstance(value, Series | Mapping | str) and not is_color)


def words(rows: Rows, **looks: Any) -> Mark:
    """Return the texts of rows, to the right of where they stand."""
    return mark("text", rows, **{"text": "text", "align": "left", "dx": 5, "fontSize": 11, "color": INK, **looks})


def interval(rows: Rows, **looks: Any) -> Mark:
    """Return thin lines between two columns of an axis."""
    return mark("rule", rows, **{"strokeWidth": 1.5, "color": INK, **looks})


def threshold(row: Mapping[str, Any], color: str = WARNING, **looks: Any) -> Mark:
    """Return a dashed line across the panel."""
    return mark("rule", [row], strokeDash=[5, 4], strokeWidth=1.5, color=color, **looks)


def curve(
    rows: Rows, color: Series, order: str, *, filled: str = "", tooltip: Sequence[Any] = (), **looks: Any
) -> list[Mark]:
    """Return a line for each word of a series, and its points: hollow where the test ``filled`` fails."""
    # Vega-Lite warns of channels with one legend that only some of them draw.
    bare = {**color.channel(), "legend": None}
    points = {"stroke": bare, "fill": only_if(filled, color)} if filled else {"fill": color}
    line = mark("line", rows, color=color, order={"field": order, "type": "quantitative"}, strokeWidth=1.6, **looks)
    dots = mark(
        "point", rows, stroke=color, size=44, filled=False, strokeWidth=1.5, opacity=1, tooltip=tooltip, **looks
    )
    return [line, Mark(dots.kind, rows, {**dots.encoding, **points}, dots.style)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Marks on two axes."""

    marks: Sequence[Mark]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str | Sequence[str] = ""
    subtitle: str = ""
    heading: Mapping[str, Any] = field(default_factory=dict)
    """How the title is written, where it is not as others are."""
    width: float | None = None
    height: float | None = None
    apart: Sequence[str] = ()
    """Channels of which each mark has a scale of its own."""
    zoom: str = ""
    """The name under which a page zooms along x, ``zoom0`` in the first panel and so on; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Panels next to or below each other."""

    parts: Sequence["Panel | Group"]
    columns: int = 1
    """In a row; 0 for all of them in one."""
    spacing: float | None = None
    title: str | Sequence[str] = ""
    subtitle: str = ""
    heading: Mapping[str, Any] = field(default_factory=dict)
    apart: Sequence[str] = ("color", "shape", "strokeDash")
    """Channels of which each panel has a scale of its own."""


def beside(*panels: Panel | Group, room: Room, spacing: float = 36) -> Group:
    """Return panels next to each other where there is room, else below each other."""
    return Group(parts=panels, columns=0, spacing=spacing) if room.side_by_side else Group(parts=panels)


def message(text: str) -> Panel:
    """Return a panel that says why there is nothing to draw."""
    return Panel(marks=[mark("text", [{"text": text}], text="text")])


def specification(part: Panel | Group, title: str = "", lines: Sequence[str] = (), room: Room = SCREEN) -> Spec:
    """Return the Vega-Lite specification of a figure with Sightline's title, axes and fonts.

    Args:
        part: What is drawn.
        title: Of the whole; empty where the page has it.
        lines: Below the title; empty ones are left out.
        room: How large it may be.
    """
    if title and part.title:
        # The title of the whole would otherwise take the place of the panel's.
        part = Group(parts=[part])
    datasets: dict[int, tuple[str, Rows]] = {}
    spec = {
        "$schema": SCHEMA,
        **_view(part, datasets),
        "datasets": {name: list(rows) for name, rows in datasets.values()},
    }
    if title:
        named = wrap(title, room.characters * 2 // 3)
        below = [line for said in filter(None, lines) for line in wrap(said, room.characters, break_on_hyphens=False)]
        text = named if len(named) > 1 else title
        spec["title"] = {"text": text, "subtitle": below, "anchor": "start", "offset": 18}
    padding = {"left": 16, "right": 16, "top": 14, "bottom": 12}
    return {**spec, "background": "white", "padding": padding, "config": CONFIG}


def _view(part: Panel | Group, datasets: dict[int, tuple[str, Rows]]) -> Spec:
    view: Spec = {}
    if part.title:
        below = {"subtitle": part.subtitle, "subtitleFontSize": 11} if part.subtitle else {}
        view["title"] = {"text": part.title, "anchor": "start", "fontSize": 13, "offset": 8, **below, **part.heading}
    if part.apart:
        view["resolve"] = {"scale": dict.fromkeys(part.apart, "independent")}
    if isinstance(part, Panel):
        sizes = {"width": part.width, "height": part.height}
        layers = [_layer(one, part, datasets) for one in part.marks]
        if part.zoom:
            select = {"type": "interval", "encodings": ["x"], "zoom": "wheel![event.ctrlKey]"}
            layers[0]["params"] = [{"name": part.zoom, "select": select, "bind": "scales"}]
        return {"layer": layers, **{key: size for key, size in sizes.items() if size is not None}, **view}
    inner = [_view(one, datasets) for one in part.parts]
    form = {0: {"hconcat": inner}, 1: {"vconcat": inner}}.get(part.columns, {"concat": inner, "columns": part.columns})
    return {**form, **({} if part.spacing is None else {"spacing": part.spacing}), **view}


def _layer(one: Mark, panel: Panel, datasets: dict[int, tuple[str, Rows]]) -> Spec:
    name, _ = datasets.setdefault(id(one.rows), (f"data-{len(datasets)}", one.rows))
    scaled: dict[str, str] = {}
    encoding = {channel: _channel(channel, value, panel, scaled) for channel, value in one.encoding.items()}
    made = [{"calculate": formula, "as": drawn} for drawn, formula in scaled.items()]
    found = {"data": {"name": name}, "mark": {"type": one.kind, **one.style}, "encoding": encoding}
    return {**found, **({"transform": made} if made else {})}


def _channel(channel: str, value: Any, panel: Panel, scaled: dict[str, str]) -> Any:
    """The encoding of a channel; ``scaled`` gets the columns that are drawn in another unit, with their formula."""
    if isinstance(value, Series):
        return value.channel()
    if channel == "tooltip":
        return [_tooltip(one) for one in value]
    if isinstance(value, Mapping) and ("value" in value or "aggregate" in value or channel not in _PLACES):
        return value
    column, more = (value["field"], value) if isinstance(value, Mapping) else (value, {})
    if channel not in _PLACES:
        return {"field": column, "type": "nominal"}
    side = panel.x if channel[0] == "x" else panel.y
    if side.kind == "quantitative" and (side.divisor != 1.0 or "." in column):
        drawn = column.replace(".", "_") + "_drawn"
        scaled[drawn] = f"datum[{column!r}] / {side.divisor!r}"
        column = drawn
    if channel.endswith("2"):
        return {**more, "field": column}
    order = {} if side.names is None else {"sort": list(side.names)}
    looks = {key: dict(look) for key, look in (("scale", side.scale), ("axis", side.ticks)) if look}
    return {"type": side.kind, "title": side.title, **order, **looks, **more, "field": column}


def _tooltip(column: Any) -> Spec:
    """What a mark says of a column when it is pointed at: a column of words, or one of numbers with their format."""
    if isinstance(column, str):
        return {"field": column, "type": "nominal"}
    name, form, *title = column
    column = {"field": name.replace(".", "\\."), "type": "quantitative", "format": form} if form else {"field": name}
    return {"type": "nominal", **column, **({"title": title[0]} if title else {})}
