"""``sightline validate``: predicted against published and measured results."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import SkipInvalid, only, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.progress import Progress
    from sightline.validation import MeasuredFiles, Result
    from sightline.validation.coverage import Cell


def show_coverage(chosen: str | None, written: ReportOptions) -> None:
    """Write the coverage of the devices, frameworks and engines of a name or a pattern, or of all."""
    from sightline.validation.coverage import coverage

    if written.chart is not None or written.charts is not None:
        raise InputError("--coverage has no chart; allowed: --json, --csv, --html, --markdown")
    with progress_bar(tables=True) as progress:
        cells = coverage(chosen, progress)
    reports.write(_CoverageReport(cells), written)
    end_if_stopped(progress)


@dataclass(frozen=True)
class _CoverageReport(Report):
    cells: "list[Cell]"

    def document(self) -> Any:
        from sightline.validation.coverage import coverage_to_dict

        return coverage_to_dict(self.cells)

    def outline(self) -> "Outline":
        from sightline.answers.validation import coverage_outline

        return coverage_outline(self.cells)

    def csv(self) -> str:
        from sightline.render.csv import coverage_to_csv

        return coverage_to_csv(self.cells)


FILES = (".csv", ".yaml", ".yml", ".json")
"""What names of scenario files end in; other names are of suites."""
Chosen = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SUITE|FILE]...",
        help="A suite, the start of its name, or a pattern with *; or a scenario file with measured.* keys.",
        show_default=False,
        autocompletion=completion.suites,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        envvar="SIGHTLINE_DATA",
        help="Folder with published data sets that are not shipped with Sightline.",
        show_default=False,
    ),
]
LeftOut = Annotated[
    bool, typer.Option("--left-out", help="Predict each training source with constants fitted without it.")
]
Coverage = Annotated[
    bool,
    typer.Option(
        "--coverage",
        help="List whether predictions are calibrated, by device, framework and engine. SUITE then selects one of "
        "these by name or pattern.",
    ),
]
Locked = Annotated[
    bool, typer.Option("--locked", help="Predict the locked test sources, which are never used for fitting.")
]


@takes_options
def validate(
    suites: Chosen = None,
    data: Data = None,
    left_out: LeftOut = False,
    locked: Locked = False,
    skip_invalid: SkipInvalid = False,
    cases: Annotated[
        bool, typer.Option("--cases", help="List every case with its predicted and measured value.")
    ] = False,
    coverage: Coverage = False,
    *,
    written: Annotated[ReportOptions, only("chart", "charts", "html", "markdown", "as_json", "as_csv")],
) -> None:
    """Compare predictions with published and measured results, and print the errors of each suite.

    Suites cover training, generation, serving and single operators. Small published tables ship with the catalog;
    larger data sets are read from --data. Each suite has a part used for fitting and, with enough families, a part held
    out for testing.

    With --left-out, each training source is predicted from its framework name and date, without its measurements. With
    --locked, predict the sources that are never used for fitting or tuning.

    A FILE holds your own measurements: a table of scenarios (.csv, .yaml or .json) with keys such as
    measured.step_time_s and measured.source. Its errors are listed by source and quantity.

    With --coverage, list for every operator and format of a device, technique of a framework and feature of an engine
    whether its prediction is calibrated, extrapolated, from the datasheet, or unsupported.

    \b
    Examples:
      sightline validate
      sightline validate --data DIR
      sightline validate korthikanti-2022-table5 --cases
      sightline validate measured.csv --skip-invalid
      sightline validate "matmul*h100*" --data DIR
      sightline validate --data DIR --json
      sightline validate --data DIR --left-out
      sightline validate --data DIR --locked
      sightline validate --data DIR --chart accuracy.svg
      sightline validate --coverage
      sightline validate h100-sxm-80gb --coverage
    """
    written.check()
    asked = suites or []
    if coverage:
        if left_out or locked or cases:
            raise InputError("--coverage cannot be combined with --left-out, --locked or --cases")
        if len(asked) > 1:
            raise InputError(f"--coverage takes one name or pattern, not {len(asked)}")
        show_coverage(asked[0] if asked else None, written)
        return
    files = [name for name in asked if name == "-" or name.lower().endswith(FILES)]
    names = [name for name in asked if name not in files] or None
    _check(files, left_out=left_out, locked=locked, skip_invalid=skip_invalid)
    measured = _read(files, skip_invalid=skip_invalid)
    with progress_bar(tables=True) as progress:
        if left_out:
            results, means = _left_out(names, data, progress)
        else:
            results, means = _run(names, data, measured, progress, locked=locked), {}
    reports.write(_Report(results, means, cases), written)
    end_if_stopped(progress)
    if not written.are_tables:
        return
    if data is None and not asked and not locked:
        output.print_text("\nTo include the larger training, generation and operator data sets, use --data DIR.\n")
    if not (cases or left_out or locked or files):
        data_too = [] if data is None else ["--data", str(data)]
        try_next("validate", max(results, key=lambda result: result.mape or 0.0).suite, *data_too, "--cases")


@dataclass(frozen=True)
class _Report(Report):
    results: "list[Result]"
    means: dict[str, Any]
    """What sources left out let one expect."""
    cases: bool

    def document(self) -> Any:
        from sightline.validation.suite import results_to_dict

        return results_to_dict(self.results, cases=self.cases) | self.means

    def tables(self) -> Any:
        from sightline.answers.validation import expected_outline

        yield self.outline()
        if self.means:
            yield expected_outline(self.means["left_out"])

    def csv(self) -> str:
        from sightline.render.csv import csv_text

        return csv_text([result.to_dict() for result in self.results])

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.charts.accuracy import validation_chart

        return validation_chart(self.results, *room)

    def charted(self) -> "list[Result]":
        return self.results

    def outline(self) -> "Outline":
        from sightline.answers.validation import validation_outline

        return validation_outline(self.results, cases=self.cases)


def _check(files: list[str], *, left_out: bool, locked: bool, skip_invalid: bool) -> None:
    """Refuse options that do not go together."""
    if left_out and locked:
        raise InputError("--left-out cannot be combined with --locked: locked sources are never used for fitting")
    if files and (left_out or locked):
        raise InputError(
            f"--{'left-out' if left_out else 'locked'} applies to published suites; '{files[0]}' is a file"
        )
    if skip_invalid and not files:
        raise InputError("--skip-invalid needs a FILE with scenarios")


def _read(files: list[str], *, skip_invalid: bool) -> "list[MeasuredFiles]":
    """The scenarios of files, if there are any."""
    from sightline.validation import MeasuredFiles

    if not files:
        return []
    with progress_bar(stops=False) as reading:
        return [MeasuredFiles.read(files, skip_invalid=skip_invalid, progress=reading)]


def _run(
    names: list[str] | None, data: Path | None, measured: "list[MeasuredFiles]", progress: "Progress", *, locked: bool
) -> "list[Result]":
    """The errors of the suites of these names and of files; without either, of all suites."""
    from sightline.validation import choose, evaluate

    _require_folder(data)
    suites = choose(names, data, locked=locked) if names or not measured else ()
    results = evaluate([*suites, *measured], progress=progress)
    for remark in (said for of in measured for said in of.loaded.not_answered()):
        output.print_remark(remark)
    return results


def _left_out(
    names: list[str] | None, data: Path | None, progress: "Progress"
) -> "tuple[list[Result], dict[str, Any]]":
    """Leave the sources of the chosen suites out, one after the other: their errors, and what they let one expect."""
    from sightline.validation import choose, left_out, suites
    from sightline.validation.left_out import shipped, source_steps

    _require_folder(data)
    steps = source_steps(suites(data))
    chosen = None if names is None else {one.name for one in choose(names, data)}
    wanted = {step.source for step in steps if chosen is None or step.suite in chosen}
    if not wanted:
        raise InputError(f"--left-out: '{', '.join(names or ())}' has no timed training steps")
    found = shipped(steps, progress)
    sources = left_out.sources_left_out(steps, found, wanted, progress)
    means = left_out.expected_of(sources)
    if names is None:
        means["unmeasured_devices"] = left_out.unmeasured_devices(steps, found)
    more = {"left_out_suites": left_out.figures_of_suites(sources), "constants": left_out.steps_of_constants(found)}
    return left_out.results_left_out(sources), {"left_out": means, **more}


def _require_folder(data: Path | None) -> None:
    if data is not None and not data.is_dir():
        raise InputError(f"--data '{data}' is not a folder")
