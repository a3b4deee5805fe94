"""A configuration file or command line as it was given: its text, its words, or the mapping that it holds."""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.catalog.yaml12 import one_of, parse_all, plain_reason
from sightline.content import fix_mappings
from sightline.errors import InputError, prefixed
from sightline.launching.launch import SCRIPT
from sightline.launching.manifests import script_of
from sightline.launching.shell import launch_words, looks_like_a_command
from sightline.loading.sources import is_folder, read_json, read_text, refuse_deep

TEXT = "the text"
"""What messages call what is no file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """What is to be read back."""

    place: str
    """What messages call it: the path, or "the text"."""
    text: str
    words: tuple[str, ...] = ()
    """The words of its command line, as a shell would pass them; none where it is no command."""
    mapping: Mapping[str, Any] = field(default_factory=dict)
    """What a JSON, TOML or YAML file holds; empty for a command."""
    kind: str = "command"
    """command, json, toml or yaml."""
    folder: Path = Path()
    """Where the files lie that a command names."""
    form: str = "a command"
    """What it is, for messages."""

    def __post_init__(self) -> None:
        fix_mappings(self)


def source_of(source: str | Path) -> Source:
    """Return what a path or a text of several words or lines holds.

    Raises:
        InputError: There is no such file, or it is of no format that can be read.
    """
    if isinstance(source, Path) or not _is_text(source):
        path = Path(source)
        # A folder that a launch was saved in is read by its script.
        if is_folder(path) and not (path / SCRIPT).is_file():
            raise InputError(f"{path} is a folder without {SCRIPT}; name the file to read")
        path = path / SCRIPT if is_folder(path) else path
        return _parsed(read_text(path), str(path), path.suffix.lower(), path.parent)
    return _parsed(source, TEXT, "")


def named_settings(found: Source, name: str | None, what: str) -> Mapping[str, Any]:
    """Return the mapping that a file holds which a command names, relative to the command's folder or one above it.

    Raises:
        InputError: The command does not name it outright, or there is no such file.
    """
    if not name or "$" in name:
        raise InputError(f"{found.place} does not say where {what} is; read that file instead")
    return source_of(beside(found, name) or found.folder / name).mapping


def beside(found: Source, name: str) -> Path | None:
    """Return the file of a relative name in a source's folder or one of those above it, from where tools are started.

    None where there is none.
    """
    places = (folder / name for folder in (found.folder, *found.folder.absolute().parents))
    return next((place for place in places if place.is_file()), None)


def _is_text(source: str) -> bool:
    """Whether it is a text rather than the path of a file."""
    return "\n" in source or source.lstrip()[:1] in ("{", "[") or looks_like_a_command(source)


def _parsed(text: str, place: str, suffix: str, folder: Path = Path()) -> Source:
    if not text.strip():
        raise InputError(f"{place} is empty")
    kind = _kind(text, suffix)
    with prefixed(f"{place}: "):
        if kind == "command":
            form = "a command" if place == TEXT else "a script"
            return Source(place=place, text=text, words=launch_words(text), folder=folder, form=form)
        documents = parse_all(text) if kind == "yaml" else []
        if script := script_of(documents):
            form = "a Kubernetes, Helm or Compose file"
            return Source(place=place, text=script, words=launch_words(script), folder=folder, form=form)
        value = _toml(text) if kind == "toml" else read_json(text) if kind == "json" else one_of(documents)
    if not isinstance(value, Mapping):
        raise InputError(f"{place} holds {json.dumps(value)[:40]}; a mapping of settings is needed")
    return Source(place=place, text=text, mapping=value, kind=kind, folder=folder, form=kind.upper())


def _toml(text: str) -> Any:
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise InputError("not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"not valid TOML: {plain_reason(error).lower()}") from None
    refuse_deep(value, "TOML")
    return value


_TOML = re.compile(r"^\s*(\[[\w.\"-]+\]\s*(#.*)?$|[\w.-]+\s*=\s*\S)", re.MULTILINE)
_YAML = re.compile(r"^[\w-]+:(\s|$)", re.MULTILINE)
_BY_SUFFIX = {".json": "json", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".sh": "command", ".slurm": "command"}


def _kind(text: str, suffix: str) -> str:
    """The format of a text: by its file's suffix, else by its looks."""
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if text.lstrip()[0] == "{":
        return "json"
    if looks_like_a_command(text):
        return "command"
    return "yaml" if _YAML.search(text) else "toml" if _TOML.search(text) else "command"
