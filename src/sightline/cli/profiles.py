"""The report of profiles: one of a scenario, or several of a sweep."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.reports import Report, ReportOptions

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.answer import NearestPlan
    from sightline.profile import Profile


def no_changes() -> "Sequence[Advice]":
    """Return that nothing is known to help."""
    return ()


@dataclass(frozen=True, kw_only=True)
class ProfilesReport(Report):
    """Profiles of any tasks, in the order in which they were asked for."""

    answers: "Sequence[Profile]"
    documents: "Callable[[Sequence[Profile]], Any]"
    """Returns a JSON document for each."""
    is_list: bool
    cells: Sequence[Mapping[str, Any]] = ()
    """Of each its values of the keys that were swept, as they were typed."""
    order: Sequence[int] | None = None
    """Positions of those that stdout holds, in their order; all of them where it is None."""
    nearest: "Sequence[NearestPlan]" = ()
    """Plans that fit in place of the only one, which does not."""
    would_help: "Callable[[], Sequence[Advice]]" = no_changes
    """Finds what would help the only answer most; asked for reports alone, for it takes long."""

    @cached_property
    def changes(self) -> "Sequence[Advice]":
        """What would help the only answer most."""
        return self.would_help()

    def show(self, options: ReportOptions) -> None:
        """Print their warnings, and themselves."""
        shown = self.answers if options.are_tables else self._shown()
        output.warn(warning for one in shown for warning in (*one.scenario.warnings, *one.warnings))
        super().show(options)

    def _shown(self) -> "Sequence[Profile]":
        return self.answers if self.order is None else [self.answers[i] for i in self.order]

    def document(self) -> Any:
        """Return a document for each."""
        return self.documents(self._shown())

    def tables(self) -> Any:
        """Return the tables of one, or the table of several."""
        from sightline.report.terminal.profile import tables

        return tables(self.answers, self.cells, self.order, self.nearest)

    def csv(self) -> str:
        """Return a line for each."""
        from sightline.report.csv_lines import to_csv

        cells = self.cells if self.order is None or not self.cells else [self.cells[i] for i in self.order]
        return to_csv(self._shown(), cells)

    def chart(self, *room: Any) -> dict[str, Any] | None:
        """Draw one, a curve, or several side by side."""
        from sightline.report.charts.profile import profile_chart

        return profile_chart(self.answers, *room)

    def charted(self) -> "Sequence[Profile]":
        """Return the profiles."""
        return self.answers

    def page(self, command: str) -> str:
        """Return the page of one or several."""
        from sightline.report.pages.profiles import page

        return page(self.answers, self.cells, command=command, changes=self.changes)

    def as_markdown(self, command: str) -> str:
        """Return Markdown of one or several."""
        from sightline.report.markdown.answers import profiles_markdown

        return profiles_markdown(self.answers, self.cells, command=command, changes=self.changes)
