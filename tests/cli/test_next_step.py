"""A person at a terminal is told a command that goes on; pipes and files are not."""

import os
import pty
import shlex
import subprocess
import sys

import pytest

from sightline.cli import output


@pytest.fixture
def watched(monkeypatch):
    monkeypatch.setattr(output, "is_watched", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")


def suggested(err):
    (line,) = [line for line in err.splitlines() if line.startswith("try next: ")]
    return shlex.split(line.removeprefix("try next: "))


@pytest.mark.usefixtures("watched")
def test_every_command_names_one_that_exists_and_is_right(in_process, example, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    generate = example.parent / "llama-2-7b-generate-a100.yaml"
    asked = [
        ("predict", example, "--set", "plan.zero_stage=1"),
        ("predict", example, "--sweep", "plan.zero_stage=0,1"),
        ("predict", generate),
        ("sensitivity", generate),
        ("compare", example, example),
        ("roofline", generate),
        ("catalog",),
        ("catalog", "models"),
        ("validate", "korthikanti-2022-fig1"),
    ]
    for arguments in asked:
        _, program, *again = (None, *suggested(in_process(*arguments)[2]))
        assert program == "sightline"
        assert in_process(*again)[0] == 0, again


@pytest.mark.usefixtures("watched")
def test_settings_are_kept_and_quoted(in_process, example):
    words = suggested(in_process("predict", example, "--set", "name=my run", "--set", "plan.zero_stage=1")[2])
    assert words[2:] == [str(example), "--set", "name=my run", "--set", "plan.zero_stage=1"]


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_documents_have_none(in_process, example, form):
    assert "try next" not in in_process("predict", example, form)[2]


@pytest.mark.usefixtures("watched")
def test_what_came_from_stdin_cannot_be_asked_again(in_process, example, monkeypatch):
    with example.open(encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert "try next" not in in_process("predict", "-")[2]


def test_only_a_terminal_gets_one(run, example):
    assert "try next" not in run("predict", example).stderr
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "sightline", "predict", str(example)]
    with subprocess.Popen(command, stdout=follower, stderr=follower, text=True) as process:
        os.close(follower)
        seen = b""
        try:
            while chunk := os.read(leader, 4096):
                seen += chunk
        except OSError:
            pass
        process.wait()
    os.close(leader)
    assert process.returncode == 0
    assert "try next: sightline sensitivity" in seen.decode().splitlines()[-1]
