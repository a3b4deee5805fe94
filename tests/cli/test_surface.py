"""What is public: the names of the package, the help of the commands, and how light a start is."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

import sightline
from sightline.cli.app import _prepared


def imported_by(statement):
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(answer.stdout.splitlines()[-1].split())


def test_importing_the_package_imports_nothing_heavy():
    assert not {"numpy", "pydantic", "typer", "polars", "altair", "scipy", "torch"} & imported_by("import sightline")


def test_a_prediction_imports_nothing_it_does_not_need(example):
    statement = f"from sightline.cli.main import run; run(['predict', {str(example)!r}, '--json'])"
    assert not {"torch", "scipy", "altair", "polars", "pandas", "pydantic", "rich.console"} & imported_by(statement)


def test_listing_runs_needs_no_validators(tmp_path):
    statement = f"from sightline.cli.main import run; run(['runs', 'list', '--store', {str(tmp_path)!r}, '--json'])"
    assert not {"torch", "pydantic"} & imported_by(statement)


def test_options_keep_their_validators_where_typer_says_no_types():
    said_elsewhere, said_otherwise = SimpleNamespace(), SimpleNamespace(type_descriptor=SimpleNamespace())
    text = SimpleNamespace(type_descriptor=SimpleNamespace(annotation=str))
    parameters = _prepared([said_elsewhere, said_otherwise, text])
    assert [hasattr(p, "get_runtime_param") for p in parameters] == [False, False, True]


def test_a_training_step_loads_nothing_of_other_tasks_and_commands(example):
    rooms = [
        "calibration",
        "explanation",
        "measurement",
        "runs",
        "validation",
        "charts",
        "cli.measure",
        "cli.runs",
    ]
    rooms += [
        "frameworks.engine",
        "loading.generation",
        "loading.operations",
    ]
    rooms += ["program.kernels.inference_kernels", "program.batch", "prediction.generation", "prediction.sensitivity"]
    rooms += ["cost.attention.decode", "cost.matmul.grouped", "cost.recurrent", "cost.sparse", "cost.processor"]
    rooms += ["scenario.generation", "scenario.operation", "program.mixer_operators", "program.blocks.recurrent"]
    loaded = imported_by(f"from sightline.cli.main import run; run(['predict', {str(example)!r}])")
    assert [name for name in loaded if name.startswith(tuple(f"sightline.{room}" for room in rooms))] == []


@pytest.mark.parametrize("name", sightline.__all__)
def test_every_public_name_is_there_and_described(name):
    assert getattr(sightline, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="predcit"):
        sightline.predcit  # noqa: B018 - asking is the test


def test_the_version_is_said(in_process):
    assert in_process("--version") == (0, f"sightline {sightline.__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["predict", "--help"], ["catalog", "--help"], ["validate", "-h"]])
def test_help_has_examples(in_process, arguments):
    code, out, err = in_process(*arguments)
    assert (code, err) == (0, "")
    assert "Examples:" in out
    assert "  sightline " in out


def test_without_a_command_there_is_help(in_process):
    assert in_process() == in_process("--help")


def test_the_module_is_the_command(run):
    assert run("--version").stdout == f"sightline {sightline.__version__}\n"


def test_python_says_what_the_command_says(example, in_process):
    import json

    profile = sightline.predict(sightline.load(example))
    assert json.loads(in_process("predict", example, "--json")[1])["step_time_s"] == profile.step_time_s
