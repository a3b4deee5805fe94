"""The numbers that a chart draws, as rows and as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Spec = dict[str, Any]

LOOKS = frozenset(("text", "ink", "color", "short", "about", "middle", "there", "far", "aria", "kind_color"))
"""Columns that say how a mark looks."""


def data_of(spec: Spec) -> list[dict[str, Any]]:
    """Return the numbers that a chart draws: a row per mark, with the title of its panel where there are several."""
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    tables = list(_tables(spec, spec.get("datasets", {}), ""))
    several = len({title for title, _ in tables if title}) > 1
    largest = {title: max(len(values) for of, values in tables if of == title) for title, _ in tables}
    # A single row beside others is a limit, an area or a name.
    tables = [(title, values) for title, values in tables if len(values) > 1 or largest[title] == 1]
    for title, values in tables:
        for value in values:
            row = {key: of for key, of in value.items() if key not in LOOKS and of is not None}
            if len(row) < 2 or (named := repr((title, sorted(row.items(), key=lambda pair: pair[0])))) in seen:
                continue
            seen.add(named)
            rows.append(({"panel": title} if several else {}) | row)
    return rows


def csv_of(spec: Spec) -> str:
    """Return the numbers that a chart draws as lines of CSV under their names."""
    from sightline.report.csv_lines import csv_text

    rows = data_of(spec)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    return csv_text([{key: row.get(key) for key in columns} for row in rows])


def _tables(part: Any, datasets: Mapping[str, Any], title: str) -> Iterator[tuple[str, Sequence[dict[str, Any]]]]:
    """The data of each mark, below the title of its panel; areas and rules that stand for limits have single rows."""
    if isinstance(part, list):
        for one in part:
            yield from _tables(one, datasets, title)
    if not isinstance(part, dict):
        return
    said = part.get("title")
    text = said.get("text") if isinstance(said, dict) else said
    inner = " ".join(text) if isinstance(text, list) else text or title
    data = part.get("data") or {}
    values = data.get("values") or datasets.get(data.get("name", ""), ())
    if values:
        yield inner, list(values)
    for key in ("layer", "concat", "hconcat", "vconcat"):
        yield from _tables(part.get(key), datasets, inner)
