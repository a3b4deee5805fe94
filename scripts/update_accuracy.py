"""Fill docs/accuracy.md with today's figures: ``update_accuracy.py [--data DIR]``."""

import argparse
import os
from pathlib import Path

from generated import markdown_table, replace_part

from sightline.report.drawing import draw
from sightline.report.validation_chart import validation_chart
from sightline.validation import Result, Suite, suites, validate

GOALS = {
    "bigscience-tr11": "mean 8 %",
    "korthikanti-2022-fig1": "0.1 %",
    "korthikanti-2022-fig7": "1 %",
    "korthikanti-2022-table5": "mean 3.5 %, largest 8 %",
    "megatron-core-h100": "mean 5 %",
    "mosaicml-mpt": "mean 7 %",
    "narayanan-2021-table1": "mean 5 %",
    "vtrain-single-node": "mean 5 %",
    "vtrain-single-node-tp8": "mean 7 %",
}
"""What the project set itself for the test part of each suite."""

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    """Validate, then write the table of errors, the picture and what each suite decided."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SIGHTLINE_DATA"), help="folder with the public data sets")
    data = parser.parse_args().data
    results = validate(data=data)
    page = DOCS / "accuracy.md"
    replace_part(page, "errors", errors(results))
    replace_part(page, "suites", "\n\n".join(described(suite) for suite in suites(data)))
    (DOCS / "images" / "accuracy.svg").write_text(
        str(draw(validation_chart(results), "accuracy.svg")), encoding="utf-8"
    )


def errors(results: list[Result]) -> str:
    """Return the table of errors, one line per suite: the part kept for testing, then the fitted one."""
    headings = ["suite", "goal", "test cases", "mean error", "largest", "bias", "fitted cases", "mean error"]
    rows = []
    for suite in dict.fromkeys(result.suite for result in results):
        parts = {result.split: result for result in results if result.suite == suite}
        test, fit = parts.get("test"), parts.get("fit")
        rows.append([suite, GOALS.get(suite, "-"), *_test_cells(test), *_fit_cells(fit)])
    return markdown_table(headings, rows)


def _test_cells(result: Result | None) -> list[str]:
    if result is None:
        return ["0", "-", "-", "-"]
    return [_cases(result), _percent(result.mape), _percent(result.max_ape), _percent(result.bias, signed=True)]


def _fit_cells(result: Result | None) -> list[str]:
    return ["0", "-"] if result is None else [_cases(result), _percent(result.mape)]


def _cases(result: Result) -> str:
    return f"{result.cases} ({result.unanswered} unanswered)" if result.unanswered else str(result.cases)


def described(suite: Suite) -> str:
    """Return a suite's source, what had to be decided to read it, and what was left out."""
    decisions = "\n".join(f"- {decision}" for decision in suite.decisions)
    left_out = "".join(f"\n- Left out: {number} rows, {reason}." for reason, number in suite.left_out.items())
    return f"### {suite.name}\n\nQuantity: `{suite.quantity}`. Source: {suite.source}.\n\n{decisions}{left_out}"


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
