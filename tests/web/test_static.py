"""The page's own style and script have nothing that nobody uses."""

import re
from pathlib import Path

import sightline

SOURCES = Path(sightline.__file__).parent
STATIC = SOURCES / "web" / "static"


def _texts(folder, ending):
    return [path.read_text(encoding="utf-8") for path in sorted(folder.rglob(f"*{ending}"))]


def test_every_exported_function_is_imported():
    scripts = _texts(STATIC, ".js")
    exported = {
        name for text in scripts for name in re.findall(r"^export (?:async )?function (\w+)", text, re.MULTILINE)
    }
    imported = {
        name.strip()
        for text in scripts
        for names in re.findall(r"^import \{([^}]*)\}", text, re.MULTILINE)
        for name in names.split(",")
    }
    assert exported
    assert exported <= imported


def test_every_rule_is_of_something_on_the_page():
    style = re.sub(r"/\*.*?\*/", "", (STATIC / "page.css").read_text(encoding="utf-8"))
    classes = set(re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", style))
    used = " ".join([*_texts(STATIC, ".js"), *_texts(SOURCES / "web" / "templates", ".html")])
    used += " ".join([*_texts(SOURCES / "render", ".py"), *_texts(SOURCES / "web", ".py")])
    words = set(re.findall(r"[\w-]+", used))
    assert "field-problem" in classes
    # Some are written with a number: lines-{{ lines }}.
    assert sorted({re.sub(r"\d+$", "", name) for name in classes} - words) == []
