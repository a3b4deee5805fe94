"""Commands as text for a shell."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")


def command_line(words: Sequence[str], arguments: Mapping[str, object]) -> str:
    """Return a command with an option a line; an option that is true stands alone, of a list each value follows."""
    return " \\\n    ".join(command_lines(words, arguments))


def command_lines(words: Sequence[str], arguments: Mapping[str, object]) -> list[str]:
    """Return the program and every option of a command as the shell reads them."""
    lines = [" ".join(word if _ASSIGNMENT.match(word) else _quoted(word) for word in words)] if words else []
    for option, value in arguments.items():
        if value is True:
            lines.append(option)
        elif isinstance(value, list | tuple):
            lines.append(" ".join([option, *(_quoted(v) for v in value)]))
        else:
            lines.append(f"{option} {_quoted(value)}")
    return lines


def _quoted(value: object) -> str:
    """A value for the shell; one with a variable of the shell in it stays as it is."""
    text = str(value)
    return f'"{text}"' if "$" in text else shlex.quote(text)
