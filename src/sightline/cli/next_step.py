"""The last line of an answer on a terminal: a command that goes on from it."""

import os
import shlex
import sys
from collections.abc import Sequence

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def is_watched() -> bool:
    """Return whether a person reads the answer: pipes, files and pagers get no hints."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def given(files: Sequence[str], settings: Sequence[str] | None = (), sweeps: Sequence[str] | None = ()) -> list[str]:
    """Return the arguments with which the same scenarios are asked for again; none where they came from stdin."""
    if "-" in files:
        return []
    options = [("--set", one) for one in settings or ()] + [("--sweep", one) for one in sweeps or ()]
    return [*files, *(word for option in options for word in option)]


def try_next(*words: str) -> None:
    """Print on stderr the command of these words after ``sightline``, where a person reads it."""
    if not words or not is_watched():
        return
    sys.stdout.flush()
    said = f"try next: {shlex.join(('sightline', *words))}"
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    print(f"\n{said}" if plain else f"\n{_DIM}{said}{_PLAIN}", file=sys.stderr)


def has(command: str) -> bool:
    """Return whether there is such a command."""
    from sightline.cli.app import COMMANDS

    return command in COMMANDS
