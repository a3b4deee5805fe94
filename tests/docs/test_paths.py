"""Files that the documentation names are there."""

import re
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


def _tops() -> set[str]:
    """Our packages, and the folders at the top; other paths are those of other projects."""
    packages = {path.name for path in (ROOT / "src" / "sightline").iterdir() if path.is_dir()}
    return packages | {"src", "scripts", "benchmarks", "tests"}
