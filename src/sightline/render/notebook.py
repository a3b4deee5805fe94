"""What a notebook shows of an answer: a table for people, then charts, each in forms that front ends choose from."""

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

from sightline.answers.outline import Charts, Outline, Part, Studies
from sightline.charts.drawing import Room
from sightline.render.html import drawn, outline_piece

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 700
"""Pixels of the widest chart that is drawn live: a front end may give an output no more."""
NOTEBOOK = Room(panel=400, labels=150, characters=92, side_by_side=False)
"""How large charts are in a notebook."""
_COLUMNS = 110
"""Of texts, which front ends without HTML show."""
_MOST_PICTURE = 150_000
"""Bytes of an SVG picture; a larger one becomes a PNG, whose size depends on its area alone."""
_OF_MARKS = re.compile(r' (?:role="graphics-[a-z]+"|aria-roledescription="[^"]*"|aria-label="[^"]*")')
"""What an SVG says of every mark, which makes it twice as large; the table says the same."""
STYLE = """
.sightline { color: inherit; font-size: 13px; line-height: 1.45; max-width: 100%; }
.sightline .title { font-size: 16px; font-weight: bold; } .sightline p { margin: 0 0 3px; }
.sightline h3, .sightline h4, .sightline h5 { font-size: 13px; margin: 8px 0 2px; }
.sightline .faint { opacity: .72; } .sightline .bad { font-weight: bold; border-left: 3px solid #c4281f;
padding-left: 7px; } .sightline .good { border-left: 3px solid #179e5f; padding-left: 7px; }
.sightline .perhaps { border-left: 3px solid #b26a00; padding-left: 7px; }
.sightline dl { margin: 4px 0 8px; } .sightline .answer div { display: grid; grid-template-columns: 120px 1fr;
gap: 0 12px; } .sightline dt { font-weight: normal; opacity: .72; } .sightline dd { margin: 0; }
.sightline .cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 6px; }
.sightline .cards div { grid-column: 1 / -1; } .sightline .cards .card { grid-column: auto; display: block;
border: 1px solid rgba(128, 128, 128, .35); border-radius: 6px; padding: 5px 9px; }
.sightline .card dd { border: 0; padding: 0; } .sightline .card .value { font-size: 17px; font-weight: bold; }
.sightline .card svg { display: block; margin: 3px 0; } .sightline .card svg line { stroke: currentColor; }
.sightline .scroll { overflow-x: auto; max-width: 100%; }
.sightline table { border-collapse: collapse; margin: 4px 0 8px; color: inherit; background: transparent; }
.sightline th, .sightline td { padding: 2px 14px 2px 0; text-align: left !important; vertical-align: top;
background: transparent; color: inherit; border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35); }
.sightline th { font-weight: normal; opacity: .72; }
.sightline td.n, .sightline th.n { text-align: right !important; white-space: nowrap;
font-variant-numeric: tabular-nums; }
.sightline summary { cursor: pointer; } .sightline pre { white-space: pre-wrap; overflow-wrap: anywhere; }
"""
"""Colors come from the front end's theme, light or dark."""
_LEFT_OUT = ("roofline", "pipeline", "pareto", "scaling", "heat-map")
"""Charts that a notebook shows where they are asked for."""


@dataclass(frozen=True, slots=True)
class View:
    """An answer as a notebook shows it."""

    outline: Outline

    @property
    def charts(self) -> list[dict[str, Any]]:
        """The charts of the answer as Vega-Lite specifications; those of a study that is the only one too."""
        return list(_charts(self.outline.parts))

    def bundle(self) -> dict[str, Any]:
        """Return the answer without charts by MIME type."""
        title = f'<p class="title">{escape(self.outline.title)}</p>'
        piece = outline_piece(self.outline, level=3, in_notebook=True)
        body = f'<style>{STYLE}</style><div class="sightline">{title}{piece.html}</div>'
        return {"text/plain": plain(_text(self.outline)), "text/html": body}

    def publish(self) -> None:
        """Show the answer, and below it its charts as outputs of their own."""
        from IPython.display import display

        display(self.bundle(), raw=True)  # type: ignore[no-untyped-call]
        for spec in self.charts:
            display(chart_bundle(spec), raw=True)  # type: ignore[no-untyped-call]


def _charts(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, Charts):
            shown = replace(part, but=[*part.but, *_LEFT_OUT])
            yield from (spec for _, _, spec in drawn(shown, NOTEBOOK))
        elif isinstance(part, Studies) and len(part.studies) == 1:
            from sightline.answers.study import study_outline

            yield from _charts(study_outline(part.studies[0].answer).parts)


def _text(outline: Outline) -> "RenderableType":
    """What a terminal shows on stdout and stderr, and what readers of a kept answer are told."""
    from rich.console import Group

    from sightline.render.terminal import outline_text
    from sightline.render.terminal_parts import Sentence

    warnings = (Sentence(f"warning: {one}") for one in dict.fromkeys(outline.warnings))
    return Group(outline_text(outline), *warnings, *map(Sentence, outline.footnotes))


def plain(renderable: "RenderableType") -> str:
    """Return what a terminal would show, without colors."""
    from rich.console import Console

    drawn = io.StringIO()
    # In a notebook, Rich would display the text itself.
    console = Console(
        file=drawn,
        width=_COLUMNS,
        highlight=False,
        emoji=False,
        force_terminal=False,
        force_jupyter=False,
        no_color=True,
    )
    console.print(renderable, crop=False)
    return "\n".join(line.rstrip() for line in drawn.getvalue().rstrip().splitlines())


def chart_bundle(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a chart as the front end's own Vega draws it, and as a picture for those without, or without scripts.

    The ground is white in dark themes too: a picture cannot know the theme of the notebook around it.
    """
    svg = picture(spec)
    found: dict[str, Any] = {"text/plain": _described(spec)}
    if _width(svg) <= WIDE:
        found[_mime_type()] = spec
    if len(svg) <= _MOST_PICTURE:
        found["image/svg+xml"] = svg
    else:
        found["image/png"] = _png(spec)
    return found


def picture(spec: dict[str, Any]) -> str:
    """Return a chart as SVG that shrinks with its container."""
    import vl_convert

    from sightline.charts.drawing import VEGA_LITE

    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)
    head = (
        f'<svg role="img" aria-label="{escape(_described(spec))}" style="max-width:100%;height:auto;background:white" '
    )
    return _OF_MARKS.sub("", svg).replace("<svg ", head, 1)


def _png(spec: dict[str, Any]) -> str:
    from base64 import b64encode

    import vl_convert

    from sightline.charts.drawing import VEGA_LITE

    return b64encode(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=1.0)).decode()


def _mime_type() -> str:
    """The type under which front ends know specifications of Vega-Lite.

    It ends in ``+json``, unlike that of Altair's own renderer: only so may a saved notebook hold a mapping under it.
    """
    from sightline.charts.drawing import VEGA_LITE

    return f"application/vnd.vegalite.v{VEGA_LITE.partition('.')[0]}+json"


def _width(svg: str) -> float:
    """Pixels, as the picture says itself."""
    found = re.search(r'<svg[^>]*? width="([\d.]+)', svg)
    return float(found[1]) if found else WIDE + 1.0


def _described(spec: dict[str, Any]) -> str:
    title = spec.get("title", "")
    said = title.get("text", "") if isinstance(title, dict) else title
    text = " ".join(said) if isinstance(said, list) else str(said)
    return f"[chart: {text}]" if text else "[chart]"
