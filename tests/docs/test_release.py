"""What stands at the top of the repository for users of a release."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import sightline as sl
from sightline.web.server import DEFAULT_PORT, HOST

ROOT = Path(__file__).parents[2]
CHANGES = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def package():
    """The module that checks packages."""
    sys.path.insert(0, str(ROOT / "scripts"))
    yield importlib.import_module("check_package")
    sys.path.remove(str(ROOT / "scripts"))


def test_the_citation_is_of_this_version():
    cited = yaml.safe_load(text("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"], cited["type"]) == (sl.__version__, "Apache-2.0", "software")
    assert cited["authors"]
    assert all({"name"} <= set(one) or {"family-names", "given-names"} <= set(one) for one in cited["authors"])


def test_the_changelog_begins_with_what_is_unreleased():
    versions = re.findall(r"^## (.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}", version) for version in versions[1:])


def test_the_changelog_says_what_kind_of_change_each_is():
    for section in re.split(r"^## ", text("CHANGELOG.md"), flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.*)$", section, re.MULTILINE)
        assert kinds
        assert set(kinds) <= CHANGES
        assert len(kinds) == len(set(kinds))


def test_the_security_page_says_where_the_page_listens():
    said = text("SECURITY.md")
    assert HOST in said
    assert str(DEFAULT_PORT) in said
    assert f"| {sl.__version__.rpartition('.')[0]} | yes |" in said


def test_the_first_link_after_the_readmes_two_commands_is_the_accuracy_page():
    after = text("README.md").partition("-m pytest")[2].partition("```")[2]
    assert re.search(r"\]\(([^)]+)\)", after)[1] == "docs/accuracy.md"


def test_the_project_states_no_address_that_it_does_not_have():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    assert "urls" not in project
    assert project["license"] == "Apache-2.0"


def test_a_package_is_told_what_it_lacks_and_what_it_has_too_much(package):
    complete = [
        "sightline/py.typed",
        "sightline/web/static/page.js",
        "sightline/catalog/data/devices/a100-sxm-80gb.yaml",
        "sightline/examples/llama-2-7b-zero2-8xa800.yaml",
        "sightline/examples/many.csv",
    ]
    complete += ["sightline-0.1.0.dist-info/licenses/LICENSE", "sightline-0.1.0.dist-info/entry_points.txt"]
    assert package.problems("wheel", complete) == []
    assert package.problems("wheel", complete[1:]) == [r"wheel lacks sightline/py\.typed"]
    assert package.problems("wheel", [*complete, "tests/test_it.py"]) == ["wheel has tests/test_it.py"]
    assert package.problems("wheel", [*complete, "sightline/secret.pem"]) == ["wheel has sightline/secret.pem"]
