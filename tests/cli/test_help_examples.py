"""Examples in help texts run from an empty folder: what they name comes with Sightline."""

import shlex

import pytest
import typer.main

from sightline import catalog
from sightline.cli.app import command_line
from sightline.folders import EXAMPLES
from sightline.loading import load

OF_USERS = {
    *("latest", "our-cluster", "my-catalog", "nccl-tests.log", "operators.json", "measured.csv", "trace.json.gz"),
    *("ds_config.json", "pretrain.sh", "runs.zip", "run.zip", "TABLES"),
}
"""Words for files, runs and anchors of users, which no installation has."""


def commands(group):
    for command in group.commands.values():
        yield from commands(command) if hasattr(command, "commands") else [command]


def examples(command):
    lines = map(str.strip, command.help.partition("\b")[2].splitlines())
    return [line for line in lines if line.startswith("sightline ")]


MAIN = typer.main.get_command(command_line())
LINES = sorted({line for command in (MAIN, *commands(MAIN)) for line in examples(command)})
QUICK = ("predict", "check", "catalog", "examples", "roofline", "explain", "sensitivity", "explore")
RUNS = [line for line in LINES if line.split()[1] in QUICK and not set(shlex.split(line)) & OF_USERS]


def test_there_are_few_examples_of_each_command():
    assert {len(examples(command)) for command in (MAIN, *commands(MAIN))} <= {1, 2, 3, 4, 5}


def test_there_are_examples_without_a_file():
    asked = {line.split()[1] for line in LINES if "--model" in line}
    assert asked >= {"predict", "plan", "simulate", "check", "explain", "init"}


@pytest.mark.parametrize("line", LINES)
def test_what_an_example_names_comes_with_sightline(line):
    words = shlex.split(line)
    assert "scenario.yaml" not in words or words[1] == "import"
    for word in words[2:]:
        if word.startswith("examples/"):
            assert EXAMPLES.joinpath(word.removeprefix("examples/")).is_file()
    if words[1] in ("predict", "plan", "simulate", "check", "explain") and "--model" in words:
        model, cluster = (words[words.index(option) + 1] for option in ("--model", "--cluster"))
        workload = {"task": "generate", "batch": 1, "prompt_tokens": 1, "output_tokens": 1}
        assert load({"model": model, "cluster": cluster, "workload": workload}).model.name in catalog.names("models")


@pytest.mark.parametrize("line", RUNS)
def test_quick_examples_run(in_process, tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    if "|" in line:
        pytest.skip("a shell runs it")
    words = shlex.split(line.partition(" && ")[0])[1:]
    code, out, err = in_process(*words)
    assert code in ((0, 1) if words[0] == "check" else (0,)), err
    assert out or list(tmp_path.iterdir())
