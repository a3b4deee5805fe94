"""``sightline explain``: why a scenario, a run or a trace takes its time, and what would help."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output, reports
from sightline.cli.next_step import given, has, try_next
from sightline.cli.options import Anchors, AsCsv, AsJson, Chart, Charts, Html, Markdown, RunStore, Settings
from sightline.cli.progress_bar import end_if_stopped, progress_bar

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation

_ASKED = typer.Argument(
    metavar="FILE|RUN|TRACE...",
    help="A scenario or results (YAML, JSON, CSV), a run (its id, the start of its id, or latest), a trace of "
    "PyTorch's profiler (.json, .json.gz) or those of several ranks; - reads a scenario from stdin.",
    show_default=False,
)
_SCENARIO = typer.Option(metavar="FILE", help="The scenario that a trace is of.", show_default=False)


def explain(
    asked: Annotated[list[str], _ASKED],
    scenario: Annotated[str | None, _SCENARIO] = None,
    settings: Settings = None,
    anchor: Anchors = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    markdown: Markdown = None,
    store: RunStore = None,
) -> None:
    """Explain where the time goes, what limits it, and which three changes would help most.

    Each limit is shown with the time that the whole would take if only this limit held. Advised are changes of the plan
    that fit, can be launched, and save more than the prediction may be off, each with the command that predicts it. A
    measured run is explained next to its prediction.

    \b
    Examples:
      sightline explain examples/llama-2-7b-zero2-8xa800.yaml
      sightline explain examples/gpt-3-175b-1024xa100.yaml --chart limits.svg
      sightline explain scenario.yaml --set plan.micro_batch=4 --anchor latest
      sightline explain latest
      sightline explain trace.json.gz --scenario scenario.yaml
      sightline explain rank0.json rank1.json --json
      sightline explain scenario.yaml --markdown -
    """
    output.check({"--chart": chart, "--html": html, "--markdown": markdown}, json=as_json, csv=as_csv)
    reports.check_charts(charts)
    from sightline.explanation.explain import explain as of

    with progress_bar() as progress:
        found = of(
            asked[0] if len(asked) == 1 else asked,
            scenario=scenario,
            settings=settings or (),
            anchor=anchor or (),
            store=store,
            progress=progress,
        )
    output.warn(found.warnings)
    _draw(found, chart)
    reports.write_charts(charts, found)
    if not _write_reports(found, html, markdown):
        _show(found, as_json=as_json, as_csv=as_csv)
    end_if_stopped(progress)
    if not (as_json or as_csv or markdown == output.STDOUT):
        try_next(*_next(found, given(asked, settings)))


def _draw(found: "Explanation", chart: str | None) -> None:
    if chart is not None:
        from sightline.report.charts.drawing import PHONE
        from sightline.report.charts.explained import explained_chart

        output.draw(chart, explained_chart(found), lambda: explained_chart(found, PHONE))


def _write_reports(found: "Explanation", html: str | None, markdown: str | None) -> bool:
    """Write the reports that were asked for; return whether stdout holds one of them."""
    if html is None and markdown is None:
        return False
    from sightline.report.explained.markdown import explained_markdown
    from sightline.report.explained.page import explained_page

    reports.write_page(html, lambda typed: explained_page(found, command=typed))
    return reports.write_markdown(markdown, lambda typed: explained_markdown(found, command=typed))


def _show(found: "Explanation", *, as_json: bool, as_csv: bool) -> None:
    def tables() -> list[object]:
        from sightline.report.explained.terminal import explained

        return [explained(found)]

    def lines() -> str:
        from sightline.report.explained.csv import explained_to_csv

        return explained_to_csv(found)

    output.show(lambda: [found.to_dict()], tables, json=as_json, one=True, csv=lines if as_csv else None)  # type: ignore[arg-type]


def _next(found: "Explanation", again: list[str]) -> list[str]:
    """Words of the command that goes on: a search where changes help, else what the prediction hangs on."""
    if not again or found.source != "predicted":
        return ["compare", again[0], "predicted"] if again and found.scenario and len(again) == 1 else []
    task = found.scenario.get("workload", {}).get("task")
    if task in ("pretrain", "finetune") and has("plan"):
        return ["plan", *again]
    return [] if task == "operator" else ["sensitivity" if task == "generate" else "simulate", *again]
