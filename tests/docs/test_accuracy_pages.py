"""The accuracy pages say what the commands printed, and nothing on them is typed by hand."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from sightline.prediction.training.effects import shipped_beliefs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def pages():
    """The modules that write the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("accuracy_page"), importlib.import_module("accuracy_suites")
    sys.path.remove(str(ROOT / "scripts"))


def part(page, name):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", text, re.DOTALL)[1].strip()


def test_the_page_for_users_is_what_was_printed(pages):
    page, _ = pages
    assert part("accuracy", "expect") == page.expectations()
    assert part("accuracy", "locked") == page.locked_table()
    assert part("accuracy", "plans") == page.published_plans()
    assert part("accuracy", "sweeps") == page.sweeps_table()


def test_the_tables_behind_it_are_what_was_printed(pages):
    page, suites = pages
    assert part("accuracy-suites", "errors") == suites.error_tables()
    assert part("accuracy-suites", "left out") == suites.left_out_tables()
    assert part("accuracy-suites", "steps") == suites.steps_table()
    assert part("accuracy-suites", "rules") == page.reading_rules()


def test_the_page_answers_what_users_ask(pages):
    page, _ = pages
    asked = [line.split("|")[1] for line in page.expectations().splitlines()[2:]]
    for what in ("dense", "experts", "one measured step", "three", "nobody measured", "Generation", "Single operators"):
        assert any(what in question for question in asked), what


def test_no_figure_stands_outside_of_a_generated_part():
    text = (DOCS / "accuracy.md").read_text(encoding="utf-8")
    typed = re.sub(r"<!-- (\w+) -->.*?<!-- end \1 -->", "", text, flags=re.DOTALL)
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
