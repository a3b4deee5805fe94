"""Write docs/accuracy.md and the data tables in docs/accuracy from what the commands print.

    python scripts/update_accuracy.py --data DIR [--only SECTION ...]

Each section is one command, and its figures are kept in docs/accuracy/SECTION.json; sections that are not asked for
keep theirs. The pages and their tests are made from these files alone.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import compared_page
from accuracy_page import (
    DOCS,
    FIGURES,
    expectations,
    locked_table,
    published_plans,
    reading_rules,
    sweeps_table,
    training_constants,
)
from accuracy_suites import readings, summary_table, tables
from generated import replace_part
from published_plans import searched, within

from sightline.quantities import as_json, significant
from sightline.validation.evaluation import AnySuite

SCRIPTS = Path(__file__).parent


def main() -> None:
    """Run the sections' commands, then write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("SIGHTLINE_DATA"), help="folder with the public data sets")
    parser.add_argument("--only", action="append", choices=[*SECTIONS, "pages"], help="only this section; repeatable")
    options = parser.parse_args()
    for section in options.only or SECTIONS:
        if section in SECTIONS:
            found = SECTIONS[section](options.data) | {"training_constants": training_constants()}
            (FIGURES / f"{section}.json").write_text(json.dumps(_rounded(found), indent=1) + "\n", encoding="utf-8")
    if all((FIGURES / f"{name}.json").exists() for name in SECTIONS):
        write_pages()


def write_pages() -> None:
    """Fill the generated parts of the page that shows the figures, and write the data tables."""
    page = DOCS / "accuracy.md"
    replace_part(page, "expect", expectations())
    replace_part(page, "locked", locked_table())
    replace_part(page, "plans", published_plans())
    replace_part(page, "sweeps", sweeps_table())
    replace_part(page, "suites", summary_table())
    replace_part(page, "rules", reading_rules())
    for name, text in tables().items():
        (FIGURES / name).write_text(text, encoding="utf-8")
    compared_page.main()


def write_readings(chosen: Sequence[AnySuite]) -> None:
    """Write how each suite is read."""
    (FIGURES / "readings.json").write_text(json.dumps(readings(chosen), indent=1) + "\n", encoding="utf-8")


def suites(data: str) -> dict[str, Any]:
    """Predict all suites; also draw them, and write how they are read."""
    from sightline.charts.accuracy import validation_chart
    from sightline.charts.rendering import draw
    from sightline.validation.evaluation import choose, evaluate

    chosen = choose(data=data)
    results = evaluate(chosen)
    goals = {suite.name: suite.goal for suite in chosen}
    drawn = draw(validation_chart([r for r in results if r.kind != "operators"]), "accuracy.svg")
    (DOCS / "images" / "accuracy.svg").write_text(str(drawn), encoding="utf-8")
    write_readings(chosen)
    return {"suites": [{"kind": r.kind, "goal": goals[r.suite], **r.to_dict()} for r in results]}


def plans(_: str) -> dict[str, Any]:
    """Hold the plans of published trainings against the best ones of a search."""
    return {"plans": [{"name": case["name"], "source": case["source"], **within(case)} for case in searched()]}


def _sightline(*arguments: str) -> Callable[[str], dict[str, Any]]:
    return lambda data: _printed("-m", "sightline", *arguments, "--data", data, "--json")


def _printed(*command: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    text = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(text)
    return found


def _rounded(value: Any) -> Any:
    """Four figures are more than is known."""
    if isinstance(value, Mapping):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return significant(value, 4) if isinstance(value, float) else as_json(value)


SECTIONS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "suites": suites,
    "decisions": _sightline("validate", "--plans"),
    "plans": plans,
    "left-out": _sightline("validate", "--left-out"),
    "locked": _sightline("validate", "--locked"),
    "anchors": lambda data: _printed(str(SCRIPTS / "anchored_errors.py"), "--data", data, "--json"),
    "operators": lambda data: _printed("-m", "sightline.validation.operators", "--data", data, "--json"),
}


if __name__ == "__main__":
    main()
