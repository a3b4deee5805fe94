"""Tables of a page that would be too large: their last rows are left out, and the page says how many."""

import re
from html import escape

LEAST_ROWS = 20
"""Rows that a table keeps in any case."""
_TABLE = re.compile(r"<tbody>(.*?)</tbody></table></div>", re.DOTALL)
_ROW_END = "</tr>"
_SAID_BYTES = 200


def fitted(html: str, most: int, limit: str) -> str:
    """Return HTML of at most so many bytes, as far as shorter tables make it: the longest ones are cut first.

    Args:
        html: With tables as `sightline.report.pieces.table` writes them.
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
