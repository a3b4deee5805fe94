"""Find the commands of a text that start servers of an engine, and the files that it writes for them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.launching.engines.servers import VISIBLE
from sightline.launching.manifests import CONTAINER
from sightline.launching.shell import LAUNCHERS, Place, placed_commands, variables_of
from sightline.launching.source import Source
from sightline.loading.sources import read_text

if TYPE_CHECKING:
    from sightline.launching.engines.dialect import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A command that starts a server of an engine."""

    variables: Mapping[str, str]
    """Options that variables of the environment say."""
    words: list[str]
    """What stands behind the engine's program."""
    machine: tuple[str, ...]
    """What starts the program, the container that it is in, and the devices that it sees."""
    place: Place


_MACHINE = (CONTAINER, "CUDA_VISIBLE_DEVICES", *VISIBLE.values())
"""Variables that tell servers apart that take the same port."""
_WRITTEN = re.compile(
    r"""^[ \t]*cat\b(?P<head>[^\n]*?<<-?[ \t]*["']?(?P<end>\w+)["']?[^\n]*)\n"""
    r"""(?P<text>.*?)(?:^[ \t]*(?P=end)[ \t]*$|\Z)""",
    re.MULTILINE | re.DOTALL,
)
"""A file that a script writes itself: ``cat > FILE <<END`` and ``cat <<END >> FILE``."""
_INTO = re.compile(r"(?<!<)(>>?)[ \t]*(\S+)")


def written_files(text: str) -> dict[str, str]:
    """Return the texts of files that a script writes, by their names; none of those that it writes anew."""
    known, files = variables_of(text), dict[str, list[str]]()
    for match in _WRITTEN.finditer(text):
        if into := _INTO.search(match["head"]):
            path = re.sub(r"\$\{?(\w+)\}?", lambda found: known.get(found[1], found[0]), into[2].strip("\"'"))
            parts = files.setdefault(Path(path).name, [])
            parts.extend(["\0"] * (into[1] == ">" and bool(parts)) + [match["text"]])
    return {name: "".join(parts) for name, parts in files.items() if "\0" not in parts}


def commands(found: Source, dialect: "Dialect") -> list[Stated]:
    """Return the commands of a text that start a server of the engine."""
    found_commands: list[Stated] = []
    for words, values, place in placed_commands(_WRITTEN.sub("", whole_text(found))):
        if (parts := _parted(words, dialect)) is None:
            continue
        before, behind = parts
        # What only passes a command on, as to print it, tells no server from another.
        at = next((at for at, word in enumerate(before) if word.rpartition("/")[2] in _STARTERS), len(before))
        begin = (*(word for word in before[:at] if "=" in word), *before[at:], words[len(before)])
        settings = [word.removeprefix("--env=") for word in before]
        stated = {name: [value] for name, equals, value in (word.partition("=") for word in settings) if equals}
        # A container has no variables around it but those that are named for it.
        around = {name: values[name] for name in settings if name in values} if words[0] in _CONTAINERS else values
        seen = [" ".join(values.get(name, ())) for name in _MACHINE]
        variables = dialect.of_variables({**around, **stated})
        found_commands.append(Stated(variables=variables, words=behind, machine=(*begin, *seen), place=place))
    return found_commands


def whole_text(found: Source) -> str:
    """The text, with that of the script that it runs."""
    if found.words[:1] != ("bash",) or len(found.words) == 1:
        return found.text
    script = found.folder / found.words[1]
    return f"{found.text}\n{read_text(script)}" if script.is_file() else found.text


_CONTAINERS = ("docker", "podman")
_STARTERS = (*LAUNCHERS, "ssh", "kubectl")


def _parted(words: Sequence[str], dialect: "Dialect") -> tuple[list[str], list[str]] | None:
    """The words before and behind the engine's program or its container; None where a command starts something else."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        for program in dialect.programs:
            if [name, *words[at + 1 : at + len(program)]] == list(program):
                return list(words[:at]), list(words[at + len(program) :])
    image = re.compile(rf"(^|/){dialect.image}([:@]|$)")
    if not dialect.image or words[0] not in _CONTAINERS or not {"run", "create"} & {*words}:
        return None
    return next(((list(words[:at]), list(words[at + 1 :])) for at, w in enumerate(words) if image.search(w)), None)
