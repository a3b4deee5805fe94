"""Packages whose names are loaded when they are first used offer them as any package does."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import sightline

PACKAGES = (
    "sightline",
    "sightline.frameworks",
    "sightline.loading",
    "sightline.program",
    "sightline.program.kernels",
    "sightline.scenario",
)
USER_CODE = """\
import sightline as sl
from sightline.frameworks import Engine, Framework
from sightline.loading import load_all, to_mapping
from sightline.scenario import Adapter, GenerationPlan, Plan
from sightline.program import InferenceKernels, Program

plan: type[Plan] = sl.Plan
sl.predcit
"""


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_listed_and_a_star_imports_them(package):
    module = import_module(package)
    found = {}
    exec(f"from {package} import *", found)
    assert set(module.__all__) == found.keys() - {"__builtins__"}
    assert set(module.__all__) | {"__doc__", "__file__"} <= set(dir(module))
    assert all(found[name] is getattr(module, name) for name in module.__all__)


@pytest.mark.slow
def test_a_strict_type_checker_knows_every_name_and_no_other(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "user.py").write_text(USER_CODE)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "user.py"]
    environment = {**os.environ, "MYPYPATH": str(Path(sightline.__file__).parents[1])}
    said = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path, env=environment).stdout
    errors = [line for line in said.splitlines() if ": error:" in line]
    assert [line.split('"')[0] for line in errors] == ["user.py:8: error: Module has no attribute "]
