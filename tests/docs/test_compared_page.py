"""The page about other tools says what the runs of them kept."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")
FIGURES = json.loads((ROOT / "docs" / "accuracy" / "peers.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script():
    """The module that writes the table."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("compared_page")
    sys.path.remove(str(ROOT / "scripts"))


def test_the_table_is_what_was_kept(script):
    part = re.search(r"<!-- peers -->\n(.*?)<!-- end peers -->", TEXT, re.DOTALL)[1].strip()
    assert part == script.table()
    loads = re.search(r"<!-- loads -->\n(.*?)<!-- end loads -->", TEXT, re.DOTALL)[1].strip()
    assert loads == script.loads_table()


def test_errors_of_sources_left_out_are_those_of_the_accuracy_pages(script):
    left_out = json.loads((ROOT / "docs" / "accuracy" / "left-out.json").read_text(encoding="utf-8"))["left_out_suites"]
    lines = {suite: line for line in script.table().splitlines() for suite in script.CASES if f"`{suite}`" in line}
    known = [suite for suite in lines if script.CASES[suite][1] == "source left out"]
    assert known
    for suite in known:
        assert lines[suite].split(" | ")[3] == f"{100 * left_out[suite]['mape']:.1f} %"


def test_no_error_and_no_time_stands_outside_of_the_table():
    typed = re.sub(r"<!-- (peers|loads) -->.*?<!-- end \1 -->", "", TEXT, flags=re.DOTALL)
    assert not re.findall(r"\d(?:\.\d+)? (?:%|ms|s)\b", typed)


def test_every_peer_that_ran_has_a_script_with_its_commit(script):
    ran = {peer for peer in FIGURES if peer != script.OURS}
    said = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks" / "peers").glob("*.py"))
    assert ran <= set(script.COMMITS)
    assert all(script.COMMITS[peer] in said for peer in ran)


def test_both_times_are_of_the_same_cases(script):
    asked = {suite for peer, of in FIGURES.items() if peer != script.OURS for suite in of}
    assert asked <= set(FIGURES[script.OURS])
