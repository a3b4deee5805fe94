"""``sightline sensitivity``: which numbers a prediction depends on."""

from typing import TYPE_CHECKING

from sightline.cli import asked, output, reports
from sightline.cli.next_step import given, has, try_next
from sightline.cli.options import Anchors, AsJson, Chart, Charts, Files, Html, RunStore, Settings, Sweeps
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.sensitivity import Sensitivity


def sensitivity(
    files: Files,
    anchor: Anchors = None,
    as_json: AsJson = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    settings: Settings = None,
    sweeps: Sweeps = None,
    store: RunStore = None,
) -> None:
    """Show which numbers a prediction depends on: elasticities to device, links and network, and neighbouring plans.

    An elasticity of -0.4 means that 1 % more of the number reduces the time by 0.4 %. For training, every plan that
    differs in one choice is predicted too.

    \b
    Examples:
      sightline sensitivity examples/llama-2-7b-zero2-8xa800.yaml
      sightline sensitivity examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,64
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --json
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --html depends.html
    """
    from sightline.anchors import anchored
    from sightline.prediction.sensitivity import sensitivity as of
    from sightline.report.terminal.analysis import sensitivity_table, sensitivity_to_dict

    output.check({"--chart": chart, "--html": html}, json=as_json)
    reports.check_charts(charts)
    known = anchored(anchor, store) if anchor else None
    with progress_bar(stops=False) as reading:
        loaded = asked.read(files, settings, sweeps, reading)
    with progress_bar() as progress:
        found = [of(scenario, anchor=known) for scenario in progress.over(loaded.scenarios, "varying numbers")]
    output.warn(warning for one in found for warning in (*one.answer.scenario.warnings, *one.answer.warnings))
    _write_reports(found, chart, charts, html, (given(files, settings), known))
    output.show(
        lambda: list(map(sensitivity_to_dict, found)),
        lambda: map(sensitivity_table, found),
        json=as_json,
        one=not loaded.is_list,
    )
    end_if_stopped(progress)
    if not as_json and (again := given(files, settings)):
        is_training = all(one.neighbours for one in found)
        try_next(*(["plan", *again] if is_training and has("plan") else ["predict", *again, "--html", "report.html"]))


def _write_reports(
    found: "list[Sensitivity]",
    chart: str | None,
    charts: str | None,
    html: str | None,
    asked_by: "tuple[list[str], Anchored | None]",
) -> None:
    """Write the chart and the reports that were asked for."""
    if (chart or charts) and len(found) > 1:
        raise InputError(f"charts of a sensitivity are of one scenario, {len(found)} were asked for: --html has all")
    if chart is not None:
        from sightline.report.charts.drawing import PHONE
        from sightline.report.charts.sensitivity import sensitivity_chart

        drawn = sensitivity_chart(found[0])
        if drawn is None:
            output.print_remark("no chart was drawn: nothing that is varied matters")
        else:
            output.draw(chart, drawn, lambda: sensitivity_chart(found[0], PHONE) or drawn)
    reports.write_charts(charts, found[0])
    if html is not None:
        from sightline.report.pages.sensitivity import sensitivity_page

        changes = [reports.changes_of([one.answer], *asked_by) for one in found]
        reports.write_page(html, lambda typed: sensitivity_page(found, command=typed, changes=changes))
