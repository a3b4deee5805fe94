"""``sightline explore``: studies of hardware and technology, built in and of one's own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli.next_step import try_next
from sightline.cli.options import Settings, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.exploration.answer import StudyAnswer

OWN = """To run your own study, describe it in a file and run `sightline explore FILE`:

  base: scenario.yaml                                # a file, or the scenario itself
  axes:
    cluster.device.memory_bandwidth: {from: 2 TB/s, to: 16 TB/s, factor: 2}
    cluster.device: [a100-sxm-80gb, h100-sxm-80gb]   # names or numbers
  view: both                                         # ideal | calibrated | both
  search: [tensor_parallel, micro_batch]             # plan fields to optimize at every point
  report: [step_time_s, mfu]"""
"""How to write a study file."""


@takes_options
def explore(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]",
            help="A built-in study, or a study file (YAML or JSON). Use - to read from stdin.",
            show_default=False,
            autocompletion=completion.studies,
        ),
    ] = None,
    view: Annotated[
        str | None,
        typer.Option(
            "--view",
            metavar="NAME",
            help="Device model: `ideal` (fixed shares of peak and bandwidth, no kernel launches), `calibrated` "
            "(measured kernel efficiency) or `both`. Default: set by the study.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a smaller version of the study with fewer values.")
    ] = False,
    settings: Settings = None,
    *,
    written: ReportOptions,
) -> None:
    """Run a hardware or technology study: the gain from a device, memory, network or process node, and the bottleneck.

    Without STUDY, list the built-in studies. A study file holds a base scenario and axes: any numbers or names of
    devices, clusters, technologies, plans and workloads.

    \b
    Examples:
      sightline explore
      sightline explore a100-to-b200 --chart factors.svg
      sightline explore dram --view both --html dram.html
      sightline explore examples/studies/compute-and-network.yaml
      sightline explore examples/studies/compute-and-network.yaml --set model=llama-3.1-8b --csv
      sightline explore technology-nodes --quick --json
    """
    written.check()
    if study is None:
        _show_list(as_json=written.as_json)
        return
    with progress_bar() as progress:
        from sightline.exploration.explore import explore as answered

        answer = answered(study, quick=quick, view=view, overrides=settings or (), progress=progress)
    output.warn(answer.warnings)
    reports.write(_Report(answer), written)
    end_if_stopped(progress)
    if study != "-" and written.are_tables and not (written.chart or written.html):
        try_next(*_again(study, settings), "--html", "study.html")


def _again(study: str, settings: list[str] | None) -> list[str]:
    """Words of the command that asks for the same study."""
    return ["explore", study, *(word for setting in settings or () for word in ("--set", setting))]


def _show_list(*, as_json: bool) -> None:
    """Print the built-in studies, and how one of one's own is written."""
    from sightline.exploration import BUILT_IN

    def table() -> Any:
        from sightline.answers.study import studies_outline

        return [studies_outline(BUILT_IN), OWN]

    output.show(lambda: [{"study": name, "asks": asks} for name, asks in BUILT_IN.items()], table, json=as_json)
    if not as_json:
        try_next("explore", next(iter(BUILT_IN)))


_MOST_CSV = 5_000
"""Rows of the CSV text inside a page; with more it would load slowly."""


@dataclass(frozen=True)
class _Report(Report):
    answer: "StudyAnswer"

    def document(self) -> Any:
        from sightline.exploration.answer import study_to_dict

        return study_to_dict(self.answer)

    def outline(self) -> "Outline":
        from sightline.answers.study import study_outline

        return study_outline(self.answer)

    def kept_outline(self) -> "Outline":
        from sightline.answers.study import study_outline

        return study_outline(self.answer, csv=self.csv() if len(self.answer) <= _MOST_CSV else "")

    def csv(self) -> str:
        from sightline.render.csv import study_to_csv

        return study_to_csv(self.answer)

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.charts.study_charts import study_chart

        return study_chart(self.answer, *room)

    def charted(self) -> "StudyAnswer":
        return self.answer
