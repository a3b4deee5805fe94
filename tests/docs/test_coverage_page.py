"""The coverage page says what predictions say."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from sightline.loading.clusters.cluster import read_device
from sightline.validation.coverage import coverage
from sightline.validation.coverage.operators import operator_cells
from sightline.validation.coverage.techniques import technique_cells

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script():
    """The module that writes the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("coverage_page")
    sys.path.remove(str(ROOT / "scripts"))


def part(name):
    return re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", TEXT, re.DOTALL)[1].strip()


def rows(name):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part(name).splitlines()]


@pytest.mark.parametrize("device", ["a100-sxm-80gb", "b200-sxm-180gb", "rtx-4090"])
def test_the_line_of_a_device_is_what_predictions_say(script, device):
    assert script.device_row(device, operator_cells(read_device(device))) in rows("devices")


def test_the_column_of_a_framework_is_what_predictions_say(script):
    heading, _, *lines = rows("frameworks")
    column = {line[0]: line[heading.index("megatron")] for line in lines}
    assert column == {cell.what: script.choice_cell(cell) for cell in technique_cells("megatron")}


def test_the_words_are_those_of_the_command(script):
    assert part("meanings") == script.meanings()


@pytest.mark.slow
def test_the_whole_page_is_what_predictions_say(script):
    cells = coverage()
    assert part("counts") == script.counts(cells)
    assert part("devices") == script.devices(cell for cell in cells if cell.table == "operators")
    assert part("frameworks") == script.choices([cell for cell in cells if cell.table == "techniques"])
    assert part("engines") == script.choices([cell for cell in cells if cell.table == "features"])
