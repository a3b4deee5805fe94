"""``sightline compare``: predicted and measured, or any two of one kind, side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import Anchors, AsCsv, AsJson, Chart, Charts, Html, Markdown, RunStore

if TYPE_CHECKING:
    from sightline.explanation.comparison import Comparison

_SHOWN = "step,request,phase,memory,module"
_ALL = "step,request,phase,memory,module,operator"


_A = typer.Argument(
    metavar="A",
    help="A run (its id, the start of its id, or latest), a file of results or a scenario, or predicted.",
    show_default=False,
)
_B = typer.Argument(metavar="B", help="The other one; predicted is the prediction of A.", show_default=False)
_LEVELS = typer.Option(
    metavar="LEVEL,...", help=f"Levels, of {_ALL}; default: all, in the terminal without operator.", show_default=False
)


def compare(
    a: Annotated[str, _A],
    b: Annotated[str, _B],
    level: Annotated[str | None, _LEVELS] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    chart: Chart = None,
    charts: Charts = None,
    html: Html = None,
    markdown: Markdown = None,
    anchor: Anchors = None,
    store: RunStore = None,
) -> None:
    """Compare two profiles: key figures, time by phase, module and operator, memory by part.

    Each row has the ratio B / A with its interval, and says whether B is faster, slower, or no difference was found:
    that is where the interval, made of the spread of samples and the uncertainty of predictions, holds 1. A scenario is
    predicted. Of two predictions it says how likely either is the faster: the part that their errors share cancels.
    FILE#2 is the second result of a file. Served loads are compared too, simulated or measured, and request by request
    where both served the same ones.

    \b
    Examples:
      sightline compare latest predicted
      sightline compare scenario.yaml 20261121-104239
      sightline compare zero-1.yaml zero-3.yaml --anchor our-cluster
      sightline compare 20261121-104239 20261121-110512 --level phase,module --chart before-after.svg
      sightline compare before.json after.json --json
      sightline compare before.yaml after.yaml --markdown -
      sightline compare one-engine.yaml another-engine.yaml
    """
    output.check({"--chart": chart, "--html": html, "--markdown": markdown}, json=as_json, csv=as_csv)
    reports.check_charts(charts)
    from sightline.explanation.comparison import compare as compare_profiles
    from sightline.report import comparison as report

    levels = (level or (_ALL if as_json or as_csv else _SHOWN)).split(",")
    comparison = compare_profiles(a, b, levels=[word.strip() for word in levels], store=store, anchor=anchor or ())
    output.warn(comparison.warnings)
    if chart is not None:
        from sightline.report.charts.comparison import comparison_bars

        output.draw(chart, comparison_bars(comparison))
    if _write_reports(comparison, charts, html, markdown):
        return
    output.show(
        lambda: report.comparison_to_dict(comparison),
        lambda: [report.comparison_table(comparison)],
        json=as_json,
        csv=(lambda: report.comparison_to_csv(comparison)) if as_csv else None,
    )
    if not (as_json or as_csv):
        known = [word for one in anchor or () for word in ("--anchor", one)]
        finer = ["--level", "module,operator"] if level is None else ["--chart", "comparison.svg"]
        try_next("compare", a, b, *known, *finer)


def _write_reports(comparison: "Comparison", charts: str | None, html: str | None, markdown: str | None) -> bool:
    """Write the reports that were asked for; return whether stdout holds one of them."""
    reports.write_charts(charts, comparison)
    if html is None and markdown is None:
        return False
    from sightline.report.markdown.answers import comparison_markdown
    from sightline.report.pages.comparison import comparison_page

    reports.write_page(html, lambda typed: comparison_page(comparison, command=typed))
    return reports.write_markdown(markdown, lambda typed: comparison_markdown(comparison, command=typed))
