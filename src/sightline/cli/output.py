"""Where answers go: one JSON document, CSV or a table on stdout; files; everything else on stderr."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, WorkError

if TYPE_CHECKING:
    from rich.console import RenderableType

CHART_ENDINGS = (".svg", ".png", ".html")

_PROGRESS_FROM = 20
"""Items from which a progress bar is worth its flicker."""


def print_json(document: Any) -> None:
    """Print one JSON document; a NaN would be a bug and is refused."""
    print_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(renderable: "RenderableType") -> None:
    """Print for people: colour on a terminal, plain text elsewhere."""
    from rich.console import Console

    # Rendered to a string, so that only print_text writes to stdout and reports failures.
    screen, drawn = Console(), io.StringIO()
    Console(file=drawn, highlight=False, soft_wrap=False, width=screen.width, force_terminal=screen.is_terminal).print(
        renderable
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
        # Nothing more can be said, and the interpreter must not try when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise WorkError(f"cannot write the answer: {(error.strerror or str(error)).lower()}") from error


def write_file(path: str, content: str | bytes) -> None:
    """Write an output file, whole or not at all; a path that cannot be written is a wrong request."""
    data = content.encode() if isinstance(content, str) else content
    target = Path(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    # A device such as /dev/stdout can't be replaced, only written to.
    written = part if target.is_file() or not target.exists() else target
    try:
        written.write_bytes(data)
        if written is part:
            part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise InputError(f"cannot write '{path}': {(error.strerror or str(error)).lower()}") from error


def check_output_paths(paths: Iterable[tuple[str, str | None, Sequence[str]]]) -> None:
    """Refuse outputs whose ending or folder is wrong, before any work is done; one (option, path, endings) each."""
    problems = []
    for option, path, endings in paths:
        if path is None:
            continue
        if Path(path).suffix.lower() not in endings:
            problems.append(f"{option} '{path}' must end in {' or '.join(endings)}")
        elif Path(path).is_dir():
            problems.append(f"{option} '{path}' is a folder; name a file in it")
        elif not Path(path).parent.is_dir():
            problems.append(f"{option} '{path}': there is no folder '{Path(path).parent}'")
    if problems:
        raise InputError(problems)


@contextmanager
def progress(total: int, what: str, least: int = _PROGRESS_FROM) -> Iterator[Callable[[], None]]:
    """Give a function that counts one item done; a bar on stderr shows it for ``least`` items and on a terminal."""
    if total < least or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
