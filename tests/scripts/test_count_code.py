"""The count of code leaves out what is no code, and finds what a repository holds."""

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
MODULE = '''"""A module
of two lines."""

import os  # 1
from sys import (  # 2
    argv,

    path,
)


def call():
    """Return a path."""
    # A comment.
    text = """a

    text"""
    return os, argv, path, text


NAME = 1
"""An attribute."""
'''


@pytest.fixture
def count_code(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import count_code

    return count_code


def test_blank_lines_comments_and_docstrings_are_no_code(count_code):
    size = count_code.size_of(MODULE, ".py")
    assert (size.code_lines, size.import_lines) == (11, 5)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".yaml", "# comment\n\nkey: 1  # one\nlist: [#]\n"),
        (".js", "/* a\n comment */\n// another\nlet a = 1; // one\n\nlet b = 2;\n"),
        (".html", "<!-- a\n comment -->\n{# another #}\n<p>\n</p>\n"),
    ],
)
def test_other_languages_have_comments_of_their_own(count_code, suffix, text):
    assert count_code.size_of(text, suffix).code_lines == 2


def test_rooms_names_and_words_are_counted(count_code, tmp_path):
    files = {f"src/sightline/{room}/reading.py": "import os\nA = 1\n" for room in ("a", "b", "c", "d")}
    files |= {"src/sightline/a/other.py": "B = 2\n", "docs/page.md": "three more words\n", "tests/test_a.py": "C = 3\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    counts = count_code.counted(tmp_path)
    assert counts["package"]["code_lines"] == 9
    assert counts["package"]["fullest_folder_files"] == 2
    assert counts["rooms"]["a"] == {"code_lines": 3, "files": 2, "import_share": 0.3333}
    assert counts["module_names"] == {"reading": 4}
    assert counts["languages"]["tests: Python"]["code_lines"] == 1
    assert counts["docs"] == {"files": 1, "words": 3}
    (names,) = [of for of in count_code.targets(counts) if of["target"] == 0]
    assert (names["now"], names["reached"]) == (1, False)
    assert "reading 4" in count_code.report(counts)
