"""Standard streams that were closed, or have no character for what tables, bars and Markdown are drawn with."""

import codecs
import os
import sys
from contextlib import suppress

_LOOKS_LIKE = "sightline.looks_like"
"""Name of the handler of characters that a stream can't write."""
_AS_ASCII = str.maketrans(
    dict.fromkeys("─━╌═—–−\N{NON-BREAKING HYPHEN}", "-")
    | dict.fromkeys("│┃║", "|")
    | dict.fromkeys("╭╮╰╯┌┐└┘├┤┬┴┼┏┓┗┛┡┩", "+")
    | dict.fromkeys("█▉▊▋▌▇▆▅", "#")
    | dict.fromkeys("▍▎▏▄▃▂▁", ".")
    | {"·": "*", "×": "x", "±": "+-", "≈": "~", "≤": "<=", "≥": ">=", "→": "->", "…": "...", "²": "2", "³": "3"}
    | {"µ": "u", "μ": "u", "✅": "+", "❌": "x", "⚠": "!", "\N{VARIATION SELECTOR-16}": "", "\N{NO-BREAK SPACE}": " "}
)


def open_standard_streams() -> None:
    """Let every command read and write, whatever it was started with.

    Streams that were closed are empty, or lose what is written to them: otherwise the next file that is opened would
    stand in their place. What a stream has no character for is written as ASCII that looks like it, any other character
    as ``?``.
    """
    for number in range(3):
        with suppress(OSError):
            os.fstat(number)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    codecs.register_error(_LOOKS_LIKE, _plain)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))
        elif number and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_LOOKS_LIKE)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that a stream can't write, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return text.translate(_AS_ASCII).encode("ascii", "replace").decode(), error.end
