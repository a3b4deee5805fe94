"""The README and the documentation are run: every ``bash`` and ``python`` block, in a copy of the examples.

Blocks that need no shell run in this process, which has loaded already what a command loads when it starts.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from sightline.cli.main import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHORT = (ROOT / "docs" / "catalog.md", ROOT / "docs" / "accelerators.md")
"""Pages whose blocks run by default, as do those of the README's first screen; all others are heavier suites."""
TOUR = "## A tour"
"""What follows the first screen of the README."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
RUNNABLE = ("bash", "python")
KNOWN = (*RUNNABLE, "yaml", "text")
QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
OF_A_SHELL = re.compile(r"[$`<>|&;(){}*?~]")
"""What a shell makes something else of, where it is not quoted."""


def blocks(languages):
    """Return (language, text) of all blocks in these languages; what stands on several pages is returned once."""
    found = {}
    for page in sorted(PAGES, key=lambda page: page not in SHORT):
        screen, _, tour = page.read_text(encoding="utf-8").partition(TOUR)
        first = len(BLOCK.findall(screen)) if tour else 0
        for number, block in enumerate(BLOCK.findall(screen + tour)):
            if block[0] in languages and block not in found:
                marks = () if page in SHORT or number < first else pytest.mark.slow
                found[block] = pytest.param(*block, id=f"{page.relative_to(ROOT)}-{number}", marks=marks)
    return list(found.values())


def without_installation(text):
    """Return what is left to run when the package is installed already; the tests do not run themselves."""
    lines = [line.rpartition("&& ")[2] if " -m venv " in line else line for line in text.splitlines()]
    return "\n".join(line for line in lines if " -m pytest" not in line and " -m pip install" not in line)


def own_commands(script):
    """Return the arguments of every line, if each is a command of ours that needs nothing of a shell; else None."""
    lines = [line for line in script.replace("\\\n", " ").splitlines() if line.strip()]
    bare = [QUOTED.sub("", line.partition(" #")[0]) for line in lines]
    if any(not line.startswith("sightline ") or OF_A_SHELL.search(line) for line in bare):
        return None
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the examples, where commands run that have nothing else."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIGHTLINE_DATA", raising=False)
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return tmp_path


@pytest.mark.parametrize(("language", "text"), blocks(RUNNABLE))
@pytest.mark.usefixtures("folder")
def test_a_block_runs(language, text, capsys):
    if language == "python":
        exec(compile(text, "block", "exec"), {"__name__": "__main__"})
        return
    script = without_installation(text).replace(".venv/bin/", "")
    commands = own_commands(script)
    if commands is None:
        run_by_a_shell(script)
        return
    for arguments in commands:
        assert run(arguments) == 0, capsys.readouterr().err
    assert "Traceback" not in capsys.readouterr().err


def run_by_a_shell(script):
    """Run a block as people paste it."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr


def test_every_block_says_what_it_is():
    for page in PAGES:
        openings = [
            line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("```") and line != "```"
        ]
        assert [line for line in openings if line.removeprefix("```") not in KNOWN] == [], page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_the_first_screen_has_a_picture_and_two_commands():
    screen = (ROOT / "README.md").read_text(encoding="utf-8").partition(TOUR)[0]
    assert screen.count("![") == 1
    install, test = (text for language, text in BLOCK.findall(screen) if language == "bash")
    assert "sightline predict examples/llama-2-7b-zero2-8xa800.yaml --chart" in install
    assert test.strip().endswith("-m pytest -n logical --dist loadfile")
