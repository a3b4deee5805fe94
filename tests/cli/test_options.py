"""An option means the same in every command."""

from collections import defaultdict

import pytest
import typer.main

from sightline.cli.app import FORMER, command_line

OWN = {"--out": "what each command writes", "--only": "findings, or rows of a table", "--suite": "", "--level": ""}
"""Options that take what each command is about."""


def commands(group, prefix=""):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} ")
        else:
            yield prefix + name, command


COMMANDS = dict(commands(typer.main.get_command(command_line())))


def test_an_option_takes_the_same_in_every_command():
    takes = defaultdict(set)
    for command in COMMANDS.values():
        for parameter in command.params:
            for spelling in parameter.opts if parameter.param_type_name == "option" else ():
                takes[spelling].add("" if parameter.is_flag else parameter.metavar)
    assert {name: forms for name, forms in takes.items() if len(forms) > 1 and name not in OWN} == {}


def test_there_is_one_spelling_for_a_thing():
    spelled = {name for command in COMMANDS.values() for parameter in command.params for name in parameter.opts}
    assert not FORMER.keys() & spelled
    assert set(FORMER.values()) <= spelled


def test_former_spellings_are_accepted(in_process, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenario.yaml").write_text("")
    options = ("--model", "llama-3.1-8b", "--cluster", "1x h100", "--task", "generate", "--prompt", "1")
    assert in_process("init", *options, "--output", "1", "--batch", "1", "--overwrite")[0] == 0
    assert in_process("explore", "technology-nodes", "--small", "--json")[0] == 0


@pytest.mark.parametrize("key", ["plan.micro_batch", "workload.global_batch"])
def test_a_sweep_of_plan_searches_its_values(in_process, key):
    import json

    asked = ("plan", "examples/llama-2-7b-zero2-8xa800.yaml", "--sweep", f"{key}=16,32", "--top", "2", "--json")
    part, _, name = key.partition(".")
    code, out, err = in_process(*asked)
    assert code == 0, err
    plans = json.loads(out)["plans"]
    assert {(one["plan"] if part == "plan" else one["scenario"]["workload"])[name] for one in plans} <= {16, 32}
