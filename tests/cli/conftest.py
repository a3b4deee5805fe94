"""The command line as a user meets it: a process with arguments, stdin, stdout, stderr and an exit code."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "llama-2-7b-zero2-8xa800.yaml"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run ``sightline`` with these arguments in an empty folder."""

    def run(*arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sightline", *map(str, arguments)]
        return subprocess.run(
            command, check=False, capture_output=True, text=True, input=stdin, cwd=tmp_path, timeout=PATIENCE_S
        )

    return run


@pytest.fixture
def example() -> Path:
    """The scenario of the README."""
    return EXAMPLE


@pytest.fixture
def in_process(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run the same entry point inside the test: exit code, stdout, stderr; much quicker than a process."""
    from sightline.cli.main import run as entry

    def run(*arguments: object) -> tuple[int, str, str]:
        code = entry([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
