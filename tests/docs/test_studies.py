"""The page of built-in studies has each with its picture, and its findings come from running them."""

import importlib.util
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from sightline.exploration import BUILT_IN
from sightline.exploration.run import explore

ROOT = Path(__file__).parents[2]
STUDIES = [name for name in BUILT_IN if find_spec(f"sightline.exploration.studies.{name.replace('-', '_')}")]
PAGE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
FINDINGS = json.loads((ROOT / "docs" / "studies.json").read_text(encoding="utf-8"))


def part(name):
    """Return what is generated of a study."""
    (text,) = re.findall(rf"<!-- {name} -->\n(.*?)<!-- end {name} -->", PAGE, re.DOTALL)
    return text.strip()


@pytest.fixture(scope="module")
def update_studies():
    """The script that writes the generated parts."""
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("update_studies", ROOT / "scripts" / "update_studies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_picture_and_what_it_finds(name, update_studies):
    assert f"](images/studies/{name}.svg)" in PAGE
    assert f"`{name}`" in PAGE
    assert part(name) == update_studies.shown(FINDINGS[name])
    assert len(FINDINGS[name]["findings"]) >= 3
    assert FINDINGS[name]["assumptions"]


@pytest.mark.parametrize(
    "name", ["trends", *(pytest.param(n, marks=pytest.mark.slow) for n in STUDIES if n != "trends")]
)
def test_what_is_written_is_what_the_study_finds(name, update_studies):
    assert FINDINGS[name] == update_studies.findings(explore(name)), "run scripts/update_studies.py"


def test_words_around_have_no_numbers_of_results():
    written = re.sub(r"<!-- ([\w-]+) -->.*?<!-- end \1 -->", "", PAGE, flags=re.DOTALL)
    assert not re.search(r"\d %|\d times", written)
