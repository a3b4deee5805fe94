"""``sightline validate --coverage``: what predictions of each device, framework and engine rest on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.cli import reports
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import OutlinedReport, ReportOptions
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.report.outline import Outline
    from sightline.validation.coverage import Cell


def show_coverage(chosen: str | None, written: ReportOptions) -> None:
    """Write the coverage of the devices, frameworks and engines of a name or a pattern, or of all."""
    from sightline.validation.coverage import coverage

    if written.chart is not None or written.charts is not None:
        raise InputError("--coverage has no chart; allowed: --json, --csv, --html, --markdown")
    with progress_bar(tables=True) as progress:
        cells = coverage(chosen, progress)
    reports.write(_Report(cells), written)
    end_if_stopped(progress)


@dataclass(frozen=True)
class _Report(OutlinedReport):
    cells: "list[Cell]"

    def document(self) -> Any:
        from sightline.validation.coverage import coverage_to_dict

        return coverage_to_dict(self.cells)

    def outline(self) -> "Outline":
        from sightline.report.coverage import coverage_outline

        return coverage_outline(self.cells)

    def csv(self) -> str:
        from sightline.report.coverage import coverage_to_csv

        return coverage_to_csv(self.cells)
