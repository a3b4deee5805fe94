"""Pages that list something list all of it."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TERMS = 60
WORDS = 70_000


def text(page):
    return (DOCS / page).read_text(encoding="utf-8")


def test_the_index_of_decisions_has_each():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", text("decisions/index.md")))
    assert linked == {path.name for path in (DOCS / "decisions").glob("*.md")} - {"index.md"}


def test_the_glossary_is_short_and_in_order():
    lines = text("glossary.md").partition("\n\n- ")[2].splitlines()
    terms = [term.lower() for term in re.findall(r"^(?:- )?\*\*([^*]+)\*\*: ", "\n".join(lines), re.MULTILINE)]
    assert 40 <= len(terms) <= TERMS
    assert terms == sorted(set(terms))


def test_the_documentation_stays_short():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= WORDS
