"""How charts become SVG or PNG, and their colors in the dark."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt

from sightline.report.charts.drawing import BLUE, FAINT, INK, LINE, RED, WARNING

_PNG_SCALE = 2.0
_IN_THE_DARK = {
    "white": "#16191d",
    INK: "#e8e8e8",
    FAINT: "#aab0b6",
    LINE: "#33383e",
    WARNING: "#ff7b6b",
    BLUE: "#3f78c2",
    RED: "#e5534b",
}
"""Colors that have another one where the reader's screen is dark, in the chart and in every picture of it."""


def draw(spec: dict[str, Any], path: str) -> str | bytes:
    """Return the chart as PNG or SVG, as the path's ending asks for; `sightline.render.document` makes pages."""
    import vl_convert

    if Path(path).suffix.lower() == ".png":
        png: bytes = vl_convert.vegalite_to_png(spec, vl_version=vega_lite_version(), scale=_PNG_SCALE)
        return png
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=vega_lite_version())
    return svg.replace(">", f"><style>{dark_style()}</style>", 1)


def in_the_dark() -> Mapping[str, str]:
    """Return the colors that have another one where the reader's screen is dark, with that one."""
    return _IN_THE_DARK


@cache
def dark_style() -> str:
    """Return rules that give a picture other colors where the screen is dark; print keeps the light ones."""
    rules = "".join(
        f'svg [{kind}="{light}"]{{{kind}:{dark}}}'
        for light, dark in _IN_THE_DARK.items()
        for kind in ("fill", "stroke")
    )
    # A renderer may also set the white ground as a style of the element.
    return f"@media screen and (prefers-color-scheme:dark){{svg{{background:transparent!important}}{rules}}}"


@cache
def vega_lite_version() -> str:
    """Return the Vega-Lite version that the installed Altair writes, as vl-convert names it: major.minor."""
    return ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
