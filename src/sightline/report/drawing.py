"""Chart specifications become files: SVG, PNG, or an HTML page that needs no network."""

from functools import cache
from html import escape
from pathlib import Path
from typing import Any

_PNG_SCALE = 2.0


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
    import altair

    return ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])


@cache
def _vega_bundle() -> str:
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite_version())
    return bundle.replace("</script", "<\\/script")


def _title(spec: dict[str, Any]) -> str:
    title = spec.get("title", "Sightline")
    return str(title.get("text", "Sightline") if isinstance(title, dict) else title)
