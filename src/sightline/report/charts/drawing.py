"""Colors, type and pieces shared by all charts, and how they become SVG, PNG, or an HTML page without a network."""

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

_PNG_SCALE = 2.0

PHASE_COLORS = {
    "forward": "#5b8fc7",
    "backward": "#2b5d94",
    "recompute": "#9a6fb0",
    "optimizer": "#4f9d69",
    "communication_exposed": "#d9534f",
    "pipeline_bubble": "#e0b040",
    "prefill": "#5b8fc7",
    "decode": "#e08a3c",
    "communication": "#d9534f",
    "transfer": "#9a6fb0",
    "host": "#8c8c8c",
}
MEMORY_COLORS = {
    "weights": "#2b5d94",
    "gradients": "#5b8fc7",
    "optimizer": "#4f9d69",
    "activations": "#e08a3c",
    "kv_cache": "#9a6fb0",
    "buffers": "#e0b040",
    "framework": "#8c8c8c",
}
INK, FAINT, LINE, WARNING = "#222222", "#666666", "#ececec", "#c0392b"
PAIR = ("#2b5d94", "#e08a3c")
"""Colors of two sides: A and B, measured and predicted."""

ROW_HEIGHT = 22


def of(values: Sequence[dict[str, Any]]) -> Any:
    """Return a chart of these values, which marks and encodings make visible."""
    return alt.Chart(alt.InlineData(values=values))


def heading(title: str, subtitle: str = "", **style: Any) -> Any:
    """Return the title of a panel, with a line below it if there is one."""
    below: dict[str, Any] = {"subtitle": subtitle, "subtitleFontSize": 11} if subtitle else {}
    looks: dict[str, Any] = {"anchor": "start", "fontSize": 13, "offset": 8} | below | style
    return alt.TitleParams(title, **looks)


def logarithmic(low: float, high: float, **style: Any) -> Any:
    """Return a logarithmic scale that ends where it is told."""
    return alt.Scale(type="log", domain=[low, high], nice=False, **style)


def palette(colors: Mapping[str, str]) -> Any:
    """Return a scale of names and their colors."""
    return alt.Scale(domain=list(colors), range=list(colors.values()))


def configure(chart: Any, title: str = "", lines: Sequence[str] = ()) -> dict[str, Any]:
    """Return the chart as a specification with Sightline's title, axes and fonts."""
    if title:
        chart = chart.properties(title={"text": title, "subtitle": list(lines), "anchor": "start", "offset": 18})
    spec: dict[str, Any] = (
        chart.properties(background="white", padding={"left": 16, "right": 16, "top": 14, "bottom": 12})
        .configure(font="Helvetica, Arial, sans-serif")
        .configure_title(fontSize=18, color=INK, subtitleFontSize=12, subtitleColor=FAINT, subtitleLineHeight=17)
        .configure_axis(
            labelColor=INK,
            titleColor=FAINT,
            labelFontSize=12,
            titleFontSize=11,
            titleFontWeight="normal",
            domain=False,
            ticks=False,
            gridColor=LINE,
            labelLimit=360,
        )
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolType="square", labelColor=INK, labelLimit=320)
        .configure_view(stroke=None)
        .configure_concat(spacing=26)
        .to_dict()
    )
    return spec


def draw(spec: dict[str, Any], path: str) -> str | bytes:
    """Return the chart in the form that the path's ending asks for."""
    import vl_convert

    ending = Path(path).suffix.lower()
    if ending == ".png":
        png: bytes = vl_convert.vegalite_to_png(spec, vl_version=vega_lite_version(), scale=_PNG_SCALE)
        return png
    if ending == ".svg":
        svg: str = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
        return svg
    return html_document(_title(spec), f"<main>{chart_element(spec, 'chart')}</main>")


def html_document(title: str, body: str, style: str = "") -> str:
    """Return a complete page with Vega, Vega-Lite and Vega-Embed inside, so that it opens without a network."""
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n"
        f"<script>{_vega_bundle()}</script>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def chart_element(spec: dict[str, Any], identifier: str) -> str:
    """Return the element that shows a chart, and the script that draws it, for a page with the Vega bundle."""
    import json

    # "</" inside a script element would end it early.
    text = json.dumps(spec, allow_nan=False).replace("</", "<\\/")
    options = '{"actions": false, "renderer": "svg"}'
    return f'<div id="{identifier}"></div>\n<script>vegaEmbed("#{identifier}", {text}, {options});</script>'


@cache
def vega_lite_version() -> str:
    """Return the Vega-Lite version that the installed Altair writes, as vl-convert names it: major.minor."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])


@cache
def _vega_bundle() -> str:
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite_version())
    return bundle.replace("</script", "<\\/script")


def _title(spec: dict[str, Any]) -> str:
    title = spec.get("title", "Sightline")
    return str(title.get("text", "Sightline") if isinstance(title, dict) else title)
