"""The generated parts of docs/accuracy-suites.md: figures of every suite, next to those with its source left out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from accuracy_page import figures, percent
from generated import markdown_table

from sightline.catalog import entry, names
from sightline.validation import Suite
from sightline.validation.validate import AnySuite

HEADINGS = ["suite", "goal", "part", "cases", "mean", "median", "p90", "largest", "bias", "inside interval"]
LEFT = ["source left out: mean", "source left out: inside interval"]
KINDS = ("training", "generation", "serving", "operators")


def error_tables() -> str:
    """Return the tables of errors by kind of suite, one line per part: the one kept for testing, then the fitted."""
    rows = figures("suites")["suites"]
    by_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    return "\n\n".join(f"### {kind.capitalize()}\n\n{_error_table(of, kind)}" for kind, of in by_kind.items() if of)


def _error_table(rows: Sequence[Mapping[str, Any]], kind: str) -> str:
    left = figures("left-out")["left_out_suites"] if kind == "training" else {}
    headings = HEADINGS + (LEFT if left else [])
    parts = sorted(rows, key=lambda row: (_place(rows, row["suite"]), row["split"] == "fit"))
    return markdown_table(headings, [_cells(row) + (_left_cells(left, row["suite"]) if left else []) for row in parts])


def _place(rows: Sequence[Mapping[str, Any]], suite: str) -> int:
    return next(place for place, row in enumerate(rows) if row["suite"] == suite)


def _cells(row: Mapping[str, Any]) -> list[str]:
    sizes = [percent(row[key]) for key in ("mape", "median_ape", "p90_ape", "max_ape")]
    cases = f"{row['cases']} ({row['unanswered']} unanswered)" if row["unanswered"] else str(row["cases"])
    ends = [percent(row["bias"], signed=True), percent(row["coverage"])]
    return [row["suite"], row["goal"] or "-", row["split"], cases, *sizes, *ends]


def _left_cells(left: Mapping[str, Mapping[str, Any]], suite: str) -> list[str]:
    of = left.get(suite, {})
    return [percent(of.get("mape")), percent(of.get("coverage"))]


def left_out_tables() -> str:
    """Return the errors of each source of training left out, and of operators on devices left out."""
    headings = ["source left out", "steps", "mean", "median", "largest", "bias", "inside interval"]
    keys = ("mape", "median_ape", "max_ape")
    sources = [
        [
            of["suite"],
            str(of["cases"]),
            *(percent(of[key]) for key in keys),
            _signed(of["bias"]),
            percent(of["coverage"]),
        ]
        for of in figures("left-out")["suites"]
    ]
    devices = [
        [of["part"].replace("_", " "), of["distance"], str(of["devices"]), *_operator_cells(of)]
        for of in figures("operators")["summary"]
    ]
    asked = ["operators left out", "nearest measured", "devices", "median", "mean", "inside interval"]
    return f"{markdown_table(headings, sources)}\n\n{markdown_table(asked, devices)}\n\n{_generation_table()}"


def _signed(value: float | None) -> str:
    return percent(value, signed=True)


def _operator_cells(of: Mapping[str, Any]) -> list[str]:
    return [percent(of["median"]), percent(of["mean"]), percent(of["coverage"])]


def _generation_table() -> str:
    found = entry("generation", "effects")["residuals"]
    rows = [
        [
            what,
            str(of["rows"]),
            percent(of["mean"]),
            percent(of["coverage"]),
            percent(float(np.expm1(of["half_width"]))),
        ]
        for what, of in found.items()
    ]
    return markdown_table(["generation", "cases", "mean", "inside interval", "half-width"], rows)


def steps_table() -> str:
    """Return how many different measurements depend on each free constant."""
    headings = ["constants of", "constant", "cause", "different measurements"]
    rows = [["training", *_named(name), str(steps)] for name, steps in figures("left-out")["constants"].items()]
    return markdown_table(headings, [*rows, *_engines()])


def _named(effect: str) -> tuple[str, str]:
    constant, cause, which = effect.split("/", 2)
    return constant, f"{cause} {which}".strip()


def _engines() -> Iterable[list[str]]:
    for engine in names("inference"):
        stated = entry("inference", engine)
        for line, told in {"": stated, **stated.get("versions", {})}.items():
            for constant, rows in told.get("rows", {}).get("noticing", {}).items():
                yield ["generation", constant, f"{engine} {line}".strip(), str(rows)]


def read_alike(chosen: Sequence[AnySuite]) -> list[list[AnySuite]]:
    """Return the suites in groups with the same decisions and, but for tables and logs, of the same source."""
    groups: dict[tuple[object, ...], list[AnySuite]] = {}
    for suite in chosen:
        source = suite.name if isinstance(suite, Suite) else ""
        groups.setdefault((source, suite.decisions), []).append(suite)
    return list(groups.values())


def described(same: Sequence[AnySuite]) -> str:
    """Return the source of suites that are read alike, what had to be decided to read them, and what was left out."""
    decisions = "\n".join(f"- {decision}" for decision in same[0].decisions)
    left_out = "".join(
        f"\n- Left out: {number} rows, {reason}."
        for suite in same
        if isinstance(suite, Suite)
        for reason, number in suite.left_out.items()
    )
    named = ", ".join(suite.name for suite in same)
    sources = "; ".join(dict.fromkeys(suite.source for suite in same))
    return f"### {named}\n\nQuantity: `{same[0].quantity}`. Source: {sources}.\n\n{decisions}{left_out}"
