"""A line of a source's table becomes a row under our keys, as the ``csv`` part of a suite's catalog entry says.

``parts``     new column: {column, pattern, otherwise}: what a pattern's group finds in a printed one, such as a case's
name ``columns``   our key: the column it is printed in ``names``     our key: {column (or several), known: {printed:
ours}}; others are spelled as the catalog spells names ``counted``   {column, known}: a device's name and, behind a star
or an x, how many; sets ``device`` and ``devices`` ``values``    column: {printed: keys it stands for, otherwise: keys
for all the rest}; without it, others are left out ``corrections``  [{where: {column: value}, set: keys}] for what the
source got wrong ``leave_out``    [{where: {column: value or values}, reason}] ``scale``     our key: factor to SI
``rates``     our key: what was done once per printed value, a number or a key; the printed rate becomes its time
``products``  [{key, of: [keys], where}]
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, prod
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.quantities import show
from sightline.validation.rows import LeftOutError, Row

Cells = Mapping[str, str]

DRESSING = re.compile(r"-(hf|instruct|chat|bf16|fp8|nvfp4|mxfp4|awq|gptq)\b.*$")
"""Endings of a repository's name that say how its weights were tuned or stored."""

COUNTED = re.compile(r"(.*?)(?:\s*[*x]\s*(\d+))?", re.DOTALL)
MEMORY = re.compile(r"\s+\d+\s?GB$")


LARGEST = 1e24
"""Of the numbers of a table: an exaflop takes 1e18 operations."""


class Line(dict[str, str]):
    """The cells of a line by column; one that the table lacks is named with the line's place."""

    def __init__(self, cells: Mapping[str, str], place: str) -> None:
        super().__init__(cells)
        self.place = place

    def __missing__(self, column: str) -> str:
        raise InputError(f"{self.place}: column '{column}' is missing")

    def number(self, column: str) -> float:
        """Return a cell that holds a finite number; raise `InputError` for another."""
        try:
            number = float(self[column])
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise InputError(f"{self.place}: {column} is {show(self[column])}; allowed: a number")
        return number


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines of a table below its header; cells that a short one lacks are empty.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for number, cells in enumerate(csv.DictReader(lines), start=2):
                known = {column: cell or "" for column, cell in cells.items() if column is not None}
                yield Line(known, f"{path} line {number}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def row_of_cells(cells: Cells, spec: Mapping[str, Any], where: str) -> Row:
    """Return a line of the source's table under our keys; raise `LeftOutError` with why it is none.

    Raise `InputError` naming ``where`` when the table lacks a column.
    """
    cells = {**cells, **_parts(cells, spec.get("parts", {}), where)}
    _require_wanted(cells, spec)
    row = _printed(cells, spec.get("columns", {}), where)
    for key, rule in spec.get("names", {}).items():
        columns = rule["column"] if isinstance(rule["column"], list) else [rule["column"]]
        row[key] = _name(" ".join(_cell(cells, column, where) for column in columns), rule.get("known", {}))
    if "counted" in spec:
        row |= _devices(_cell(cells, spec["counted"]["column"], where), spec["counted"]["known"])
    for column, meanings in spec.get("values", {}).items():
        row |= _meaning(meanings, column, cells.get(column))
    for correction in spec.get("corrections", ()):
        if _matches(cells, correction["where"]):
            row |= correction["set"]
    _calculate(row, cells, spec)
    return row


def catalog_name(repository: str) -> str:
    """Return the name our catalog gives a model: "meta-llama/Llama-3.1-8B-Instruct" is llama-3.1-8b."""
    bare = repository.rsplit("/", 1)[-1].strip().lower()
    return DRESSING.sub("", re.sub(r"[\s_]+", "-", bare))


def scalar(text: str) -> int | float | str:
    """Return a table cell as the number it is, or as text; no table has numbers beyond ``LARGEST``."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) <= LARGEST else text
    return text


def _require_wanted(cells: Cells, spec: Mapping[str, Any]) -> None:
    for rule in spec.get("leave_out", ()):
        if _matches(cells, rule["where"]):
            raise LeftOutError(rule["reason"])


def _parts(cells: Cells, rules: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return what the patterns find, where they find nothing what the rule says otherwise."""
    found = {name: re.search(rule["pattern"], _cell(cells, rule["column"], where)) for name, rule in rules.items()}
    return {name: match[1] if match else str(rules[name].get("otherwise", "")) for name, match in found.items()}


def _printed(cells: Cells, columns: Mapping[str, str], where: str) -> dict[str, Any]:
    texts = {key: _cell(cells, column, where) for key, column in columns.items()}
    return {key: scalar(text) for key, text in texts.items() if text}


def require(cells: Cells, columns: Iterable[str], where: str) -> None:
    """Raise `InputError` naming ``where`` when the table lacks a column."""
    for column in columns:
        if column not in cells:
            raise InputError(f"{where}: column '{column}' is missing")


def _cell(cells: Cells, column: str, where: str) -> str:
    require(cells, (column,), where)
    return cells[column]


def _name(text: str, known: Mapping[str, str]) -> str:
    if not text.strip():
        raise LeftOutError("a name is empty")
    return known.get(text) or catalog_name(text)


def _devices(text: str, known: Mapping[str, str]) -> Row:
    """Return device and number of "3090 24GB * 2"; where memory is not in a known name it is no part of ours."""
    name, number = COUNTED.fullmatch(text.strip()).groups()  # type: ignore[union-attr]  # matches any text
    return {"device": known.get(name) or catalog_name(MEMORY.sub("", name)), "devices": int(number or 1)}


def _meaning(meanings: Mapping[Any, Row], column: str, cell: str | None) -> Row:
    found = next((row for value, row in meanings.items() if str(value) == cell), meanings.get("otherwise"))
    if found is None:
        raise LeftOutError(f"{column} is {cell or 'empty'}")
    return found


def _matches(cells: Cells, where: Mapping[str, Any]) -> bool:
    def allowed(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]

    return all(cells.get(column) in [str(one) for one in allowed(value)] for column, value in where.items())


def _calculate(row: dict[str, Any], cells: Cells, spec: Mapping[str, Any]) -> None:
    """Add what follows from printed numbers; a key whose numbers are missing stays out."""
    for key, factor in spec.get("scale", {}).items():
        if isinstance(row.get(key), int | float):
            row[key] *= factor
    for rule in spec.get("products", ()):
        factors = [row.get(key) for key in rule["of"]]
        if _matches(cells, rule.get("where", {})) and all(isinstance(f, int | float) for f in factors):
            row[rule["key"]] = prod(factors)
    for key, work in spec.get("rates", {}).items():
        done = row.get(work) if isinstance(work, str) else work
        if isinstance(row.get(key), int | float) and isinstance(done, int | float) and row[key] > 0:
            row[key] = done / row[key]
