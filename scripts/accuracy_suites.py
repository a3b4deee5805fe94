"""The data tables in docs/accuracy: errors of every suite, errors with parts left out, and how each suite is read."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np
from accuracy_page import figures, percent
from generated import csv_text, markdown_table

from sightline.catalog import entry, names
from sightline.validation.cases import Suite
from sightline.validation.evaluation import AnySuite

Row = Sequence[object]
KINDS = ("training", "generation", "serving", "operators")
SUITE = {
    "kind": "kind",
    "suite": "suite",
    "quantity": "quantity",
    "goal": "goal",
    "part": "split",
    "cases": "cases",
    "unanswered": "unanswered",
}
ERRORS = {
    "mean": "mape",
    "median": "median_ape",
    "p90": "p90_ape",
    "largest": "max_ape",
    "bias": "bias",
    "inside_interval": "coverage",
}
"""Columns of errors, as fractions of the measured value, and the keys that hold them."""


def tables() -> dict[str, str]:
    """Return the text of each data table that follows from the stored figures, by file name."""
    return {
        "suites.csv": csv_text(
            [*SUITE, *ERRORS, "half_width", "source_left_out_mean", "source_left_out_inside_interval"], _suites()
        ),
        "left-out.csv": csv_text(["what", "left_out", "nearest_measured", "cases", *ERRORS, "half_width"], _left_out()),
        "constants.csv": csv_text(["task", "constant", "cause", "measurements"], _constants()),
    }


def _suites() -> Iterable[Row]:
    rows = figures("suites")["suites"]
    left_out = figures("left-out")["left_out_suites"]
    first = {row["suite"]: place for place, row in reversed(list(enumerate(rows)))}
    for row in sorted(rows, key=lambda row: (KINDS.index(row["kind"]), first[row["suite"]], row["split"] == "fit")):
        apart = left_out.get(row["suite"], {}) if row["kind"] == "training" else {}
        yield [
            *(row[key] for key in (*SUITE.values(), *ERRORS.values())),
            row["half_width"],
            *(apart.get(key) for key in ("mape", "coverage")),
        ]


def _left_out() -> Iterable[Row]:
    for of in figures("left-out")["suites"]:
        yield ["training source", of["suite"], None, of["cases"], *(of.get(key) for key in ERRORS.values()), None]
    for of in figures("operators")["rows"]:
        error = {"mape": of["mean"], "median_ape": of["median"], "coverage": of["coverage"]}
        width = None if of["half_width"] is None else float(np.expm1(of["half_width"]))
        what = f"operator {of['part']}".replace("_", " ")
        yield [what, of["device"], of["distance"], of["rows"], *(error.get(key) for key in ERRORS.values()), width]
    for what, of in entry("generation", "effects")["residuals"].items():
        error = {"mape": of["mean"], "coverage": of["coverage"]}
        width = float(np.expm1(of["half_width"]))
        yield ["generation", what, None, of["rows"], *(error.get(key) for key in ERRORS.values()), round(width, 4)]


def _constants() -> Iterable[Row]:
    for name, measurements in figures("left-out")["constants"].items():
        constant, cause, which = name.split("/", 2)
        yield ["training", constant, f"{cause} {which}".strip(), measurements]
    for engine in names("inference"):
        stated = entry("inference", engine)
        for line, version in {"": stated, **stated.get("versions", {})}.items():
            for constant, measurements in version.get("rows", {}).get("noticing", {}).items():
                yield ["generation", constant, f"{engine} {line}".strip(), measurements]


def summary_table() -> str:
    """Return a line for each kind of suite: its cases, and half of its suites' mean errors, of both parts."""
    lines = []
    for kind in KINDS:
        own = [row for row in figures("suites")["suites"] if row["kind"] == kind and row["mape"] is not None]
        line = [kind, str(len({row["suite"] for row in own}))]
        for part in ("test", "fit"):
            rows = [row for row in own if row["split"] == part]
            means = [row["mape"] for row in rows]
            line += [f"{sum(row['cases'] for row in rows):,}", percent(median(means) if means else None)]
        lines.append(line)
    headings = ["kind", "suites", "test cases", "median of mean errors", "fit cases", "median of mean errors"]
    return markdown_table(headings, lines)


def readings(chosen: Sequence[AnySuite]) -> list[dict[str, Any]]:
    """Return how suites are read: their source, what had to be decided, and the rows left out by reason.

    Suites with the same decisions share an entry, but for tables and logs, which also share their source.
    """
    groups: dict[tuple[object, ...], list[AnySuite]] = {}
    for suite in chosen:
        source = suite.name if isinstance(suite, Suite) else ""
        groups.setdefault((source, suite.decisions), []).append(suite)
    return [_reading(same) for same in groups.values()]


def _reading(same: Sequence[AnySuite]) -> dict[str, Any]:
    return {
        "suites": [suite.name for suite in same],
        "quantity": same[0].quantity,
        "sources": list(dict.fromkeys(suite.source for suite in same)),
        "decisions": list(same[0].decisions),
        "left_out": [
            {"rows": rows, "reason": reason}
            for suite in same
            if isinstance(suite, Suite)
            for reason, rows in suite.left_out.items()
        ],
    }
