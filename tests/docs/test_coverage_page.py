"""The coverage page and its tables say what predictions say."""

import csv
import importlib
import re
import sys
from pathlib import Path

import pytest

from sightline.loading.clusters.cluster import read_device
from sightline.validation.coverage import coverage, operator_cells, technique_cells

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TEXT = (DOCS / "coverage.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script():
    """The module that writes the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("coverage_page")
    sys.path.remove(str(ROOT / "scripts"))


def part(name):
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", TEXT, re.DOTALL)[1].strip()


def rows(table, **of):
    """The lines of a data table whose columns have these values."""
    with (DOCS / "coverage" / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return [line for line in csv.DictReader(file) if all(line[key] == value for key, value in of.items())]


@pytest.mark.parametrize("device", ["a100-sxm-80gb", "b200-sxm-180gb", "rtx-4090"])
def test_the_line_of_a_device_is_what_predictions_say(script, device):
    (line,) = rows("devices", device=device)
    assert list(line.values()) == script.device_row(device, operator_cells(read_device(device)))


def test_the_lines_of_a_framework_are_what_predictions_say(script):
    lines = [list(line.values()) for line in rows("frameworks", framework="megatron")]
    assert lines == script.choice_rows(technique_cells("megatron"), "techniques")


def test_the_words_are_those_of_the_command(script):
    assert part("meanings") == script.meanings()


@pytest.mark.slow
def test_the_whole_page_is_what_predictions_say(script):
    cells = coverage()
    for name in ("counts", "devices", "choices"):
        assert part(name) == getattr(script, name)(cells), name
    for name, text in script.tables(cells).items():
        assert (DOCS / "coverage" / name).read_text(encoding="utf-8") == text, name
