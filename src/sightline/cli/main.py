"""The entry point: every way a command may end becomes an exit code and, where needed, a sentence on stderr."""

import codecs
import gc
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

OBJECTS_PER_COLLECTION = 100_000
"""Objects that may come to be before the interpreter looks for cycles of dead ones."""

_REPORTS_LEAKS = "_duckdb"
"""A module that complains at exit about objects that nobody collected."""

DONE, FAILED, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 the work failed, 2 the request was wrong."""
    if arguments is None:
        _read_arguments_as_utf8()
    try:
        return _command(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        sys.stderr.write("sightline: interrupted\n")
        return INTERRUPTED
    finally:
        # CPython notes an interrupt of code that runs from text, as when a dataclass is made, and would end by the
        # signal instead of with our exit code. Running text once more makes it forget.
        exec("")  # noqa: S102
        if arguments is None:
            _forget_unwritten()
        if arguments is None and _REPORTS_LEAKS not in sys.modules:
            gc.freeze()  # what a process holds ends with it: looking for dead cycles at exit took a tenth of its time


def _command(arguments: Sequence[str]) -> int:
    # Modules and descriptions live as long as the command: collecting among them took a quarter of a short one's time.
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    import typer

    from sightline.cli import output
    from sightline.cli.app import command_line
    from sightline.errors import InputError, SightlineError
    from sightline.progress import Cancelled, listening

    open_standard_streams()
    _have_a_home()
    try:
        app = command_line(next(iter(arguments), ""))
        with listening(output.print_remark):
            outcome = app(args=list(arguments), prog_name="sightline", standalone_mode=False)
    except InputError as error:
        return _complain(error.problems, WRONG_REQUEST)
    except Cancelled as stopped:
        raise KeyboardInterrupt from stopped
    except (SightlineError, OSError, MemoryError) as error:
        return _complain([_why(error)], FAILED)
    except typer.TyperException as error:
        return _complain([_as_sentence(error)], WRONG_REQUEST)
    except typer.Abort:
        return INTERRUPTED
    # A command that ends early through typer.Exit hands its code back as the result.
    return outcome if isinstance(outcome, int) else DONE


def _forget_unwritten() -> None:
    """Lose what a full disk has no room for."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            from sightline.cli.output import lose

            lose(stream)


def _complain(problems: Sequence[str], code: int) -> int:
    with suppress(OSError):
        for problem in problems:
            print(f"sightline: {problem}", file=sys.stderr)
    return code


def _why(error: Exception) -> str:
    """Why the work failed: what we say of it, or what the system refuses, and of which file or folder."""
    if isinstance(error, MemoryError):
        return "out of memory; run fewer scenarios at once"
    if not isinstance(error, OSError):
        return str(error)
    why = (error.strerror or str(error)).strip().rstrip(".")
    return f"failed: {why[:1].lower()}{why[1:]}{f': {error.filename!r}' if error.filename else ''}"


_OTHER_OPTIONS = {
    "--users": "--set 'workload.arrival={process: closed, concurrency: N}', or `sightline plan --objective users`",
    **dict.fromkeys(("--gpus", "--gpu", "--nodes", "--device"), "--cluster '8x NAME'"),
    **dict.fromkeys(("--qps", "--request-rate"), "--rate"),
    **dict.fromkeys(("--max-concurrency", "--clients"), "--concurrency"),
    **dict.fromkeys(("--batch-size", "--global-batch-size"), "--batch"),
    **dict.fromkeys(("--seq-len", "--seq-length", "--sequence-length", "--max-model-len"), "--sequence"),
    **dict.fromkeys(("--input-len", "--input-tokens", "--prompt-tokens"), "--prompt"),
    **dict.fromkeys(("--output-len", "--output-tokens"), "--output"),
    **dict.fromkeys(("--engine", "--backend"), "--framework"),
    **dict.fromkeys(("--intervals", "--no-intervals"), "`sightline simulate`, which alone has this option"),
}
"""What options of other tools are here."""


def _as_sentence(error: "typer.TyperException") -> str:
    """Return a usage error in the manner of our own: lower case, the nearest spelling after a dash."""
    from sightline.errors import nearest, sentence

    parameter = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and parameter is not None:
        name = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar
        what = parameter.help.partition(". ")[0].rstrip(".")
        begin = what[:1] if what[:2].isupper() and len(what.split()[0]) > 1 else what[:1].lower()
        return sentence(f"{name} is missing; needed: {begin}{what[1:]}")
    if hint := _OTHER_OPTIONS.get(getattr(error, "option_name", None) or ""):
        return sentence(f"no such option {error.option_name}; use {hint}")  # type: ignore[attr-defined]
    option, possibilities = getattr(error, "option_name", None), getattr(error, "possibilities", None)
    if option and possibilities:
        return sentence(f"no such option {option}{nearest(option, possibilities)}")
    text = " ".join(error.format_message().split()).rstrip(".")
    text = text.replace(". Did you mean ", " - did you mean ")
    return sentence(text[:1].lower() + text[1:])


def _read_arguments_as_utf8() -> None:
    """Begin anew in Python's UTF-8 mode where the locale, such as C, can't read the arguments: they may name files."""
    if sys.flags.utf8_mode or all(word.isascii() or word.isprintable() for word in sys.argv):
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this very program


def _have_a_home() -> None:
    """Name a folder where the system knows no home, as of a user of a container: libraries look there when imported."""
    try:
        Path.home()
    except RuntimeError:
        from sightline.folders import temporary

        with suppress(OSError):
            os.environ["HOME"] = str(temporary())


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
            if number == 1 and isinstance(stream.buffer, io.RawIOBase):
                # PYTHONUNBUFFERED: what a full disk has no room for would be lost without an error.
                sys.stdout = stream = os.fdopen(number, "w", 1, stream.encoding, closefd=False)
            stream.reconfigure(errors=_LOOKS_LIKE)


def _plain(error: UnicodeError) -> tuple[str, int]:
    """What stands for characters that a stream can't write, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return text.translate(_AS_ASCII).encode("ascii", "replace").decode(), error.end
