"""Check what is in a wheel and in a source distribution: ``check_package.py DIST``.

Neither holds tests, measurements of others' tables, caches or private files; each holds what it needs to be used and built.
"""

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

UNWANTED = re.compile(
    r"^(tests?|shared|benchmarks|scripts|docs|\.ci|\.venv)/|__pycache__/|\.(pyc|env|pem|key|log|csv)$|~$"
)
"""Paths that no package has; tables come in examples alone."""
WANTED = {
    "wheel": (
        r"sightline/py\.typed",
        r"sightline/catalog/data/devices/a100-sxm-80gb\.yaml",
        r"sightline/web/static/\w+\.js",
        r"sightline/examples/llama-2-7b-zero2-8xa800\.yaml",
        r"sightline-[\d.]+\.dist-info/licenses/LICENSE",
        r"sightline-[\d.]+\.dist-info/entry_points\.txt",
    ),
    "sdist": (
        *(r"LICENSE", r"README\.md", r"CHANGELOG\.md", r"CITATION\.cff", r"SECURITY\.md", r"CONTRIBUTING\.md"),
        *(r"pyproject\.toml", r"PKG-INFO", r"src/sightline/py\.typed", r"examples/llama-2-7b-zero2-8xa800\.yaml"),
    ),
}
"""Paths that each has, as whole patterns."""
EXAMPLES = ("examples/", "sightline/examples/")


def main(dist: Path) -> None:
    """Check the newest of each in a folder, and end with what is wrong."""
    wheels, sources = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    if not wheels or not sources:
        raise SystemExit(f"{dist} lacks a wheel or a source distribution; `python -m build` makes both")
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wrong = problems("wheel", wheel.namelist())
    with tarfile.open(sources[-1]) as source:
        wrong += problems("sdist", (name.partition("/")[2] for name in source.getnames()))
    if wrong:
        raise SystemExit("\n".join(wrong))
    print(f"package: {wheels[-1].name} and {sources[-1].name} hold what they should")


def problems(kind: str, names: Iterable[str]) -> list[str]:
    """Return what is in a package and should not be, and what is missing."""
    listed = list(names)
    extra = [name for name in listed if not name.startswith(EXAMPLES) and UNWANTED.search(name)]
    missing = [pattern for pattern in WANTED[kind] if not any(re.fullmatch(pattern, name) for name in listed)]
    return [*(f"{kind} has {name}" for name in extra), *(f"{kind} lacks {pattern}" for pattern in missing)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
