"""``sightline compare``: predicted and measured, or any two of one kind, side by side."""

from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsJson, RunStore, refuse_two_formats

if TYPE_CHECKING:
    from sightline.explanation.comparison import Comparison

_SHOWN = "step,phase,memory,module"
_ALL = "step,phase,memory,module,operator"


_A = typer.Argument(
    metavar="A",
    help="A run (its id, the start of its id, or latest), a file of results or a scenario, or predicted.",
    show_default=False,
)
_B = typer.Argument(metavar="B", help="The other one; predicted is the prediction of A.", show_default=False)
_LEVELS = typer.Option(
    metavar="LEVEL,...", help=f"Levels, of {_ALL}; default: all, in the terminal without operator.", show_default=False
)
_CSV = typer.Option("--csv", help="Print CSV, one line per row.")
_CHART = typer.Option(metavar="OUT", help="Draw the comparison into an .svg, .png or .html file.")


def compare(
    a: Annotated[str, _A],
    b: Annotated[str, _B],
    level: Annotated[str | None, _LEVELS] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, _CSV] = False,
    chart: Annotated[str | None, _CHART] = None,
    store: RunStore = None,
) -> None:
    """Compare two profiles: key figures, time by phase, module and operator, memory by part.

    Each row has the ratio B / A with its interval, and says whether B is faster, slower, or no difference was found. A
    ratio that the spread of the samples or the uncertainty of a prediction can explain is no difference. A scenario is
    predicted. FILE#2 is the second result of a file.

    \b
    Examples:
      sightline compare latest predicted
      sightline compare scenario.yaml 20261121-104239
      sightline compare 20261121-104239 20261121-110512 --level phase,module --chart before-after.svg
      sightline compare before.json after.json --json
    """
    refuse_two_formats(as_json=as_json, as_csv=as_csv)
    output.check_output_paths([("--chart", chart, output.CHART_ENDINGS)])
    from sightline.explanation.comparison import compare as compare_profiles

    levels = (level or (_ALL if as_json or as_csv else _SHOWN)).split(",")
    comparison = compare_profiles(a, b, levels=[word.strip() for word in levels], store=store)
    for warning in comparison.warnings:
        output.print_remark(f"warning: {warning}")
    if chart is not None:
        from sightline.report.charts.comparison import comparison_bars
        from sightline.report.charts.drawing import draw

        output.write_file(chart, draw(comparison_bars(comparison), chart))
    _print(comparison, as_json=as_json, as_csv=as_csv)


def _print(comparison: "Comparison", *, as_json: bool, as_csv: bool) -> None:
    from sightline.report.comparison import comparison_to_csv, comparison_to_dict

    if as_json:
        output.print_json(comparison_to_dict(comparison))
    elif as_csv:
        output.print_text(comparison_to_csv(comparison))
    else:
        from sightline.report.comparison import comparison_table

        output.print_table(comparison_table(comparison))
