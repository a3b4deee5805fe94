"""No fitted part of a suite is predicted worse than golden.yaml says, and every case is answered.

Errors of test parts are reported, in golden.yaml and docs/accuracy.md, and gate nothing: what gates, one comes to fit.
Those of loaded servers may not move unnoticed, neither up nor down, since hardly any other part of them is held.
"""

from pathlib import Path

import pytest

from sightline.catalog.yaml12 import parse
from sightline.validation.evaluation import suites, validate

GOLDEN = parse(Path(__file__).with_name("golden.yaml").read_text(encoding="utf-8"))
HEAVY = ("aiconfigurator-",)
"""Suites of thousands of cases; scripts/update_accuracy.py shows how they do."""
IN_THE_CATALOG = {suite.name for suite in suites()}

WORSE_BY = {"mape": 0.002, "median_ape": 0.003, "max_ape": 0.01}
"""How much a figure may grow before it counts as worse: less than a change that means something."""


@pytest.fixture(scope="module")
def catalog_results():
    return {(r.suite, r.split): r for r in validate()}


@pytest.fixture(scope="module")
def folder_results(data):
    names = [name for name in GOLDEN if name not in IN_THE_CATALOG and not name.startswith(HEAVY)]
    return {(r.suite, r.split): r for r in validate(names, data=data)}


def hold(result, golden):
    assert result.cases == golden["cases"], "tests/validation/golden.py writes golden.yaml for other cases anew"
    assert result.unanswered <= golden["unanswered"], {a.reason for a in result.answers if a.reason}
    for figure, tolerance in WORSE_BY.items():
        if figure in golden and result.split == "fit":
            assert getattr(result, figure) <= golden[figure] + tolerance, figure
        elif figure in golden and result.kind == "serving":
            assert getattr(result, figure) == pytest.approx(golden[figure], abs=tolerance), figure


EVERY_PART = [(suite, split) for suite, parts in GOLDEN.items() for split in parts]


@pytest.mark.parametrize(("suite", "split"), [part for part in EVERY_PART if part[0] in IN_THE_CATALOG])
def test_catalog_suites_are_predicted_no_worse(catalog_results, suite, split):
    hold(catalog_results[suite, split], GOLDEN[suite][split])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "split"),
    [part for part in EVERY_PART if part[0] not in IN_THE_CATALOG and not part[0].startswith(HEAVY)],
)
def test_bulk_suites_are_predicted_no_worse(folder_results, suite, split):
    hold(folder_results[suite, split], GOLDEN[suite][split])


def test_every_suite_has_its_figures_written_down():
    assert set(GOLDEN) >= IN_THE_CATALOG
    assert set(EVERY_PART) >= {(suite.name, case.split) for suite in suites() for case in suite.cases}


@pytest.mark.slow
def test_vtrain_with_tensor_parallelism_over_the_whole_node(folder_results):
    answers = folder_results["vtrain-single-node", "fit"].answers
    errors = [abs(a.error) for a in answers if a.case.scenario["plan"]["tensor_parallel"] == 8]
    assert sum(errors) / len(errors) <= 0.07
