"""The forms of a command's answer: the options that ask for them, and what writes all that were asked for."""

import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.options import AsCsv, AsJson, Chart, Charts, Html, Markdown, Verbose
from sightline.cli.progress_bar import progress_bar
from sightline.commands import ANSWERS, Answer
from sightline.errors import InputError
from sightline.on_demand import named
from sightline.whole_files import unwritable

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.explanation.answer import Advice
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """The forms in which an answer is asked for; a command that lacks some has ``only`` the others."""

    as_json: AsJson = False
    as_csv: AsCsv = False
    verbose: Verbose = False
    chart: Chart = None
    charts: Charts = None
    html: Html = None
    markdown: Markdown = None

    def check(self, others: Mapping[str, str | None] | None = None) -> None:
        """Refuse, before any work is done, what cannot be written, also of ``others``, which are given by option."""
        paths = {"--chart": self.chart, "--html": self.html, "--markdown": self.markdown, **(others or {})}
        output.check(paths, json=self.as_json, csv=self.as_csv)
        if self.charts is not None and Path(self.charts).exists() and not Path(self.charts).is_dir():
            raise InputError(f"--charts '{self.charts}' is a file; give a folder")
        if self.charts is not None and (why := output.why_unwritable(self.charts)):
            raise InputError(f"--charts {why}")

    @property
    def are_tables(self) -> bool:
        """Whether stdout holds tables for people."""
        return not (self.as_json or self.as_csv or self.markdown == output.STDOUT)


