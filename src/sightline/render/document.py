"""A report: one HTML page with its style, its charts and Vega inside, so that it opens anywhere without a network."""

import json
import re
from dataclasses import replace
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from sightline.answers.outline import Outline
from sightline.render.html import Drawing, Piece, chart, joined, outline_piece, place_of

CHARTS = "charts.js"
"""Name of the module of the script in this folder."""


@cache
def charts_script() -> str:
    """Return the module: it exports ``draw``, ``save`` and ``NARROW``, and asks nothing of the network."""
    from sightline.charts.rendering import LOOKS

    text = (resources.files("sightline.render") / CHARTS).read_text(encoding="utf-8")
    return text.replace("/* LOOKS */ []", json.dumps(sorted(LOOKS)))


def document_script() -> str:
    """Return the script of a report, which stands inside of it."""
    return f"{charts_script()}draw(document);\n"


def vega_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, made by vl-convert in a second."""
    import vl_convert

    from sightline.charts.drawing import VEGA_LITE

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return made


LEAST_ROWS = 20
"""Rows that a table keeps in any case."""
_TABLE = re.compile(r"<tbody>(.*?)</tbody></table></div>", re.DOTALL)
_ROW_END = "</tr>"
_SAID_BYTES = 200


def fitted(html: str, most: int, limit: str) -> str:
    """Return HTML of at most so many bytes, as far as shorter tables make it: the longest ones are cut first.

    Args:
        html: With tables as `sightline.render.html.table` writes them.
        most: Bytes.
        limit: What the page stays below, in words.
    """
    over = len(html.encode()) - most
    if over <= 0:
        return html
    tables = sorted(_TABLE.finditer(html), key=lambda found: -len(found.group(1).encode()))
    cuts: list[tuple[int, int, str]] = []
    for table in tables:
        if over <= 0:
            break
        kept, left = _cut(table.group(1), over + _SAID_BYTES)
        if not left:
            continue
        said = f"{left:,} more omitted to keep the page below {limit}; use --json"
        new = f'<tbody>{kept}</tbody></table></div><p class="faint">{escape(said)}</p>'
        over -= len(table.group(0).encode()) - len(new.encode())
        cuts.append((*table.span(), new))
    for start, end, new in sorted(cuts, reverse=True):
        html = html[:start] + new + html[end:]
    return html


def _cut(body: str, too_many: int) -> tuple[str, int]:
    """The first rows of a table without so many bytes of the last ones, and how many are left out."""
    rows = [row + _ROW_END for row in body.split(_ROW_END)[:-1]]
    size, kept = len(body.encode()) - too_many, 0
    for row in rows:
        size -= len(row.encode())
        if size < 0 and kept >= LEAST_ROWS:
            break
        kept += 1
    return "".join(rows[:kept]), len(rows) - kept


STYLE = """
:root { color-scheme: light dark; --ground: #fff; --raised: #f6f6f6; --ink: #222; --faint: #5c5c5c; --line: #e4e4e4;
  --good: #23704a; --bad: #b83227; --perhaps: #8f5300; --accent: #174a8c; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ground: #16191d; --raised: #22262b; --ink: #e8e8e8; --faint: #aab0b6; --line: #33383e; --good: #5fc08a;
    --bad: #ff7b6b; --perhaps: #eab04a; --accent: #8ab8f5; }
}
body { font: 15px/1.5 Helvetica, Arial, sans-serif; color: var(--ink); background: var(--ground); margin: 0; }
main { max-width: 1000px; margin: 0 auto; padding: 28px 20px 40px; }
h1 { font-size: 24px; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 34px 0 8px; } h3 { font-size: 15px; margin: 24px 0 6px; }
p { margin: 0 0 4px; overflow-wrap: anywhere; } ul { padding-left: 20px; margin: 4px 0; } li { margin: 0 0 4px; }
.faint { color: var(--faint); } .bad { color: var(--bad); } .good { color: var(--good); }
.perhaps { color: var(--perhaps); }
dl { margin: 16px 0; } dt { color: var(--faint); font-size: 12px; } dd { margin: 0; }
.answer { border-left: 3px solid var(--accent); padding: 2px 0 2px 14px; }
.answer div { display: grid; grid-template-columns: 130px 1fr; gap: 4px 12px; padding: 3px 0; }
.answer dt { font-size: 14px; } .answer dd { font-size: 16px; font-weight: bold; overflow-wrap: anywhere; }
.headline { container-type: inline-size; }
.cards { display: grid; grid-template-columns: 1fr 1fr; gap: 8px; border: 0; padding: 0; margin: 12px 0; }
.cards div { grid-column: 1 / -1; padding: 0; } .cards dd { font-size: 14px; font-weight: normal; }
.cards .card { grid-column: auto; display: block; border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px }
.card.bad { border-color: var(--bad); } .cards .card dt { font-size: 13px; }
.cards .card dd { font-size: 13px; line-height: 1.4; } .card .detail { color: var(--faint); }
.cards .card .value { font-size: 20px; line-height: 1.25; font-weight: bold; }
.value small { font-size: 14px; white-space: nowrap; } .card dt::first-letter { text-transform: uppercase; }
.card svg { display: block; margin: 4px 0; overflow: visible; } .bar rect { stroke: var(--ink); stroke-width: 1px; }
.card line { stroke: var(--ink); stroke-width: 2px; } .card .ground { stroke: var(--line); stroke-width: 1px; }
.card .faint :is(.ends, rect) { stroke: var(--faint); }
@container (min-width: 880px) { .cards { grid-template-columns: repeat(4, 1fr); } }
@container (max-width: 479px) {
  .cards { grid-template-columns: 1fr; gap: 6px; } .card svg { margin: 2px 0; } .cards .card dd { grid-column: 2; }
  .cards .card { display: grid; grid-template-columns: 72px 1fr; gap: 0 8px; padding: 5px 10px 6px; }
}
.block { margin: 12px 0; } .block h2, .block h3 { margin-top: 18px; }
.block.bad { border: 1px solid var(--bad); border-radius: 8px; padding: 8px 14px 2px; color: var(--ink); }
.block button { padding: 0 8px; font-size: 13px; } .block td:nth-child(n + 2) { white-space: nowrap; }
.block p.bad { font-size: 17px; font-weight: bold; }
.scroll { overflow-x: auto; background:
    linear-gradient(to right, var(--ground) 40%, transparent) left / 36px 100% no-repeat local,
    linear-gradient(to left, var(--ground) 40%, transparent) right / 36px 100% no-repeat local,
    linear-gradient(to right, #8886, transparent) left / 12px 100% no-repeat,
    linear-gradient(to left, #8886, transparent) right / 12px 100% no-repeat; }
.scroll:focus-visible, pre:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; margin: 6px 0 14px; }
th { text-align: left; color: var(--faint); font-weight: normal; font-size: 13px; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr.strong td { font-weight: 600; }
.chip { border: 1px solid; border-radius: 9px; padding: 0 7px; font-size: 12px; font-weight: normal;
  white-space: nowrap; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.sentence { min-width: 170px; }
pre { background: var(--raised); padding: 12px 14px; border-radius: 6px; overflow-x: auto; font-size: 13px; }
code { overflow-wrap: anywhere; font-size: 13px; }
details { border-top: 1px solid var(--line); padding: 10px 0; } summary { cursor: pointer; font-weight: bold; }
details details { margin-left: 18px; padding: 6px 0; } details details summary { font-weight: normal; }
figure { margin: 18px 0; } figcaption { font-weight: bold; margin: 0 0 4px; }
.vega-embed svg { max-width: 100%; height: auto; }
#vg-tooltip-element { position: fixed; visibility: hidden; z-index: 9; padding: 6px 10px; border-radius: 6px;
  font-size: 12.5px; background: var(--ground); color: var(--ink); border: 1px solid var(--line); pointer-events: none;
  max-width: 320px; }
#vg-tooltip-element.visible { visibility: visible; }
#vg-tooltip-element table { margin: 0; font-size: 12.5px; } #vg-tooltip-element td { border: 0; padding: 1px 4px; }
#vg-tooltip-element .key { color: var(--faint); }
.drawn path { transition: opacity 0.1s; } .drawn path.passed { opacity: 0.12; } tr.picked { background: var(--raised); }
.files { display: flex; gap: 6px; justify-content: flex-end; }
.files button { font: inherit; font-size: 12px; color: var(--faint); background: none; border: 1px solid var(--line);
  border-radius: 4px; padding: 2px 8px; cursor: pointer; }
.files button:hover, .files button:focus-visible { color: var(--accent); border-color: var(--accent); }
footer { margin-top: 44px; border-top: 1px solid var(--line); padding-top: 10px; color: var(--faint); font-size: 13px; }
@media (max-width: 560px) {
  main { padding: 18px 12px 30px; } th, td { padding-right: 9px; font-size: 13px; }
  .answer div { grid-template-columns: 1fr; gap: 0; } .answer dt { font-size: 12px; }
  .block thead { display: none; } .block tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line); }
  .block td { border: 0; } .block td:first-child { flex-basis: 100%; }
  .block td:nth-child(4):not(:empty)::before { content: "risk: "; }
}
@media print {
  main { max-width: none; padding: 0; } .files { display: none; } .scroll { overflow: visible; background: none; }
  pre, td { white-space: pre-wrap; } figure, .card, tr, details[open] > summary { break-inside: avoid; }
  h2, h3, summary { break-after: avoid; } td, th { font-size: 11px; }
}
"""
"""The rules that all pages share. Colors of text keep 4.5 : 1 on their ground."""


MOST_BYTES = 2_000_000
"""Of a report: it is sent by mail and opened on phones."""


def document(title: str, body: Piece, *, command: str = "") -> str:
    """Return a complete page.

    A page of more than 2 MB leaves out the narrow forms of charts, then the last rows of its longest tables, then
    charts from the last on, and says so in their places. Charts leave half of the page to tables.

    Args:
        title: Of the page.
        body: What stands in its main part.
        command: The command that wrote it, for the footer.
    """
    whole = joined(body, _footer(command))
    # The name of a file, which a page may quote, is any bytes; some are no characters.
    whole = replace(whole, html=whole.html.encode(errors="replace").decode())
    kept = _kept(whole, MOST_BYTES - _fixed_bytes())
    script = f"<script>{_vega_bundle()}</script>" if kept.charts else ""
    drawings = _json({name: [one.wide, one.narrow] for name, one in kept.charts.items()})
    drawn = (
        f'<script type="application/json" class="drawings" id="sightline-charts">{drawings}</script>\n'
        f'<script type="module">{document_script()}</script>'
    )
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{_dark_style()}</style>\n{script}\n</head>\n"
        f"<body>\n<main>{kept.html}</main>\n{drawn if kept.charts else ''}\n</body>\n</html>\n"
    )


def chart_page(spec: dict[str, Any], narrow: dict[str, Any] | None = None) -> str:
    """Return a chart as a page of its own, which shows ``narrow`` on narrow screens."""
    said = spec.get("title", "Sightline")
    text = said.get("text", "Sightline") if isinstance(said, dict) else said
    title = " ".join(text) if isinstance(text, list) else str(text)
    return document(title, chart("chart", spec, narrow, label=title))


def outline_page(outline: Outline, *, command: str = "") -> str:
    """Return an answer as one page that needs no network; ``command`` asked for it."""
    return document(outline.title, outline_piece(outline, title_level=1), command=command)


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


def _json(value: Any) -> str:
    """JSON inside of a script element, which "</" and "<!--" would end or change."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _dark_style() -> str:
    from sightline.charts.rendering import dark_style

    return dark_style()


def _fixed_bytes() -> int:
    """Bytes of a page with nothing on it."""
    return len(_vega_bundle().encode()) + len(STYLE) + len(document_script()) + len(_dark_style()) + 2_000


@cache
def _vega_bundle() -> str:
    return vega_script().replace("</script", "<\\/script")
