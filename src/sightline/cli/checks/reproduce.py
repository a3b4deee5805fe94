"""``sightline reproduce``: the findings and tables of the sources that Sightline descends from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import RunStore, only, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions
from sightline.errors import InputError
from sightline.quantities import counted

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.reproduction.answer import Reproduction
    from sightline.reproduction.asking import Source
    from sightline.reproduction.reproduce import Chosen


@takes_options
def reproduce(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The source: 2311.03687, 2407.14645 or talk.",
            show_default=False,
            autocompletion=completion.sources,
        ),
    ],
    chosen: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="ID,…",
            help="Findings and tables to reproduce, such as A1 or A1-A5. Can be repeated. Default: all.",
            show_default=False,
        ),
    ] = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also measure what this machine can run and show it next to the prediction. Models are scaled "
            "down on a CPU.",
        ),
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Use smaller loads and coarser grids: one minute instead of several.")
    ] = False,
    store: RunStore = None,
    *,
    written: Annotated[ReportOptions, only("chart", "charts", "html", "markdown", "as_csv", "as_json")],
) -> None:
    """Reproduce the findings and tables of a source, and judge each finding by a stated criterion.

    arXiv 2311.03687 measures Llama 2 on servers with eight A800, RTX 4090 and RTX 3090; arXiv 2407.14645 models
    training and inference across technology nodes; the talk covers efficiency. List the criteria with
    `sightline catalog findings`.

    \b
    Examples:
      sightline reproduce 2311.03687 --html study.html
      sightline reproduce 2311.03687 --only A1-A4,scaling
      sightline reproduce 2407.14645 --small
      sightline reproduce 2311.03687 --only A8 --measure --small
      sightline reproduce 2311.03687 --only scaling --chart scaling.svg
      sightline reproduce 2407.14645 --charts charts
      sightline reproduce talk --json
    """
    written.check()
    ids = [word.strip() for words in chosen or () for word in words.split(",")]
    _check(source, ids, written, measure=measure)
    with progress_bar(tables=True) as progress:
        from sightline.reproduction.reproduce import reproduce as answered

        answer = answered(source, only=ids, measure=measure, small=small, store=store, progress=progress)
    output.warn(answer.warnings)
    reports.write(_Report(answer, in_full=bool(ids)), written)
    end_if_stopped(progress)
    if written.are_tables and not (written.html or ids):
        try_next("reproduce", source, "--html", "report.html")


def _check(source: str, ids: list[str], written: ReportOptions, *, measure: bool) -> None:
    """Refuse, before any work is done, forms that have no room for what is asked for."""
    from sightline.reproduction.reproduce import chosen_of, source_of

    asked = chosen_of(source, ids)
    if written.as_csv and measure:
        raise InputError("--csv cannot hold the tables of --measure; allowed: --json, --html")
    if written.as_csv and ids:
        _check_csv(asked)
    if written.chart is not None:
        _check_chart(source_of(source), asked.tables)


def _check_csv(asked: "Chosen") -> None:
    """Refuse to write as CSV what takes several tables: of what was asked for, one is all."""
    if asked.tables and len(asked.tables) + bool(asked.findings) > 1:
        named = ", ".join((*asked.findings, *asked.tables))
        raise InputError(f"--csv writes findings or one table, got {named}; select with --only")


def _check_chart(source: "Source", tables: Sequence[str]) -> None:
    """Refuse to draw anything but a single table with a picture."""
    drawn = [id_ for id_ in source.tables if id_ not in source.without_pictures]
    allowed = f"choose one with --only: {', '.join(drawn)}"
    if len(tables) != 1:
        of = counted(len(tables), "table") if tables else "no table"
        every = "; --charts DIR draws all" if tables else ""
        raise InputError(f"--chart draws one table, got {of}; {allowed}{every}")
    if tables[0] not in drawn:
        raise InputError(f"--chart: table {tables[0]} has no chart; {allowed}; use --csv for its rows")


@dataclass(frozen=True)
class _Report(Report):
    answer: "Reproduction"
    in_full: bool
    """Whether findings and tables were named, so that the terminal shows all of them."""
    without_chart = "stopped before the table was computed"

    def document(self) -> Any:
        from sightline.reproduction.answer import reproduction_to_dict

        return reproduction_to_dict(self.answer)

    def outline(self) -> "Outline":
        from sightline.answers.reproduction import reproduced_outline

        return reproduced_outline(self.answer)

    def chart(self, *room: Any) -> dict[str, Any] | None:
        from sightline.charts.study_charts import study_chart

        if not self.answer.tables:
            return None
        return study_chart(self.answer.tables[0].answer, *room)

    def charted(self) -> "Reproduction":
        return self.answer

    def csv(self) -> str:
        from sightline.render.csv import reproduced_to_csv

        return reproduced_to_csv(self.answer)
