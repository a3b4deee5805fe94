"""``sightline validate`` and ``reproduce``: predictions against published and measured results, and their findings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli.options import RunStore, SkipInvalid, argument, described, only, option
from sightline.cli.output import try_next
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions
from sightline.errors import InputError
from sightline.quantities import counted

if TYPE_CHECKING:
    from sightline.progress import Progress
    from sightline.reproduction.asking import Source
    from sightline.reproduction.reproduce import Chosen
    from sightline.validation.cases import Result
    from sightline.validation.evaluation import MeasuredFiles

FILES = (".csv", ".yaml", ".yml", ".json")
"""What names of scenario files end in; other names are of suites."""
_APART: Mapping[str, Sequence[str]] = {
    "plans": ("left_out", "cases", "coverage"),
    "coverage": ("left_out", "locked", "cases"),
}
"""Options with a listing of their own, and those that do not go with them."""
_Forms = Annotated[ReportOptions, only("chart", "charts", "html", "markdown", "as_json", "as_csv", "verbose")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateOptions:
    """Which results predictions are compared with, and what is listed."""

    suites: Annotated[
        list[str] | None,
        argument(
            "A suite, the start of its name, or a pattern with *; or a scenario file with measured.* keys.",
            "[SUITE|FILE]...",
            completion.suites,
        ),
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="SIGHTLINE_DATA",
            help="Folder with published data sets that are not shipped with Sightline.",
        ),
    ] = None
    left_out: bool = option(False, "Predict each training source with constants fitted without it.")
    locked: bool = option(False, "Predict the locked test sources, which are never used for fitting.")
    skip_invalid: SkipInvalid = False
    plans: bool = option(
        False,
        "List how predictions decide between measured plans: the fastest of a sweep, pairs that differ in one choice, "
        "and which fit. In a FILE, a plan with measured.source and no figure, or with measured.fits false, ran out of "
        "memory.",
    )
    cases: bool = option(False, "List every case with its predicted and measured value.")
    coverage: bool = option(
        False,
        "List whether predictions are calibrated, by device, framework and engine. SUITE then selects one of these by "
        "name or pattern.",
    )
    written: _Forms = field(default_factory=ReportOptions)

    @property
    def files(self) -> list[str]:
        """The scenario files among what is named."""
        return [name for name in self.suites or () if name == "-" or name.lower().endswith(FILES)]

    @property
    def names(self) -> list[str] | None:
        """The suites that are named; None for all."""
        return [name for name in self.suites or () if name not in self.files] or None

    def check(self) -> None:
        """Refuse options that do not go together, and a folder that is none."""
        self.written.check()
        files, named = self.files, self.suites or ()
        for name, others in _APART.items():
            if getattr(self, name):
                self._check_apart(name, others)
        if self.coverage and len(named) > 1:
            raise InputError(f"--coverage takes one name or pattern, not {len(named)}")
        if self.left_out and self.locked:
            raise InputError("--left-out cannot be combined with --locked: locked sources are never used for fitting")
        if files and (self.left_out or self.locked):
            option = "left-out" if self.left_out else "locked"
            raise InputError(f"--{option} applies to published suites; '{files[0]}' is a file")
        if self.skip_invalid and not files and not self.coverage:
            raise InputError("--skip-invalid needs a FILE with scenarios")
        if self.data is not None and not self.data.is_dir() and not self.coverage:
            raise InputError(f"--data '{self.data}' is not a folder")

    def _check_apart(self, name: str, others: Sequence[str]) -> None:
        """Refuse what does not go together with a listing of another kind."""
        if any(getattr(self, other) for other in others):
            *some, last = (f"--{other.replace('_', '-')}" for other in others)
            raise InputError(f"--{name} cannot be combined with {', '.join(some)} or {last}")
        if self.written.chart is not None or self.written.charts is not None:
            raise InputError(f"--{name} has no chart; allowed: --json, --csv, --html, --markdown")


def validate(options: ValidateOptions) -> None:
    """Compare predictions with published and measured results, and print the errors of each suite.

    Suites cover training, generation, serving and single operators. Small published tables ship with the catalog;
    larger data sets are read from --data. Each suite has a part used for fitting and, with enough families, a part held
    out for testing.

    With --left-out, each training source is predicted from its framework name and date, without its measurements. With
    --locked, predict the sources that are never used for fitting or tuning.

    A FILE holds your own measurements: a table of scenarios (.csv, .yaml or .json) with keys such as
    measured.step_time_s and measured.source. Its errors are listed by source and quantity.

    With --plans, list by source how often the plan that is predicted to be fastest is within 5 % of the best measured
    one, whether the sign and the size of single choices are right, and which plans are said to fit.

    With --coverage, list for every operator and format of a device, technique of a framework and feature of an engine
    whether its prediction is calibrated, extrapolated, from the datasheet, or unsupported.

    \b
    Examples:
      sightline validate
      sightline validate korthikanti-2022-table5 --cases
      sightline validate measured.csv --skip-invalid
      sightline validate --plans --data DIR
      sightline validate h100-sxm-80gb --coverage
    """
    options.check()
    written = options.written
    if options.coverage:
        _show_coverage(next(iter(options.suites or ()), None), written)
        return
    measured = _measured(options)
    with progress_bar(tables=True) as progress:
        if options.left_out:
            results, means = _left_out(options, progress)
        else:
            results, means = _run(options, measured, progress), {}
    if options.plans:
        from sightline.validation.decisions import decisions_of

        reports.write(Report(kind="decisions", answer=decisions_of(results)), written)
        end_if_stopped(progress)
        return
    from sightline.validation.cases import results_to_dict

    report = _Errors(
        kind="validation",
        answer=results,
        documents=lambda: results_to_dict(results, cases=options.cases) | means,
        says={"cases": options.cases},
        in_full=options.cases,
        means=means,
    )
    reports.write(report, written)
    end_if_stopped(progress)
    if not written.are_tables:
        return
    if options.data is None and not options.suites and not options.locked:
        output.print_text("\nTo include the larger training, generation and operator data sets, use --data DIR.\n")
    if not (options.cases or options.left_out or options.locked or options.files):
        data_too = [] if options.data is None else ["--data", str(options.data)]
        try_next("validate", max(results, key=lambda result: result.mape or 0.0).suite, *data_too, "--cases")


def _show_coverage(chosen: str | None, written: ReportOptions) -> None:
    """Write the coverage of the devices, frameworks and engines of a name or a pattern, or of all."""
    from sightline.validation.coverage import coverage

    with progress_bar(tables=True) as progress:
        cells = coverage(chosen, progress)
    reports.write(Report(kind="coverage", answer=cells), written)
    end_if_stopped(progress)


@dataclass(kw_only=True)
class _Errors(Report):
    means: dict[str, Any]
    """What sources left out let one expect."""

    def tables(self) -> Any:
        from sightline.answers.validation import expected_outline

        yield self.outline()
        if self.means:
            yield expected_outline(self.means["left_out"])

    def csv(self) -> str:
        from sightline.render.csv import csv_text

        return csv_text([result.to_dict() for result in self.answer])


def _measured(options: ValidateOptions) -> "list[MeasuredFiles]":
    """The scenarios of files, if there are any."""
    from sightline.validation.evaluation import MeasuredFiles

    if not options.files:
        return []
    with progress_bar(stops=False) as reading:
        return [
            MeasuredFiles.read(options.files, skip_invalid=options.skip_invalid, failed=options.plans, progress=reading)
        ]


def _run(options: ValidateOptions, measured: "list[MeasuredFiles]", progress: "Progress") -> "list[Result]":
    """The errors of the suites of these names and of files; without either, of all suites."""
    from sightline.validation.evaluation import choose, evaluate

    names = options.names
    suites = choose(names, options.data, locked=options.locked) if names or not measured else ()
    if options.plans:
        from sightline.validation.decisions import is_decided

        suites = [suite for suite in suites if is_decided(suite)]
        if not (suites or measured):
            raise InputError(f"--plans: '{', '.join(names or ())}' has no times or rates of plans")
    results = evaluate([*suites, *measured], progress=progress)
    for remark in (sentence for files in measured for sentence in files.loaded.not_answered()):
        output.print_remark(remark)
    return results


def _left_out(options: ValidateOptions, progress: "Progress") -> "tuple[list[Result], dict[str, Any]]":
    """Leave the sources of the chosen suites out, one after the other: their errors, and what they let one expect."""
    from sightline.validation import left_out
    from sightline.validation.evaluation import choose, suites
    from sightline.validation.left_out import shipped, source_steps

    names = options.names
    steps = source_steps(suites(options.data))
    chosen = None if names is None else {one.name for one in choose(names, options.data)}
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


def reproduce(
    source: Annotated[str, argument("The source: 2311.03687, 2407.14645 or talk.", "SOURCE", completion.sources)],
    chosen: Annotated[
        list[str] | None,
        described(
            "Findings and tables to reproduce, such as A1 or A1-A5. Can be repeated. Default: all.",
            "--only",
            metavar="ID,…",
        ),
    ] = None,
    measure: Annotated[
        bool,
        described(
            "Also measure what this machine can run and show it next to the prediction. Models are scaled down on "
            "a CPU."
        ),
    ] = False,
    small: Annotated[
        bool, described("Use smaller loads and coarser grids: one minute instead of several.", "--quick")
    ] = False,
    store: RunStore = None,
    *,
    written: _Forms,
) -> None:
    """Reproduce the findings and tables of a source, and judge each finding by a stated criterion.

    arXiv 2311.03687 measures Llama 2 on servers with eight A800, RTX 4090 and RTX 3090; arXiv 2407.14645 models
    training and inference across technology nodes; the talk covers efficiency. List the criteria with
    `sightline catalog findings`.

    \b
    Examples:
      sightline reproduce 2311.03687 --only A1-A4,scaling
      sightline reproduce 2407.14645 --quick
      sightline reproduce 2311.03687 --only scaling --chart scaling.svg
      sightline reproduce 2407.14645 --charts charts
      sightline reproduce talk --json
    """
    written.check()
    ids = [word.strip() for words in chosen or () for word in words.split(",")]
    _check_forms(source, ids, written, measure=measure)
    from sightline.runs import open_store

    with progress_bar(tables=True, stored=open_store(store) if measure else None) as progress:
        from sightline.reproduction.reproduce import reproduce as answered

        answer = answered(source, only=ids, measure=measure, small=small, store=store, progress=progress)
    output.warn(answer.warnings)
    reports.write(_Findings(kind="reproduction", answer=answer, in_full=bool(ids)), written)
    end_if_stopped(progress)
    if written.are_tables and not (written.html or ids):
        try_next("reproduce", source, "--html", "report.html")


class _Findings(Report):
    def chart(self, *room: Any) -> dict[str, Any] | None:
        from sightline.charts.study_charts import study_chart

        return study_chart(self.answer.tables[0].answer, *room) if self.answer.tables else None


def _check_forms(source: str, ids: list[str], written: ReportOptions, *, measure: bool) -> None:
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
