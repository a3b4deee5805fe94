"""``sightline predict``: scenarios in, predictions out."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsJson, Settings, Sweeps, refuse_two_formats
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.loading.loader import Asked
    from sightline.profile import Profile

_MOST_WARNINGS = 5


def predict(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False
        ),
    ],
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one line per scenario.")] = False,
    chart: Annotated[
        str | None, typer.Option(metavar="OUT", help="Draw the prediction into an .svg, .png or .html file.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="REPORT", help="Write a report as one .html page that needs no network.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="OUT", help="Write the timeline of a training step as a Chrome trace (.json).")
    ] = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Predict training, generation or a single operator: time, memory and whether it fits.

    The scenario states the task. A plan that does not fit in memory is still predicted. For training, the result also
    lists changes that would make it fit.

    \b
    Examples:
      sightline predict examples/llama-2-7b-zero2-8xa800.yaml
      sightline predict examples/llama-2-70b-generate-4xh100.yaml
      sightline predict examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,4,16,64 --chart curve.svg
      sightline predict scenario.yaml --chart prediction.svg
      sightline predict scenario.yaml --set plan.zero_stage=3 --json
      sightline predict scenario.yaml --sweep plan.micro_batch=1,2,4 --csv
      sightline predict examples/operators.yaml
      cat scenario.yaml | sightline predict -
    """
    refuse_two_formats(as_json=as_json, as_csv=as_csv)
    output.check_output_paths(
        [("--chart", chart, output.CHART_ENDINGS), ("--html", html, (".html", ".htm")), ("--trace", trace, (".json",))]
    )
    scenarios, is_one = _read(files, settings or [], sweeps or [])
    _refuse_pictures(scenarios, chart or html, trace)
    answers = _predict_all(scenarios)
    _write_files(answers, chart, html, trace)
    _print(answers, is_one=is_one, as_json=as_json, as_csv=as_csv)


def _read(files: list[str], settings: list[str], sweeps: list[str]) -> "tuple[list[Asked], bool]":
    """Return the scenarios of all files in order, and whether one was asked for rather than a list."""
    from sightline.loading import load, load_all

    if len(files) > 1:
        return load_all(files, settings, sweeps), False
    loaded = load(files[0], settings, sweeps)
    return (loaded, False) if isinstance(loaded, list) else ([loaded], True)


def _refuse_pictures(scenarios: "list[Asked]", picture: str | None, trace: str | None) -> None:
    """Refuse charts, reports and traces that cannot be drawn, before any work is done."""
    from sightline.profile import task_of

    tasks = {task.name for scenario in scenarios if (task := task_of(scenario.workload.task))}
    path = picture or trace
    if path is not None and "operator" in tasks:
        raise InputError(
            f"'{path}': charts, reports and traces are of training and generation; operators have --json and --csv"
        )
    if trace is not None and len(scenarios) > 1:
        raise InputError(f"--trace draws one scenario, {len(scenarios)} were asked for")
    if trace is not None and "generation" in tasks:
        raise InputError(f"'{trace}': a trace shows a training step; generation has --chart and --html")
    if picture is not None and len(tasks) > 1:
        raise InputError(
            f"'{picture}': a chart or report shows either training or generation; predict the two separately"
        )


def _predict_all(scenarios: "list[Asked]") -> "list[Profile]":
    from sightline.prediction import predict as predict_one

    answers = []
    with output.progress(len(scenarios), "predicting") as advance:
        for scenario in scenarios:
            answers.append(predict_one(scenario))
            advance()
    return answers


def _write_files(answers: "list[Profile]", chart: str | None, html: str | None, trace: str | None) -> None:
    if chart is not None:
        from sightline.report.charts.drawing import draw
        from sightline.report.charts.profile import profile_chart

        output.write_file(chart, draw(profile_chart(answers), chart))
    if html is not None:
        from sightline.report.page import page

        output.write_file(html, page(answers))
    if trace is not None:
        from sightline.report.charts.trace import chrome_trace

        output.write_file(trace, chrome_trace(answers[0]))


def _print(answers: "list[Profile]", *, is_one: bool, as_json: bool, as_csv: bool) -> None:
    _print_warnings(answers)
    if as_json:
        results = [answer.to_dict() for answer in answers]
        output.print_json(results[0] if is_one else results)
    elif as_csv:
        from sightline.report.csv_lines import to_csv

        output.print_text(to_csv(answers))
    else:
        from sightline.report.terminal.profile import tables

        for table in tables(answers):
            output.print_table(table)


def _print_warnings(profiles: "list[Profile]") -> None:
    """Print each warning once, and of very many the first few; each result holds its own."""
    warnings = list(dict.fromkeys(w for p in profiles for w in (*p.scenario.warnings, *p.warnings)))
    for warning in warnings[:_MOST_WARNINGS]:
        output.print_remark(f"warning: {warning}")
    if len(warnings) > _MOST_WARNINGS:
        output.print_remark(f"warning: and {len(warnings) - _MOST_WARNINGS} more; --json holds each result's own")
