"""Rows of a suite: those the catalog restates, or those of the source's table in a data folder when it holds more."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sightline.catalog import entry, names
from sightline.errors import InputError
from sightline.validation.rows import LeftOutError, Row, case_of
from sightline.validation.suite import Case, Suite


def suites(data: Path | str | None = None) -> tuple[Suite, ...]:
    """Return all suites with cases: those of the catalog, and those read from the ``data`` folder when it is given."""
    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise InputError(f"the data folder '{folder}' is not a folder")
    found = (_suite(name, folder) for name in names("published"))
    return tuple(suite for suite in found if suite.cases)


def _suite(name: str, folder: Path | None) -> Suite:
    """Return the suite from the catalog's rows, or from the data folder's table when more of its rows are usable."""
    stated = entry("published", name)
    cases, left_out = _cases(_restated(stated), stated)
    if folder is not None and "csv" in stated:
        read, not_read = _cases(_from_folder(stated["csv"], folder), stated)
        if len(read) > len(cases):
            cases, left_out = read, not_read
    return Suite(
        name=name,
        quantity=stated["quantity"],
        source=stated["source"],
        decisions=tuple(stated["decisions"]),
        cases=tuple(cases),
        left_out=left_out,
    )


def _cases(rows: Iterable[Row | LeftOutError], suite: Mapping[str, Any]) -> tuple[list[Case], Counter[str]]:
    """Return the usable rows as cases, and how many were not, by reason."""
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        try:
            if isinstance(row, LeftOutError):
                raise row
            cases.append(case_of(row, suite))
        except LeftOutError as reason:
            left_out[str(reason)] += 1
    return cases, left_out


def _restated(suite: Mapping[str, Any]) -> Iterator[Row]:
    for values in suite.get("rows", ()):
        yield dict(zip(suite["columns"], values, strict=True))


def _from_folder(spec: Mapping[str, Any], folder: Path) -> Iterator[Row | LeftOutError]:
    for path in sorted(folder.glob(spec["files"])):
        with path.open(encoding="utf-8", newline="") as lines:
            for number, cells in enumerate(csv.DictReader(lines), start=2):
                yield _row_of_cells(cells, spec, where=f"{path} line {number}")


def _row_of_cells(cells: Mapping[str, str], spec: Mapping[str, Any], where: str) -> Row | LeftOutError:
    """Return a line of the source's table under our keys, or why it is left out."""
    row: dict[str, Any] = {}
    for key, column in spec["columns"].items():
        if column not in cells:
            raise InputError(f"{where}: column '{column}' is missing")
        if cells[column] not in (None, ""):
            row[key] = scalar(cells[column])
    for column, meanings in spec.get("values", {}).items():
        meaning = _lookup(meanings, cells.get(column))
        if meaning is None:
            return LeftOutError(f"{column} is {cells.get(column) or 'empty'}")
        row |= meaning
    for correction in spec.get("corrections", ()):
        if all(cells.get(column) == str(value) for column, value in correction["where"].items()):
            row |= correction["set"]
    for key, factor in spec.get("scale", {}).items():
        if key in row:
            row[key] *= factor
    return row


def _lookup(meanings: Mapping[Any, Row], cell: str | None) -> Row | None:
    return next((row for value, row in meanings.items() if str(value) == cell), None)


def scalar(text: str) -> int | float | str:
    """Return a table cell as the number it is, or as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
