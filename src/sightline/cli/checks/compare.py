"""``sightline compare``: predicted and measured, or any two of one kind, side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import Anchors, RunStore, takes_options
from sightline.cli.reports import Report, ReportOptions

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.explanation.comparison import Comparison

_SHOWN = "step,request,phase,memory,module"
_ALL = "step,request,phase,memory,module,operator"


_A = typer.Argument(
    metavar="A",
    help="A stored run (`latest`, an id or the start of one), a results or scenario file, or `predicted`.",
    show_default=False,
)
_B = typer.Argument(metavar="B", help="The profile to compare with A; `predicted` predicts A.", show_default=False)
_LEVELS = typer.Option(
    metavar="LEVEL,...",
    help=f"Levels to compare: {_ALL}. Default: all; the terminal omits operator.",
    show_default=False,
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
    """Compare two profiles: key figures, time by phase, module and operator, and memory by part.

    Each row shows the ratio B / A with its interval and whether B is faster, slower, or not distinguishable from A
    (the interval contains 1). The interval combines the spread of samples and the uncertainty of predictions. Scenario
    files are predicted first. For two predictions, shared errors cancel and the output shows the probability that each
    is faster. FILE#2 selects the second result of a file. Serving runs are compared request by request if both served
    the same requests.

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
        from sightline.explanation.comparison import comparison_to_dict

        return comparison_to_dict(self.comparison)

    def outline(self) -> "Outline":
        from sightline.answers.comparison import comparison_outline

        return comparison_outline(self.comparison)

    def csv(self) -> str:
        from sightline.render.csv import comparison_to_csv

        return comparison_to_csv(self.comparison)

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.charts.comparison_bars import comparison_bars

        return comparison_bars(self.comparison, *room)

    def charted(self) -> "Comparison":
        return self.comparison
