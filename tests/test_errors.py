"""Hints that work: the command that installs what is missing, from where Sightline came."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from sightline import errors


class Installed:
    """A distribution that was installed from a URL, or from the package index."""

    def __init__(self, origin: object = None) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Run as from a folder of installed packages."""
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "lib" / "site-packages" / "sightline" / "errors.py"))
    return monkeypatch


def test_what_no_terminal_shows_is_written_as_escapes() -> None:
    """Characters of a wrong file that would move the cursor, end the line, or have no encoding."""
    error = errors.InputError(["one is 'a\x1b[2J'", "two is 'b\ud800\n'"])
    assert error.problems == (r"one is 'a\x1b[2J'", r"two is 'b\ud800\n'")


def test_a_sentence_that_quotes_a_whole_file_is_cut() -> None:
    (said,) = errors.InputError(["x is '" + "y" * 99_999 + "'; allowed: z"]).problems
    assert len(said) < 4000
    assert said.startswith("x is 'yyy")
    assert said.endswith("yyy'; allowed: z")


def origin(packaged: pytest.MonkeyPatch, origin: object = None) -> None:
    packaged.setattr(metadata, "distribution", lambda _: Installed(origin))


def test_in_a_clone_the_hint_names_the_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = Path(errors.__file__).resolve().parents[2]
    monkeypatch.chdir(root)
    assert errors.install("measure") == "pip install '.[measure]'"
    monkeypatch.chdir(tmp_path)
    assert errors.install("measure,megatron") == f"pip install '{root}[measure,megatron]'"


def test_from_the_package_index_the_hint_names_the_package(packaged: pytest.MonkeyPatch) -> None:
    for found in (None, {"url": "https://example.org/sightline-0.1.0-py3-none-any.whl", "archive_info": {}}):
        origin(packaged, found)
        assert errors.install("measure") == "pip install 'sightline[measure]'"


def test_what_was_installed_from_a_clone_remembers_it(packaged: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clone = tmp_path / "a clone"
    origin(packaged, {"url": clone.as_uri(), "dir_info": {}})
    assert errors.install("runs") == "pip install 'sightline[runs]'"
    clone.mkdir()
    (clone / "pyproject.toml").touch()
    assert errors.install("runs") == f"pip install '{clone}[runs]'"
    packaged.chdir(clone)
    assert str(errors.missing_extra("SQL over runs", "runs")).endswith("not installed: pip install '.[runs]'")


def test_without_any_record_the_hint_names_the_package(packaged: pytest.MonkeyPatch) -> None:
    def none(name: str) -> object:
        raise metadata.PackageNotFoundError(name)

    packaged.setattr(metadata, "distribution", none)
    assert errors.install("measure") == "pip install 'sightline[measure]'"
