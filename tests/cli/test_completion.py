"""What a shell is offered after the Tab key, as its completion script asks for it."""

import os
import subprocess
import sys

import pytest
from waiting import PATIENCE_S

from sightline.cli import completion
from sightline.cli.app import FUNCTIONS


def completed(line, tmp_path, **variables):
    """Return what bash is offered for the last word of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), completion.ASKED: "complete_bash", **variables}
    answer = subprocess.run(
        [sys.executable, "-m", "sightline"],
        env=os.environ | asked,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout.split()


def test_commands_and_options_are_offered(tmp_path):
    assert set(completed("sightline ", tmp_path)) == set(FUNCTIONS)
    assert completed("sightline sens", tmp_path) == ["sensitivity"]
    assert {"--set", "--sweep", "--sort", "--top"} <= set(completed("sightline predict x.yaml --", tmp_path))


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sightline catalog dev", ["devices"]),
        ("sightline catalog devices h100-s", ["h100-sxm-80gb"]),
        ("sightline catalog device h100-s", ["h100-sxm-80gb"]),
        ("sightline catalog mem", ["memories"]),
        ("sightline catalog memory hbm3", ["hbm3", "hbm3e"]),
        ("sightline catalog launches rtx-pro", ["rtx-pro-6000-blackwell"]),
        ("sightline catalog nothing a", []),
        ("sightline roofline x.yaml --devices h100-sxm-80gb,h200-s", ["h100-sxm-80gb,h200-sxm-141gb"]),
        ("sightline predict x.yaml --set plan.zero", ["plan.zero_stage="]),
        ("sightline predict x.yaml --sweep workload.prompt", ["workload.prompt_tokens="]),
        ("sightline predict x.yaml --sort memory", ["memory_bytes.total"]),
        ("sightline validate korthikanti-2022-t", ["korthikanti-2022-table5"]),
        ("sightline check x.yaml --require fits,hf", ["fits,hfu"]),
    ],
)
def test_names_and_keys_are_offered(tmp_path, line, offered):
    assert completed(line, tmp_path) == offered


def test_zsh_and_fish_ask_in_their_own_way(tmp_path):
    line = {"_TYPER_COMPLETE_ARGS": "sightline catalog devices h100-s", "COMP_WORDS": ""}
    zsh = completed("", tmp_path, **line, **{completion.ASKED: "complete_zsh"})
    assert "h100-sxm-80gb" in " ".join(zsh)
    action = {completion.ASKED: "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    assert completed("", tmp_path, **line, **action) == ["h100-sxm-80gb"]


def test_a_shell_is_answered_by_the_command_it_asks_about_alone(monkeypatch):
    monkeypatch.setenv(completion.ASKED, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "sightline catalog dev")
    assert completion.typed_command() == "catalog"


def test_the_options_that_install_it_are_those_of_the_program(in_process):
    assert "--install-completion" in in_process("--help")[1]
    assert "--install-completion" not in in_process("predict", "--help")[1]


def test_every_offered_key_is_one_of_scenarios(in_process, example):
    for key in completion.keys("plan."):
        err = in_process("predict", example, "--set", f"{key}[]")[2]
        assert "not a known key" not in err
