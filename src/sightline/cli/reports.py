"""The reports that a command writes of its answer: a page, Markdown, every chart."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.progress_bar import progress_bar
from sightline.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.explanation.answer import Advice
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile

Text = Callable[[str], str]
"""Returns the text of a report, given the command that asks for it."""


def typed() -> str:
    """Return the command as it was typed, without its secrets; empty where it was called from a program."""
    from sightline.runs.credentials import of_command

    if Path(sys.argv[0]).stem not in ("sightline", "__main__"):
        return ""
    words = ["sightline", *sys.argv[1:]]
    return of_command(words).hide(shlex.join(words))


def check_charts(folder: str | None) -> None:
    """Refuse a folder for charts that cannot be one."""
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        raise InputError(f"--charts '{folder}' is a file; name a folder")


def changes_of(answers: "Sequence[Profile]", words: "Sequence[str]", known: "Anchored | None") -> "list[Advice]":
    """Return what would help the only answer most; ``words`` asked for it."""
    if len(answers) != 1:
        return []
    from sightline.explanation.explain import changes_of as of_one

    with progress_bar() as progress:
        return of_one(answers[0], words, known, progress)


def write_page(path: str | None, page: Text) -> None:
    """Write a report as a page where a path is given."""
    if path is not None:
        output.write_file(path, page(typed()))


def write_markdown(path: str | None, text: Text) -> bool:
    """Write Markdown where a path is given; return whether it went to stdout, which then holds nothing else."""
    if path == output.STDOUT:
        output.print_text(text(typed()))
        return True
    if path is not None:
        output.write_file(path, text(typed()))
    return False


def write_charts(folder: str | None, answer: Any) -> None:
    """Write every chart of an answer into a folder, as a picture and as numbers."""
    if folder is None:
        return
    from sightline.report.charts.index import charts_of
    from sightline.report.charts.numbers import csv_of
    from sightline.report.charts.rendering import draw

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder '{folder}': {(error.strerror or str(error)).lower()}") from error
    found = charts_of(answer)
    for chart in found:
        for ending, content in ((".svg", draw(chart.wide, "chart.svg")), (".csv", csv_of(chart.wide))):
            output.write_file(str(Path(folder) / f"{chart.name}{ending}"), content)
    if not found:
        output.print_remark(f"no chart was written into '{folder}': the answer has none")
