"""Today's accuracy but for operators, written down: ``python tests/validation/golden.py [--data DIR]`` writes golden.yaml anew.

Run it after a change that is meant to move predictions, and let the difference of the file be read with the change.
"""

import argparse
from pathlib import Path

from sightline.validation.cases import Result
from sightline.validation.evaluation import choose, evaluate, suites

GOLDEN = Path(__file__).with_name("golden.yaml")
SERVED = ("serving-rtx4090", "serving-vllm-ttft", "serving-vllm-tpot", "serving-vllm-latency")
"""Suites of loaded servers that do not take long."""
FIGURES = ("mape", "median_ape", "p90_ape", "max_ape", "bias")

HEAD = """\
# Errors of the predictions today, by suite and part, as fractions of the measured value.
# Written by `python tests/validation/golden.py --data DIR`; held by test_accuracy.py.
"""


def lines_of(result: Result) -> str:
    """Return one part of a suite as an entry of the golden file."""
    figures = {name: getattr(result, name) for name in FIGURES}
    stated = ", ".join(f"{name}: {value:.4f}" for name, value in figures.items() if value is not None)
    counts = f"cases: {result.cases}, unanswered: {result.unanswered}"
    return f"  {result.split}: {{{counts}{', ' if stated else ''}{stated}}}\n"


def golden_text(results: list[Result]) -> str:
    """Return the golden file for these results."""
    text, suite = HEAD, ""
    for result in results:
        if result.suite != suite:
            suite = result.suite
            text += f"{suite}:\n"
        text += lines_of(result)
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public data sets")
    data = parser.parse_args().data
    GOLDEN.write_text(golden_text(evaluate([*suites(data), *choose(SERVED, data)])), encoding="utf-8")
