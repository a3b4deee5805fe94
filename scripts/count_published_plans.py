"""Count the published measurements behind each technique of training and each feature of an engine.

    python scripts/count_published_plans.py --data DIR

writes published_plans.json of the catalog's kinds training and generation, from all suites that are not locked. They
say which cells of `sightline validate --coverage` have measurements behind them.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sightline.loading import load
from sightline.validation.cases import Suite
from sightline.validation.coverage import FEATURES, TECHNIQUES
from sightline.validation.coverage_cells import KINDS, NAME, counted
from sightline.validation.evaluation import suites
from sightline.validation.serving import serving_logs

CATALOG = Path(__file__).parents[1] / "src" / "sightline" / "catalog" / "data"


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    read = suites(options.data)
    write("techniques", counted(TECHNIQUES, trained(read)))
    write("features", counted(FEATURES, (*generated(read), *served(options.data))))


def trained(read: tuple[Suite, ...]) -> Iterator[tuple[str, str, Any]]:
    """Yield lineage, source and scenario of every published step."""
    for suite in read:
        if suite.kind == "training":
            for case in suite.cases:
                scenario: Any = load(case.scenario)
                yield scenario.plan.framework.lineage, suite.site, scenario


def generated(read: tuple[Suite, ...]) -> Iterator[tuple[str, str, Any]]:
    """Yield engine, source and scenario of every published batch."""
    for suite in read:
        if suite.kind == "generation":
            for case in suite.cases:
                scenario: Any = load(case.scenario)
                yield scenario.plan.engine.name, suite.site, scenario


def served(data: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield the same of every published run of a server under load."""
    for log in serving_logs(data):
        for run in log.read():
            scenario: Any = load(run.scenario)
            yield scenario.plan.engine.name, log.source, scenario


def write(of: str, counts: Mapping[str, Any]) -> None:
    """Write an entry of the catalog, a line for each framework or engine."""
    stated = {
        "source": "counted over all published suites by `python scripts/count_published_plans.py --data DIR`",
        "date": "2026-11",
        "evidence": "measured",
    }
    head = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in stated.items()]
    lines = [f"    {json.dumps(name)}: {json.dumps(by)}" for name, by in counts.items()]
    text = "{\n" + ",\n".join([*head, '  "counts": {\n' + ",\n".join(lines) + "\n  }"]) + "\n}\n"
    (CATALOG / KINDS[of] / f"{NAME}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
