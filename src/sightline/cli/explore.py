"""``sightline explore``: studies of hardware and technology, built in and of one's own."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import AsCsv, AsJson, Chart, Charts, Html, Markdown, Settings
from sightline.cli.progress_bar import end_if_stopped, progress_bar

if TYPE_CHECKING:
    from sightline.exploration.answer import StudyAnswer

OWN = """A study of your own is a file, run with `sightline explore FILE`:

  base: scenario.yaml                                # or a scenario itself
  axes:
    cluster.device.memory_bandwidth: {from: 2 TB/s, to: 16 TB/s, factor: 2}
    cluster.device: [a100-sxm-80gb, h100-sxm-80gb]   # names, or numbers
  view: both                                         # ideal | calibrated | both
  search: [tensor_parallel, micro_batch]             # the plan, at every point
  report: [step_time_s, mfu]"""
"""How one of one's own is written."""


def explore(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]",
            help="A built-in study, or a file (YAML or JSON) with one of your own; - reads stdin.",
            show_default=False,
            autocompletion=completion.studies,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            "--view",
            metavar="NAME",
            help="How devices are seen: ideal (fixed shares of peak and bandwidth, no launches), calibrated (as "
            "kernels reach them today) or both; default: the study's own.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version of the study: fewer values.")] = False,
    settings: Settings = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    markdown: Markdown = None,
) -> None:
    """Run a study of hardware or technology: what a device, memory, network or node would bring, and what binds where.

    Without a name, the built-in studies are listed. A study of your own is a file of ten lines: a base scenario, and
    axes that are any number or name of devices, clusters, technology, plans and workloads.

    \b
    Examples:
      sightline explore
      sightline explore a100-to-b200 --chart factors.svg
      sightline explore dram --view both --html dram.html
      sightline explore examples/studies/compute-and-network.yaml
      sightline explore examples/studies/compute-and-network.yaml --set model=llama-3.1-8b --csv
      sightline explore technology-nodes --quick --json
    """
    output.check({"--chart": chart, "--html": html, "--markdown": markdown}, json=as_json, csv=as_csv)
    reports.check_charts(charts)
    if study is None:
        _show_list(as_json=as_json)
        return
    with progress_bar() as progress:
        from sightline.exploration.explore import explore as answered

        answer = answered(study, quick=quick, view=view, overrides=settings or (), progress=progress)
    reports.write_charts(charts, answer)
    if _write_files(answer, chart, html, markdown):
        return
    _show(answer, as_json=as_json, as_csv=as_csv)
    end_if_stopped(progress)
    if study != "-" and not (as_json or as_csv or chart or html):
        try_next(*_again(study, settings), "--html", "study.html")


def _again(study: str, settings: list[str] | None) -> list[str]:
    """Words of the command that asks for the same study."""
    return ["explore", study, *(word for setting in settings or () for word in ("--set", setting))]


def _show_list(*, as_json: bool) -> None:
    """Print the built-in studies, and how one of one's own is written."""
    from sightline.exploration.listed import BUILT_IN

    def table() -> Any:
        from sightline.report.studies.listing import studies_table

        return [studies_table(BUILT_IN), OWN]

    output.show(lambda: [{"study": name, "asks": asks} for name, asks in BUILT_IN.items()], table, json=as_json)
    if not as_json:
        try_next("explore", next(iter(BUILT_IN)))


def _write_files(answer: "StudyAnswer", chart: str | None, html: str | None, markdown: str | None) -> bool:
    """Write the files that were asked for; return whether stdout holds one of them."""
    if chart is not None:
        from sightline.report.charts.drawing import PHONE
        from sightline.report.charts.studies.chart import study_chart

        output.draw(chart, study_chart(answer), lambda: study_chart(answer, PHONE))
    if html is not None:
        from sightline.report.pages.study import study_page

        reports.write_page(html, lambda typed: study_page(answer, command=typed))
    if markdown is None:
        return False
    from sightline.report.markdown.answers import study_markdown

    return reports.write_markdown(markdown, lambda typed: study_markdown(answer, command=typed))


def _show(answer: "StudyAnswer", *, as_json: bool, as_csv: bool) -> None:
    output.warn(answer.warnings)

    def document() -> Any:
        from sightline.exploration.results import answer_to_dict

        return answer_to_dict(answer)

    def tables() -> Any:
        from sightline.report.studies.text import study_text

        return [study_text(answer)]

    def lines() -> str:
        from sightline.report.studies.csv import study_to_csv

        return study_to_csv(answer)

    output.show(document, tables, json=as_json, csv=lines if as_csv else None)
