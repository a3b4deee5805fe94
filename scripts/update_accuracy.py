"""Fill docs/accuracy.md with today's figures: ``update_accuracy.py [--data DIR]``."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from generated import markdown_table, replace_part

from sightline.report.charts.accuracy import validation_chart
from sightline.report.charts.drawing import draw
from sightline.report.terminal.accuracy import by_kind
from sightline.validation import OperatorSuite, Result, Suite, choose, evaluate

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Validate, then write the table of errors, the picture and what each suite decided."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SIGHTLINE_DATA"), help="folder with the public data sets")
    data = parser.parse_args().data
    chosen = choose(data=data)
    results = evaluate(chosen)
    goals = {suite.name: suite.goal for suite in chosen}
    page = DOCS / "accuracy.md"
    replace_part(page, "errors", errors(results, goals))
    replace_part(page, "suites", "\n\n".join(described(same) for same in read_alike(chosen)))
    (DOCS / "images" / "accuracy.svg").write_text(
        # Operators, of which there are a hundred panels, have pages of their own.
        str(draw(validation_chart([r for r in results if r.kind != "operators"]), "accuracy.svg")),
        encoding="utf-8",
    )


def errors(results: list[Result], goals: Mapping[str, str]) -> str:
    """Return the tables of errors by kind of suite, one line per suite: the part kept for testing, then the fitted one."""
    return "\n\n".join(
        f"### {kind.capitalize()}\n\n{_error_table(suites, goals)}" for kind, suites in by_kind(results).items()
    )


def _error_table(suites: Mapping[str, list[Result]], goals: Mapping[str, str]) -> str:
    headings = ["suite", "goal", "part", "cases", "mean", "median", "p90", "largest", "bias", "inside interval"]
    rows = []
    for suite, parts in suites.items():
        for result in sorted(parts, key=lambda part: part.split, reverse=True):
            sizes = [_percent(x) for x in (result.mape, result.median_ape, result.p90_ape, result.max_ape)]
            ends = [_percent(result.bias, signed=True), _percent(result.coverage)]
            rows.append([suite, goals.get(suite) or "-", result.split, _cases(result), *sizes, *ends])
    return markdown_table(headings, rows)


def _cases(result: Result) -> str:
    return f"{result.cases} ({result.unanswered} unanswered)" if result.unanswered else str(result.cases)


def read_alike(chosen: Sequence[Suite | OperatorSuite]) -> list[list[Suite | OperatorSuite]]:
    """Return the suites in groups with the same decisions and, but for operators, of the same source."""
    groups: dict[tuple[object, ...], list[Suite | OperatorSuite]] = {}
    for suite in chosen:
        source = "" if isinstance(suite, OperatorSuite) else suite.name
        groups.setdefault((source, suite.decisions), []).append(suite)
    return list(groups.values())


def described(same: Sequence[Suite | OperatorSuite]) -> str:
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


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
