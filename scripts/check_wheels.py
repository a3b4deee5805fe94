"""Ask the package index whether everything that Sightline needs has wheels for processors and systems other than ours.

Nothing is built or installed: pip resolves the base dependencies, as pinned, for each platform from wheels alone.
"""

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PLATFORMS: Final = {
    "Linux on aarch64": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "Linux on x86-64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "macOS on arm64": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
}
"""Tags of wheels that each takes."""
PYTHONS: Final = ("3.11", "3.12", "3.13")


def main() -> int:
    """Print a line for each platform and version of Python; return 1 if something has no wheel for one."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    missing = 0
    for platform, tags in PLATFORMS.items():
        for python in PYTHONS:
            problem = _resolved(needed, tags, python)
            missing += bool(problem)
            print(f"{platform}, Python {python}: {problem or f'{len(needed)} dependencies and theirs have wheels'}")
    return int(missing > 0)


def _resolved(needed: Sequence[str], tags: Sequence[str], python: str) -> str:
    """What pip says is missing; empty where everything has a wheel."""
    chosen = [word for tag in tags for word in ("--platform", tag)]
    with TemporaryDirectory() as nowhere:
        how = ["--dry-run", "--quiet", "--ignore-installed", "--only-binary", ":all:", "--target", nowhere]
        what = ["--python-version", python, "--implementation", "cp", *chosen, "-c", str(ROOT / "constraints.txt")]
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        asked = subprocess.run([*pip, *how, *what, *needed], capture_output=True, text=True, check=False)
    return "" if asked.returncode == 0 else (asked.stderr.strip().splitlines() or ["pip failed"])[-1]


if __name__ == "__main__":
    sys.exit(main())
