"""Commands that start servers: found in scripts, with the options of their variables and files."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sightline.catalog.yaml12 import parse
from sightline.errors import InputError
from sightline.launching.engines.dialect import Dialect
from sightline.launching.options import Options
from sightline.launching.shell.reading import commands_of
from sightline.launching.source import Source
from sightline.loading.sources import read_text

Command = tuple[list[str], list[str]]
"""What stands before and behind the engine's program."""
_WRITTEN = re.compile(
    r"""^[ \t]*cat[ \t]*>[ \t]*(?P<to>\S+)[ \t]*<<-?[ \t]*["']?(?P<end>\w+)["']?[^\n]*\n"""
    r"""(?P<text>.*?)\n[ \t]*(?P=end)[ \t]*$""",
    re.MULTILINE | re.DOTALL,
)
"""A file that a script writes itself: ``cat > FILE <<END``."""


def servers_of(found: Source, dialect: Dialect) -> tuple[list[Options], list[str]]:
    """Return the options of every server that a text starts, and a sentence for each file that could not be read."""
    servers = [_options(before, behind, dialect) for before, behind in commands(found, dialect)]
    files = {Path(match["to"].strip("\"'")).name: match["text"] for match in _WRITTEN.finditer(_text(found))}
    unread = [sentence for one in servers for sentence in _add_files(one, found, files, dialect)]
    return _distinct([one for one in servers if not dialect.later_node(one)] or servers[:1]), unread


def commands(found: Source, dialect: Dialect) -> list[Command]:
    """Return the commands of a text that start a server of the engine."""
    words_of_all = commands_of(_WRITTEN.sub("", _text(found)))
    return [parts for words in words_of_all if (parts := _parted(words, dialect)) is not None]


def _text(found: Source) -> str:
    """The text, with that of the script that it runs."""
    if found.words[:1] != ("bash",) or len(found.words) == 1:
        return found.text
    script = found.folder / found.words[1]
    return f"{found.text}\n{read_text(script)}" if script.is_file() else found.text


def _parted(words: Sequence[str], dialect: Dialect) -> Command | None:
    """The words before and behind the engine's program or its container; None where a command starts something else."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        for program in dialect.programs:
            if [name, *words[at + 1 : at + len(program)]] == list(program):
                return list(words[:at]), list(words[at + len(program) :])
    image = re.compile(rf"(^|/){dialect.image}([:@]|$)")
    if not dialect.image or words[0] not in ("docker", "podman"):
        return None
    return next(((list(words[:at]), list(words[at + 1 :])) for at, w in enumerate(words) if image.search(w)), None)


def _options(before: Sequence[str], behind: Sequence[str], dialect: Dialect) -> Options:
    """The options of one command, with those that stand before it as variables of its environment."""
    options = Options(behind, aliases=dialect.aliases, flags=dialect.flags, units=True)
    for name, equals, value in (word.partition("=") for word in before):
        if equals and name in dialect.variables:
            options.add({dialect.variables[name]: value})
    return options


def _add_files(options: Options, found: Source, files: Mapping[str, str], dialect: Dialect) -> Iterator[str]:
    """Add the settings of the files that a command names; yield a sentence for each that cannot be read."""
    for option in dialect.files:
        name = options.text(option)
        if not name:
            continue
        path = found.folder / name
        text = files.get(Path(name).name) or (read_text(path) if path.is_file() else "")
        settings = _settings(text, name) if text else None
        if settings is None:
            yield f"there is no file {name} next to the command, so what it says is left out"
        else:
            options.add(settings, replace=dialect.files_win)


def _settings(text: str, name: str) -> Mapping[str, object]:
    try:
        found = parse(text)
    except InputError as error:
        raise InputError([f"{name}: {problem}" for problem in error.problems]) from None
    if not isinstance(found, Mapping):
        raise InputError(f"{name} holds no mapping of settings")
    return found


def _distinct(servers: Sequence[Options]) -> list[Options]:
    """Servers by their ports: commands with the same one start one server on several nodes."""
    ports = {
        (*one.words("port"), str(number))[0]: one for number, one in reversed([*enumerate(servers, -len(servers))])
    }
    return list(reversed(ports.values()))
