"""Where answers go: one JSON document, CSV or a table on stdout; files; everything else on stderr.

The last line on a terminal is a command that goes on from the answer.
"""

import io
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sightline.errors import InputError, WorkError, reason
from sightline.whole_files import unwritable, write_whole

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sightline.answers.outline import Outline

ENDINGS: Mapping[str, Sequence[str]] = {
    "--chart": (".svg", ".png", ".html", ".csv"),
    "--html": (".html", ".htm"),
    "--markdown": (".md", ".markdown"),
    "--trace": (".json",),
    "--requests": (".parquet",),
}
"""What the names of the files that an option writes may end in."""
STDOUT = "-"
_MOST_WARNINGS = 5


def check(
    paths: Mapping[str, str | None], *, json: bool = False, csv: bool = False, out: Sequence[str] = (".json",)
) -> None:
    """Refuse, before any work is done, two forms of one answer and paths of files that cannot be written.

    Args:
        paths: What is given for each option that writes a file.
        json: Whether JSON is asked for.
        csv: Whether CSV is asked for.
        out: What the file of ``--out`` may end in.
    """
    if json and csv:
        raise InputError("--json cannot be combined with --csv")
    if paths.get("--markdown") == STDOUT and (json or csv):
        raise InputError(f"--markdown - cannot be combined with --{'json' if json else 'csv'}")
    wrong = {
        option: _wrong(path, ENDINGS.get(option, out))
        for option, path in paths.items()
        if path is not None and (option, path) != ("--markdown", STDOUT)
    }
    if problems := [f"{option} {why}" for option, why in wrong.items() if why]:
        raise InputError(problems)


def _wrong(path: str, endings: Sequence[str]) -> str:
    if Path(path).suffix.lower() not in endings:
        return f"'{path}' must end in {' or '.join(endings)}"
    if Path(path).is_dir():
        return f"'{path}' is a folder; give a file name"
    if not Path(path).parent.is_dir():
        return f"'{path}': folder '{Path(path).parent}' does not exist"
    return why_unwritable(path)


def why_unwritable(path: str) -> str:
    """Return why a file or folder cannot be written, nor made in the nearest folder above it; empty where it can."""
    there = next(one for one in (Path(path), *Path(path).absolute().parents) if one.exists())
    return "" if os.access(there, os.W_OK) else f"'{path}' cannot be written: permission denied or read-only disk"


def show(
    document: Callable[[], Any],
    tables: Callable[[], "Iterable[Outline | str]"],
    *,
    json: bool,
    one: bool = False,
    csv: Callable[[], str] | None = None,
    in_full: bool = False,
) -> None:
    """Print an answer in the form that is asked for: as a JSON document, as CSV, or as tables for people.

    Args:
        document: The JSON document, or a list of them.
        tables: What people read, outlines and texts, a blank line between two.
        json: Whether the document is asked for.
        one: Print the only document of a list without the list.
        csv: Lines of CSV, if they are asked for.
        in_full: Whether people read all of it, also beyond a screen.
    """
    if json:
        found = document()
        print_json(found[0] if one and len(found) == 1 else found)
    elif csv is not None:
        print_text(csv())
    else:
        for position, table in enumerate(tables()):
            print_text("\n" if position else "")
            if isinstance(table, str):
                print_text(f"{table}\n")
            else:
                from sightline.render.terminal import SCREEN_LINES, outline_text

                print_table(outline_text(table, in_full=in_full, most_lines=SCREEN_LINES))


def draw(path: str, chart: dict[str, Any], narrow: Callable[[], dict[str, Any]] | None = None) -> None:
    """Write a chart's specification in the form that the path's ending asks for; a page gets a ``narrow`` one too."""
    if Path(path).suffix.lower() == ".csv":
        from sightline.render.csv import csv_of

        write_file(path, csv_of(chart))
        return
    if Path(path).suffix.lower() == ".html":
        from sightline.render.document import chart_page

        write_file(path, chart_page(chart, narrow() if narrow else None))
        return
    from sightline.charts.rendering import draw as drawn

    write_file(path, drawn(chart, path))


def warn(warnings: Iterable[str]) -> None:
    """Print each warning once, and of very many the first few; each result holds its own."""
    found = list(dict.fromkeys(warnings))
    for warning in found[:_MOST_WARNINGS]:
        print_remark(f"warning: {warning}")
    if len(found) > _MOST_WARNINGS:
        print_remark(f"warning: {len(found) - _MOST_WARNINGS} more; use --json to see all")


def print_json(document: Any) -> None:
    """Print one JSON document."""
    from sightline.quantities import as_json

    # A stream of another encoding gets escapes: what stands for a character in a table would change a value.
    is_utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
    print_text(json.dumps(as_json(document), indent=2, ensure_ascii=not is_utf8, allow_nan=False) + "\n")


def print_table(renderable: "RenderableType") -> None:
    """Print for people: colour on a terminal, plain text elsewhere."""
    from rich.console import Console

    # Rendered to a string, so that only print_text writes to stdout and reports failures.
    screen, drawn = Console(), io.StringIO()
    width, colored = screen.width, screen.is_terminal
    Console(file=drawn, highlight=False, emoji=False, soft_wrap=False, width=width, force_terminal=colored).print(
        renderable, crop=False
    )
    lines = drawn.getvalue().splitlines()
    print_text("".join(line.rstrip() + "\n" for line in lines))


def print_remark(sentence: str) -> None:
    """Print a remark for people on stderr."""
    print(f"sightline: {sentence}", file=sys.stderr)


def print_text(text: str) -> None:
    """Print text as it is; a reader who left is no error, a full disk is."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        lose(sys.stdout)
    except OSError as error:
        lose(sys.stdout)
        raise WorkError(f"cannot write the answer: {reason(error).lower()}") from error


def lose(stream: IO[str]) -> None:
    """Write no more to a stream: the interpreter would try once more at exit, and end with an exit code of its own."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def write_file(path: str, content: str | bytes) -> None:
    """Write an output file, whole or not at all, and say so.

    Raises:
        InputError: The path cannot be written.
        WorkError: The disk is full.
    """
    # The name of a file, which an answer may quote, is any bytes; some are no characters.
    data = content.encode(errors="replace") if isinstance(content, str) else content
    target = Path(path)
    # A device such as /dev/stdout can't be replaced, only written to.
    is_file = target.is_file() or not target.exists()
    try:
        if is_file:
            write_whole(target, data)
        else:
            target.write_bytes(data)
    except OSError as error:
        raise unwritable(path, error) from error
    if is_file:
        print_remark(f"wrote {path}")


_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def is_watched() -> bool:
    """Return whether a person reads the answer: pipes, files and pagers get no hints."""
    return sys.stdout.isatty() and sys.stderr.isatty()


def try_next(*words: str, command: str = "") -> None:
    """Print on stderr the command of these words after ``sightline``, or a whole one, where a person reads it."""
    if not (words or command) or not is_watched():
        return
    sys.stdout.flush()
    said = f"try next: {command or shlex.join(('sightline', *words))}"
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    print(f"\n{said}" if plain else f"\n{_DIM}{said}{_PLAIN}", file=sys.stderr)
