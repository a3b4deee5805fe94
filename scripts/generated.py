"""What scripts write into docs: parts between ``<!-- NAME -->`` and ``<!-- end NAME -->``, and data tables."""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def replace_part(document: Path, name: str, text: str) -> None:
    """Write ``text`` into the document's part of that name."""
    before = document.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)", re.DOTALL)
    after, found = pattern.subn(lambda match: f"{match[1]}\n{text.strip()}\n\n{match[2]}", before)
    if found != 1:
        raise SystemExit(f"{document} has {found} parts named '{name}'")
    document.write_text(after, encoding="utf-8")


def markdown_table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; a bar inside a cell is escaped."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def csv_text(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a data table as CSV; None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(rows)
    return text.getvalue()
