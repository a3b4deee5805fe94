"""Files that the documentation names are there."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
)
PLACES = (ROOT, ROOT / "src", ROOT / "src" / "sightline", ROOT / "src" / "sightline" / "prediction")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_a_page_names_exist(page):
    named = set(
        re.findall(r"`((?:src|scripts|benchmarks|tests|[a-z]+)/[a-z0-9_/]+\.py)\b", page.read_text(encoding="utf-8"))
    )
    ours = {path for path in named if path.split("/")[0] in _tops()}
    assert not sorted(path for path in ours if not any((place / path).exists() for place in PLACES))


def test_the_linters_exceptions_are_for_files_that_exist():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    assert [path for path in lint["per-file-ignores"] if "/" in path and not any(ROOT.glob(path))] == []


def _tops() -> set[str]:
    """Our packages, and the folders at the top; other paths are those of other projects."""
    packages = {path.name for path in (ROOT / "src" / "sightline").iterdir() if path.is_dir()}
    return packages | {"src", "scripts", "benchmarks", "tests"}
