"""A report: one HTML page with its style, its charts and Vega inside, so that it opens anywhere without a network."""

import json
from dataclasses import replace
from functools import cache
from html import escape
from typing import Any

from sightline.report.document_script import document_script, vega_script
from sightline.report.document_size import fitted
from sightline.report.document_style import STYLE
from sightline.report.pieces import Drawing, Piece, joined, place_of

MOST_BYTES = 2_000_000
"""Of a report: it is sent by mail and opened on phones."""


def document(title: str, body: Piece, *, command: str = "", style: str = "") -> str:
    """Return a complete page.

    A page of more than 2 MB leaves out the narrow forms of charts, then the last rows of its longest tables, then
    charts from the last on, and says so in their places. Charts leave half of the page to tables.

    Args:
        title: Of the page.
        body: What stands in its main part.
        command: The command that wrote it, for the footer.
        style: Rules beside the shared ones.
    """
    whole = joined(body, _footer(command))
    # The name of a file, which a page may quote, is any bytes; some are no characters.
    whole = replace(whole, html=whole.html.encode(errors="replace").decode())
    kept = _kept(whole, MOST_BYTES - _fixed_bytes() - len(style.encode()))
    script = f"<script>{_vega_bundle()}</script>" if kept.charts else ""
    drawn = (
        f'<script type="application/json" class="drawings" id="sightline-charts">{_embedded(kept)}</script>\n'
        f'<script type="module">{document_script()}</script>'
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{_dark_style()}{style}</style>\n{script}\n</head>\n"
        f"<body>\n<main>{kept.html}</main>\n{drawn if kept.charts else ''}\n</body>\n</html>\n"
    )


def _footer(command: str) -> str:
    """The command and the versions that made the page; no time, so that equal answers are equal files."""
    from sightline import __version__

    typed = f"<p><code>{escape(command)}</code></p>" if command else ""
    about = f"Sightline {__version__}. This file is self-contained."
    return f"<footer>{typed}<p>{escape(about)}</p></footer>"


def _kept(piece: Piece, room: int) -> Piece:
    """The piece with as many of its charts as there is room for, in bytes."""
    sizes = {name: (_bytes(one.wide), _bytes(one.narrow)) for name, one in piece.charts.items()}
    of_charts = min(sum(wide for wide, _ in sizes.values()), room // 2)
    piece = replace(piece, html=fitted(piece.html, room - of_charts, f"{MOST_BYTES // 10**6} MB"))
    left = room - len(piece.html.encode())
    has_narrow = sum(map(sum, sizes.values())) <= left
    html, charts = piece.html, dict[str, Drawing]()
    for name, drawing in piece.charts.items():
        left -= sum(sizes[name]) if has_narrow else sizes[name][0]
        if left >= 0:
            charts[name] = drawing if has_narrow else replace(drawing, narrow=None)
        else:
            said = f"Omitted to keep the page below {MOST_BYTES // 10**6} MB: a chart of {drawing.label}."
            html = html.replace(place_of(name, drawing), f'<p class="faint">{escape(said)}</p>')
    return Piece(html=html, charts=charts)


def _bytes(spec: dict[str, Any] | None) -> int:
    return 0 if spec is None else len(_json(spec).encode()) + 80


def _embedded(piece: Piece) -> str:
    """The charts' specifications by id: wide and narrow."""
    return _json({name: [one.wide, one.narrow] for name, one in piece.charts.items()})


def _json(value: Any) -> str:
    """JSON inside of a script element, which "</" and "<!--" would end or change."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _dark_style() -> str:
    from sightline.report.charts.rendering import dark_style

    return dark_style()


def _fixed_bytes() -> int:
    """Bytes of a page with nothing on it."""
    return len(_vega_bundle().encode()) + len(STYLE) + len(document_script()) + len(_dark_style()) + 2_000


@cache
def _vega_bundle() -> str:
    return vega_script().replace("</script", "<\\/script")
