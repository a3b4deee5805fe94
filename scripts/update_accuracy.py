"""Fill docs/accuracy.md with today's figures: ``update_accuracy.py [--data DIR]``."""

import argparse
import os
from pathlib import Path

from generated import markdown_table, replace_part

from sightline.report.drawing import draw
from sightline.report.validation_chart import validation_chart
from sightline.validation import Result, Suite, suites, validate

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
    """Return the table of errors, one line per suite and part."""
    headings = ["suite", "quantity", "part", "cases", "mean error", "median", "largest", "bias"]
    rows = [
        [
            result.suite,
            f"`{result.quantity}`",
            result.split,
            str(result.cases) + (f" ({result.unanswered} unanswered)" if result.unanswered else ""),
            *(_percent(value) for value in (result.mape, result.median_ape, result.max_ape)),
            _percent(result.bias, signed=True),
        ]
        for result in results
    ]
    return markdown_table(headings, rows)


def described(suite: Suite) -> str:
    """Return a suite's source, what had to be decided to read it, and what was left out."""
    decisions = "\n".join(f"- {decision}" for decision in suite.decisions)
    left_out = "".join(f"\n- Left out: {number} rows, {reason}." for reason, number in suite.left_out.items())
    return f"### {suite.name}\n\nSource: {suite.source}.\n\n{decisions}{left_out}"


def _percent(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


if __name__ == "__main__":
    main()
