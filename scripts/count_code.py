"""Print how large the repository is: code lines, files and imports of the package by room, and lines by language.

    python scripts/count_code.py [--json]

A code line is one that holds code: blank lines, comments and docstrings (every string that stands alone) do not count.
Documentation counts in words. A room is a top-level package of src/sightline.
"""

import argparse
import ast
import io
import json
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/sightline")
MOST_OF_A_NAME = 3
"""Modules that may share a name."""
_TARGETS: Sequence[tuple[str, str, str, float]] = (
    # Section and key of the count, what it is called, and what it must reach at most.
    ("package", "code_lines", "code lines of the package", 74_000),
    ("package", "files", "files of the package", 600),
    ("package", "import_share", "imports, share of code lines", 0.09),
    ("package", "fullest_folder_files", "files of the fullest folder", 20),
    ("package", "repeated_names", f"module names used more than {MOST_OF_A_NAME} times", 0),
    ("docs", "words", "words of the documentation", 70_000),
)
_HASH, _BLOCK, _TEMPLATE = r"^\s*#.*$", r"/\*[\s\S]*?\*/", r"<!--[\s\S]*?-->|\{#[\s\S]*?#\}"
_LANGUAGES: Mapping[str, tuple[str, str]] = {
    # Name, and what a comment is.
    ".py": ("Python", ""),
    **dict.fromkeys((".yaml", ".yml"), ("YAML", _HASH)),
    ".js": ("JavaScript", rf"{_BLOCK}|^\s*//.*$"),
    ".css": ("CSS", _BLOCK),
    ".html": ("HTML", _TEMPLATE),
    **dict.fromkeys((".sh", "run"), ("Shell", _HASH)),
    ".toml": ("TOML", _HASH),
    ".json": ("JSON", r"(?!)"),
    ".ipynb": ("Notebook", r"(?!)"),
}
_NO_CODE = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
)


class Size(NamedTuple):
    """How large files are, together."""

    code_lines: int
    import_lines: int = 0
    files: int = 1

    @property
    def import_share(self) -> float:
        """Import lines as a share of code lines."""
        return self.import_lines / max(self.code_lines, 1)


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes."""
    return Size(*map(sum, zip(Size(0, 0, 0), *sizes, strict=True)))


def size_of(text: str, suffix: str) -> Size:
    """Return the code lines of one file, and of Python how many of them are imports."""
    if suffix == ".py":
        return _python_size(text)
    stripped = re.sub(_LANGUAGES[suffix][1], "", text, flags=re.MULTILINE)
    return Size(sum(bool(line.strip()) for line in stripped.splitlines()))


def _python_size(text: str) -> Size:
    tree, code = ast.parse(text), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    imports = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(_lines(node))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(_lines(node))
    return Size(len(code), len(imports & code))


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def counted(root: Path = ROOT) -> dict[str, Any]:
    """Return the counts of a repository, of files that git tracks or would track."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = sorted({Path(name) for name in listed.splitlines() if (root / name).is_file()})
    sizes = {
        path: size_of((root / path).read_text("utf-8"), kind)
        for path in paths
        if (kind := path.suffix or path.name) in _LANGUAGES
    }
    package = {path: size for path, size in sizes.items() if path.is_relative_to(PACKAGE) and path.suffix == ".py"}
    folders = Counter(path.parent for path in package)
    names = Counter(path.stem for path in package if not path.stem.startswith("__"))
    repeated = {name: count for name, count in names.most_common() if count > MOST_OF_A_NAME}
    rooms = _grouped({path: _room(path) for path in package}, package)
    places = _grouped({path: f"{_place(path)}: {_LANGUAGES[path.suffix or path.name][0]}" for path in sizes}, sizes)
    whole, fullest = total(package.values()), max(folders, key=lambda folder: folders[folder])
    return {
        "package": {
            **_figures(whole),
            "fullest_folder": str(fullest),
            "fullest_folder_files": folders[fullest],
            "repeated_names": len(repeated),
        },
        "rooms": {name: _figures(size) for name, size in rooms.items()},
        "languages": {name: {"files": size.files, "code_lines": size.code_lines} for name, size in places.items()},
        "module_names": repeated,
        "docs": {
            "files": sum(map(_is_documentation, paths)),
            "words": sum(len((root / path).read_text("utf-8").split()) for path in paths if _is_documentation(path)),
        },
    }


def _grouped(groups: Mapping[Path, str], sizes: Mapping[Path, Size]) -> dict[str, Size]:
    """Sizes by group, the largest first."""
    found = {name: total(size for path, size in sizes.items() if groups[path] == name) for name in set(groups.values())}
    return dict(sorted(found.items(), key=lambda item: (-item[1].code_lines, item[0])))


def _figures(size: Size) -> dict[str, Any]:
    return {"code_lines": size.code_lines, "files": size.files, "import_share": round(size.import_share, 4)}


def _room(path: Path) -> str:
    room, *rest = path.relative_to(PACKAGE).parts
    return room if rest else "(modules)"


def _place(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else "(root)"


def _is_documentation(path: Path) -> bool:
    return path.suffix == ".md" and _place(path) == "docs"


def targets(counts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what must be reached, beside what is."""
    return [
        {"what": what, "now": counts[section][key], "target": target, "reached": counts[section][key] <= target}
        for section, key, what, target in _TARGETS
    ]


def report(counts: Mapping[str, Any]) -> str:
    """Return the counts as tables."""
    rooms = [
        (name, *map(_shown, (of["code_lines"], of["files"], of["import_share"])))
        for name, of in {**counts["rooms"], "package": counts["package"]}.items()
    ]
    languages = [(name, _shown(of["code_lines"]), _shown(of["files"])) for name, of in counts["languages"].items()]
    docs = counts["docs"]
    names = ", ".join(f"{name} {count}" for name, count in counts["module_names"].items())
    reached = [
        (of["what"], _shown(of["now"]), f"<= {_shown(of['target'])}", "reached" if of["reached"] else "")
        for of in targets(counts)
    ]
    return "\n\n".join(
        (
            _table(("room", "code lines", "files", "imports"), rooms),
            _table(("place", "code lines", "files"), languages),
            f"docs: {_shown(docs['words'])} words in {docs['files']} Markdown files",
            f"fullest folder: {counts['package']['fullest_folder']}, {counts['package']['fullest_folder_files']} files",
            f"module names used more than {MOST_OF_A_NAME} times: {names or 'none'}",
            _table(("must reach", "now", "target", ""), reached),
        )
    )


def _shown(value: Any) -> str:
    """A share in per cent, a number with its thousands apart."""
    return f"{100 * value:.1f} %" if isinstance(value, float) else f"{value:,}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first to the left and figures to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(zipped))
        for zipped in (list(zip(line, widths, strict=True)) for line in (headings, *rows))
    )


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    counts = counted()
    print(json.dumps({**counts, "targets": targets(counts)}, indent=1) if options.json else report(counts))


if __name__ == "__main__":
    main()
