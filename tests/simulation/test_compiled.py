"""Compiled code is kept by the content of its sources, and compiled once."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from sightline.errors import WorkError
from sightline.progress import listening
from sightline.simulation import compiled
from sightline.simulation.engine import policies

PROGRAM = """
from sightline.simulation.compiled import _kept_in, is_kept

print(_kept_in(), is_kept(_kept_in))
"""


def _told(home: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        check=True,
        text=True,
        env={"XDG_CACHE_HOME": str(home), "PATH": "", "PYTHONPATH": ":".join(sys.path)},
    )
    return done.stdout.split()


def test_the_folder_is_in_the_users_cache(tmp_path):
    folder, kept = _told(tmp_path)
    assert Path(folder).parent == tmp_path / "sightline" / "compiled"
    assert kept == "False"


def test_a_cache_that_cannot_be_written_moves_to_the_temporary_folder(tmp_path):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    folder, _ = _told(occupied)
    assert Path(folder).parent.name.startswith("sightline-")


def test_a_part_called_from_python_is_refused_and_the_process_goes_on():
    with pytest.raises(TypeError, match="py_func"):
        policies.schedule(1)


def test_every_module_with_compiled_functions_names_the_folder():
    package = Path(compiled.__file__).parent
    listed = {path for part in compiled.COMPILED for path in package.glob(part)}
    using = {
        path for path in package.rglob("*.py") if "import compiled" in (text := path.read_text()) or "@entry" in text
    }
    assert using <= listed


def test_the_same_sources_elsewhere_find_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_kept_in", lambda: tmp_path / "kept")
    found = []
    for place in ("one", "other"):
        file = tmp_path / place / "package" / "module.py"
        file.parent.mkdir(parents=True)
        file.write_text("def twice(x):\n    return 2 * x\n")
        spec = spec_from_file_location("package.module", file)
        module = module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        twice = compiled.entry(module.twice)
        assert not found or compiled.is_kept(twice)
        assert twice(3) == 6
        found.append(sum(twice.stats.cache_hits.values()))
    assert found == [0, 1]


@pytest.mark.parametrize("version", ["0.61.2", "0.69.0rc1", "1.0.0"])
def test_untested_releases_of_numba_are_refused(version, monkeypatch):
    monkeypatch.setattr("numba.__version__", version)
    spec = spec_from_file_location("untested", compiled.__file__)
    with pytest.raises(WorkError, match=f"0.62 to 0.68, and {version}"):
        spec.loader.exec_module(module_from_spec(spec))
    allowed = (Path(compiled.__file__).parents[3] / "pyproject.toml").read_text()
    assert f"numba>=0.{compiled.RELEASES[0][1]},<0.{compiled.RELEASES[1][1] + 1}" in allowed


def _said(function: object) -> list[str]:
    said: list[str] = []
    with listening(said.append), compiled.compiling_once(function):
        assert len(said) < 2
    return said


def test_whoever_waits_for_compilation_is_told_why(tmp_path, monkeypatch):
    def loop() -> None:
        """Stands for an entry."""

    monkeypatch.setattr(compiled, "_kept_in", lambda: tmp_path)
    assert _said(loop) == [compiled.REMARK]
    (tmp_path / "test_compiled.loop-1.py312.1.nbc").touch()
    assert _said(loop) == []
    with compiled.compiling_once(loop):
        """Where nobody listens, nothing is said."""
