"""Specifications as SVG or PNG, their colors in the dark, and the numbers in them as rows."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from sightline.charts.drawing import IN_THE_DARK, VEGA_LITE

_PNG_SCALE = 2.0


def draw(spec: dict[str, Any], path: str) -> str | bytes:
    """Return the chart as PNG or SVG, as the path's ending asks for; `sightline.render.document` makes pages."""
    import vl_convert

    if Path(path).suffix.lower() == ".png":
        png: bytes = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=_PNG_SCALE)
        return png
    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return svg.replace(">", f"><style>{dark_style()}</style>", 1)


@cache
def dark_style() -> str:
    """Return rules that give a picture other colors where the screen is dark; print keeps the light ones."""
    rules = "".join(
        f'svg [{kind}="{light}"]{{{kind}:{dark}}}' for light, dark in IN_THE_DARK.items() for kind in ("fill", "stroke")
    )
    # A renderer may also set the white ground as a style of the element.
    return f"@media screen and (prefers-color-scheme:dark){{svg{{background:transparent!important}}{rules}}}"


Spec = dict[str, Any]

LOOKS = frozenset(
    (
        *("key", "text", "text_at", "text_at_s", "ink", "color", "short", "shade"),
        *("about", "at_x", "at_y", "middle_s", "far", "aria", "place"),
    )
)
"""Columns that say how a mark looks, and where."""


def data_of(spec: Spec) -> list[dict[str, Any]]:
    """Return the numbers that a chart draws: a row per mark, with the title of its panel where there are several.

    Marks without a word are areas and lines that help to read the others, and have no rows.
    """
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    tables = [(title, values) for title, values in _tables(spec, spec.get("datasets", {}), "") if _says_what(values)]
    several = len({title for title, _ in tables if title}) > 1
    for title, values in tables:
        for value in values:
            row = {key: of for key, of in value.items() if key not in LOOKS and of is not None}
            if len(row) < 2 or (named := repr((title, sorted(row.items(), key=lambda pair: pair[0])))) in seen:
                continue
            seen.add(named)
            rows.append(({"panel": title} if several else {}) | row)
    return rows


def _says_what(values: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows say in a word what they are of."""
    words = [key for row in values[:1] for key, value in row.items() if isinstance(value, str)]
    return any(key == "about" or key not in LOOKS for key in words)


def _tables(part: Any, datasets: Mapping[str, Any], title: str) -> Iterator[tuple[str, Sequence[dict[str, Any]]]]:
    """The data of each mark but texts, which repeat what others draw, below the title of its panel."""
    if isinstance(part, list):
        for one in part:
            yield from _tables(one, datasets, title)
    if not isinstance(part, dict):
        return
    inner = _heading(part) or title
    data = part.get("data") or {}
    values = data.get("values") or datasets.get(data.get("name", ""), ())
    if values and _mark(part) != "text":
        yield inner, list(values)
    for key in ("layer", "concat", "hconcat", "vconcat"):
        yield from _tables(part.get(key), datasets, inner)


def _heading(part: Mapping[str, Any]) -> str:
    """The heading of a panel; that of layers may be of one of them."""
    said = part.get("title")
    text = said.get("text") if isinstance(said, dict) else said
    own = " ".join(text) if isinstance(text, list) else text
    return own or next(filter(None, map(_heading, part.get("layer", ()))), "")


def _mark(part: Mapping[str, Any]) -> Any:
    mark = part.get("mark")
    return mark.get("type") if isinstance(mark, dict) else mark
