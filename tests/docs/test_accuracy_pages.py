"""The accuracy page and its tables say what the commands printed, and nothing in them is typed by hand."""

import csv
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from sightline.prediction.training.constants import shipped_beliefs
from sightline.validation.evaluation import suites as published

ROOT = Path(__file__).parents[2]
FIGURES = ROOT / "docs" / "accuracy"
PAGE = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages():
    """The modules that write the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("accuracy_page"), importlib.import_module("accuracy_suites")
    sys.path.remove(str(ROOT / "scripts"))


def part(name):
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", PAGE, re.DOTALL)[1].strip()


def test_the_page_is_what_was_printed(pages):
    page, suites = pages
    assert part("expect") == page.expectations()
    assert part("locked") == page.locked_table()
    assert part("baseline") == page.baseline_table()
    assert part("plans") == page.published_plans()
    assert part("sweeps") == page.sweeps_table()
    assert part("suites") == suites.summary_table()
    assert part("rules") == page.reading_rules()


def test_the_tables_are_what_was_printed(pages):
    _, suites = pages
    for name, text in suites.tables().items():
        assert (FIGURES / name).read_text(encoding="utf-8") == text, (
            f"{name}: run scripts/update_accuracy.py --only pages"
        )


def test_every_suite_says_how_it_is_read():
    with (FIGURES / "suites.csv").open(encoding="utf-8", newline="") as file:
        named = {row["suite"] for row in csv.DictReader(file)}
    read = {suite for of in json.loads((FIGURES / "readings.json").read_text("utf-8")) for suite in of["suites"]}
    assert {suite.name for suite in published()} <= named <= read, "run scripts/update_accuracy.py"


def test_the_page_answers_what_users_ask(pages):
    page, _ = pages
    asked = [line.split("|")[1] for line in page.expectations().splitlines()[2:]]
    for what in ("dense", "experts", "one measured step", "three", "nobody measured", "Generation", "Single operators"):
        assert any(what in question for question in asked), what


def test_no_figure_stands_outside_of_a_generated_part():
    typed = re.sub(r"<!-- (\w+) -->.*?<!-- end \1 -->", "", PAGE, flags=re.DOTALL)
    explained = {"80", "60", "20"}
    assert set(re.findall(r"(\d+(?:\.\d+)?) %", typed)) <= explained


def test_rules_that_name_single_days_or_images_are_counted(pages):
    page, _ = pages
    assert re.search(r"`aiconfigurator-disaggregated`: [1-9]", page.reading_rules())


def test_the_pages_are_of_the_constants_in_the_catalog(pages):
    page, _ = pages
    constants = page.figures("left-out")["constants"]
    assert set(constants) == set(shipped_beliefs().names), "run scripts/update_accuracy.py"
    assert sum(steps >= 5 for steps in constants.values()) >= 0.8 * len(constants)
    for section in ("left-out", "anchors", "suites"):
        made_with = page.figures(section)["training_constants"]
        assert made_with == page.training_constants(), f"run scripts/update_accuracy.py --only {section}"
