"""No suite is predicted worse than golden.yaml says, and the targets that are reached stay reached."""

from pathlib import Path

import pytest

from sightline.catalog.yaml12 import parse
from sightline.validation import suites, validate

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
        if figure in golden:
            assert getattr(result, figure) <= golden[figure] + tolerance, figure


EVERY_PART = [(suite, split) for suite, parts in GOLDEN.items() for split in parts]


@pytest.mark.parametrize(("suite", "split"), [part for part in EVERY_PART if part[0] in IN_THE_CATALOG])
def test_catalog_suites_are_predicted_no_worse(catalog_results, suite, split):
    hold(catalog_results[suite, split], GOLDEN[suite][split])


@pytest.mark.parametrize(
    ("suite", "split"),
    [part for part in EVERY_PART if part[0] not in IN_THE_CATALOG and not part[0].startswith(HEAVY)],
)
def test_bulk_suites_are_predicted_no_worse(folder_results, suite, split):
    hold(folder_results[suite, split], GOLDEN[suite][split])


def test_every_suite_has_its_figures_written_down():
    assert set(GOLDEN) >= IN_THE_CATALOG
    assert set(EVERY_PART) >= {(suite.name, case.split) for suite in suites() for case in suite.cases}


@pytest.mark.parametrize(
    ("suite", "figure", "target"),
    [
        ("korthikanti-2022-table5", "mape", 0.035),
        ("korthikanti-2022-table5", "max_ape", 0.08),
        ("korthikanti-2022-fig1", "max_ape", 0.001),
        ("korthikanti-2022-fig7", "mape", 0.01),
        ("narayanan-2021-table1", "mape", 0.05),
        ("bigscience-tr11", "mape", 0.08),
    ],
)
def test_targets_on_test_parts_stay_reached(catalog_results, suite, figure, target):
    assert getattr(catalog_results[suite, "test"], figure) <= target


@pytest.mark.parametrize(("suite", "target"), [("vtrain-single-node", 0.05), ("mosaicml-mpt", 0.07)])
def test_bulk_targets_on_test_parts_stay_reached(folder_results, suite, target):
    assert folder_results[suite, "test"].mape <= target


def test_vtrain_with_tensor_parallelism_over_the_whole_node(folder_results):
    parts = [folder_results["vtrain-single-node", split].answers for split in ("fit", "test")]
    errors = [abs(a.error) for answers in parts for a in answers if a.case.scenario["plan"]["tensor_parallel"] == 8]
    assert sum(errors) / len(errors) <= 0.07
