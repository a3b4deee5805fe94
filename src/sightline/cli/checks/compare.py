"""``sightline compare``: predicted and measured, or any two of one kind, side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import Anchors, RunStore, takes_options
from sightline.cli.reports import Report, ReportOptions

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


@takes_options
def compare(
    a: Annotated[str, _A],
    b: Annotated[str, _B],
    level: Annotated[str | None, _LEVELS] = None,
    *,
    written: ReportOptions,
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
    written.check()
    from sightline.explanation.comparison import compare as compare_profiles

    levels = (level or (_ALL if written.as_json or written.as_csv else _SHOWN)).split(",")
    comparison = compare_profiles(a, b, levels=[word.strip() for word in levels], store=store, anchor=anchor or ())
    output.warn(comparison.warnings)
    reports.write(_Report(comparison), written)
    if written.are_tables:
        known = [word for one in anchor or () for word in ("--anchor", one)]
        finer = ["--level", "module,operator"] if level is None else ["--chart", "comparison.svg"]
        try_next("compare", a, b, *known, *finer)


@dataclass(frozen=True)
class _Report(Report):
    comparison: "Comparison"

    def document(self) -> Any:
        from sightline.explanation.results import comparison_to_dict

        return comparison_to_dict(self.comparison)

    def tables(self) -> Any:
        from sightline.report.comparison import comparison_table

        return [comparison_table(self.comparison)]

    def csv(self) -> str:
        from sightline.report.comparison import comparison_to_csv

        return comparison_to_csv(self.comparison)

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.report.charts.comparison import comparison_bars

        return comparison_bars(self.comparison, *room)

    def charted(self) -> "Comparison":
        return self.comparison

    def page(self, command: str) -> str:
        from sightline.report.pages.comparison import comparison_page

        return comparison_page(self.comparison, command=command)

    def as_markdown(self, command: str) -> str:
        from sightline.report.markdown.answers import comparison_markdown

        return comparison_markdown(self.comparison, command=command)
