"""The page of inputs says what the readers' own tables say."""

import importlib
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "inputs.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script():
    """The module that writes the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("inputs_page")
    sys.path.remove(str(ROOT / "scripts"))


def test_the_page_is_current(script):
    for name, text in script.parts().items():
        assert re.search(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", TEXT, re.DOTALL)[1].strip() == text, name


def test_the_table_of_keys_is_current(script):
    assert (ROOT / "docs/inputs/keys.csv").read_text(encoding="utf-8") == script.keys()


def test_every_list_of_keys_is_on_the_page(script):
    listed = {path.stem for path in (ROOT / "src/sightline/launching/readers").glob("*.yaml") if path.stem[0] != "_"}
    assert listed == {dialect.engine for dialect in script.dialects()} | script.TRAINING.keys()