@dataclass(kw_only=True)
class Report:
    """An answer in each form that its command has an option for, as `sightline.commands.ANSWERS` has its kind."""

    kind: str = ""
    answer: Any = None
    says: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of its outline."""
    kept: Callable[[], Mapping[str, Any]] = dict
    """Finds those of the outline in a file, which take longer."""
    documents: Callable[[], Any] | None = None
    """Returns the JSON document, where it is not that of the kind."""
    is_list: bool = True
    """Whether a JSON document that is a list stays one where it has a single element."""
    in_full: bool = False
    """Whether the terminal shows everything without --verbose, as of what is named one by one."""
    drawn: Any = None
    """What charts are drawn of, where that is not the answer."""

    @property
    def _of_kind(self) -> Answer:
        return ANSWERS[self.kind]

    @property
    def without_chart(self) -> str:
        """Why there is no chart where ``chart`` returns None."""
        return self._of_kind.without_chart

    def document(self) -> Any:
        """Return the JSON document."""
        return self.documents() if self.documents else named(self._of_kind.document)(self.answer)

    def outline(self) -> "Outline":
        """Return what the answer says."""
        outline: Outline = named(self._of_kind.outline)(self.answer, **self.says)
        return outline

    def kept_outline(self) -> "Outline":
        """Return what it says in a file, for which also what takes longer is worked out."""
        outline: Outline = named(self._of_kind.outline)(self.answer, **self.says, **self._kept)
        return outline

    @cached_property
    def _kept(self) -> Mapping[str, Any]:
        return self.kept()

    def tables(self) -> "Iterable[Outline | str]":
        """Return what people read in a terminal."""
        return [self.outline()]

    def csv(self) -> str:
        """Return lines of CSV."""
        return str(named(self._of_kind.csv)(self.answer))

    def chart(self, *room: Any) -> dict[str, Any] | None:
        """Return the specification of the chart; in the ``room`` that is given, else in that of a screen."""
        drawn: dict[str, Any] | None = named(self._of_kind.chart)(self.charted(), *room)
        return drawn

    def charted(self) -> Any:
        """Return what every chart is drawn of."""
        return self.answer if self.drawn is None else self.drawn

    def page(self, command: str) -> str:
        """Return a page that says which command asks for it."""
        from sightline.render.document import outline_page

        return outline_page(self.kept_outline(), command=command)

    def as_markdown(self, command: str) -> str:
        """Return Markdown that says which command asks for it."""
        from sightline.render.markdown import outline_markdown

        return outline_markdown(self.kept_outline(), command=command)

    def show(self, options: ReportOptions) -> None:
        """Print the answer as JSON, as CSV or as tables."""
        csv, in_full = self.csv if options.as_csv else None, self.in_full or options.verbose
        output.show(self.document, self.tables, json=options.as_json, one=not self.is_list, csv=csv, in_full=in_full)


def write(report: Report, options: ReportOptions) -> None:
    """Write an answer in all forms that are asked for."""
    if options.chart is not None:
        write_chart(options.chart, report.chart, report.without_chart)
    if options.charts is not None:
        _write_charts(options.charts, report.charted())
    if options.html is not None:
        output.write_file(options.html, report.page(typed()))
    if options.markdown == output.STDOUT:
        output.print_text(report.as_markdown(typed()))
        return
    if options.markdown is not None:
        output.write_file(options.markdown, report.as_markdown(typed()))
    report.show(options)


def typed() -> str:
    """Return the command as it was typed, without its secrets; empty where it was called from a program."""
    from sightline.runs.credentials import of_command

    if Path(sys.argv[0]).stem not in ("sightline", "__main__"):
        return ""
    words = ["sightline", *sys.argv[1:]]
    return of_command(words).hide(shlex.join(words))


def write_chart(path: str, chart: Callable[..., dict[str, Any] | None], without_chart: str) -> None:
    """Draw a chart, or say why there is none."""
    from sightline.charts.drawing import PHONE

    drawn = chart()
    if drawn is None:
        output.print_remark(f"no chart: {without_chart}")
    else:
        output.draw(path, drawn, lambda: chart(PHONE) or drawn)


def _write_charts(folder: str, answer: Any) -> None:
    """Write every chart of an answer into a folder, as a picture and as numbers."""
    from sightline.charts.index import charts_of
    from sightline.charts.rendering import draw
    from sightline.render.csv import csv_of

    found = charts_of(answer)
    if not found:
        output.print_remark(f"no charts written to '{folder}': this result has none")
        return
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    for chart in found:
        for ending, content in ((".svg", draw(chart.wide, "chart.svg")), (".csv", csv_of(chart.wide))):
            output.write_file(str(Path(folder) / f"{chart.name}{ending}"), content)


@dataclass(kw_only=True)
class ProfilesReport(Report):
    """Profiles of any tasks, in the order in which they were asked for."""

    kind: str = "profiles"
    each: Callable[[Any], Any]
    """Returns JSON documents of the profiles that stdout holds."""
    cells: Sequence[Mapping[str, Any]] = ()
    """Of each its values of the keys that were swept, as they were typed."""
    order: Sequence[int] | None = None
    """Positions of those that stdout holds, in their order; all of them where it is None."""

    def show(self, options: ReportOptions) -> None:
        """Print their warnings, and themselves."""
        shown = self.answer if options.are_tables else self._shown(self.answer)
        output.warn(warning for one in shown for warning in (*one.scenario.warnings, *one.warnings))
        super().show(options)

    def _shown(self, each: Sequence[Any]) -> Sequence[Any]:
        return each if self.order is None else [each[i] for i in self.order]

    def document(self) -> Any:
        """Return a document for each."""
        return self.each(self._shown(self.answer))

    def outline(self) -> "Outline":
        """Return one in full, or several with a line each."""
        outline: Outline = named(self._of_kind.outline)(self.answer, self.cells, order=self.order, **self.says)
        return outline

    def kept_outline(self) -> "Outline":
        """Return all that is drawn, with what would help the only one."""
        drawn = self.charted()
        cells = self.cells if len(self.cells) == len(drawn) else ()
        outline: Outline = named(self._of_kind.outline)(drawn, cells, **self.says, **self._kept)
        return outline

    def csv(self) -> str:
        """Return a line for each."""
        cells = self._shown(self.cells) if self.cells else self.cells
        return str(named(self._of_kind.csv)(self._shown(self.answer), cells))


def changes_of(answers: "Sequence[Profile]", words: Sequence[str], known: "Anchored | None") -> "list[Advice]":
    """Return what would help the only answer most; ``words`` asked for it."""
    if len(answers) != 1:
        return []
    from sightline.explanation.explain import changes_of as of_one

    with progress_bar() as progress:
        return of_one(answers[0], words, known, progress)
