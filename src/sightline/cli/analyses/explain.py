"""``sightline explain``: why a scenario, a run or a trace takes its time, and what would help."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import output, reports
from sightline.cli.next_step import given, has, try_next
from sightline.cli.options import Anchors, RunStore, Settings, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.explanation.answer import Explanation

_ASKED = typer.Argument(
    metavar="FILE|RUN|TRACE...",
    help="A scenario or results file (YAML, JSON or CSV), a stored run (`latest`, an id or the start of one), or "
    "a PyTorch profiler trace (.json, .json.gz; several for several ranks). Use - to read a scenario from "
    "stdin.",
    show_default=False,
)
_SCENARIO = typer.Option(metavar="FILE", help="The scenario that produced the trace.", show_default=False)


@takes_options
def explain(
    asked: Annotated[list[str], _ASKED],
    scenario: Annotated[str | None, _SCENARIO] = None,
    settings: Settings = None,
    anchor: Anchors = None,
    *,
    written: ReportOptions,
    store: RunStore = None,
) -> None:
    """Show what limits a scenario, run or trace, and the three changes that would help most.

    For each limit, the output shows the time that would remain if nothing else limited it. Recommends plan changes that
    fit, can be launched and save more than the uncertainty of the prediction, each with the command that predicts it. A
    measured run is shown next to its prediction.

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
    written.check()
    from sightline.explanation.explain import explain as of

    with progress_bar(tables=True) as progress:
        found = of(
            asked[0] if len(asked) == 1 else asked,
            scenario=scenario,
            settings=settings or (),
            anchor=anchor or (),
            store=store,
            progress=progress,
        )
    output.warn(found.warnings)
    reports.write(_Report(found), written)
    end_if_stopped(progress)
    if written.are_tables:
        try_next(*_next(found, given(asked, settings)))


@dataclass(frozen=True)
class _Report(Report):
    found: "Explanation"

    def document(self) -> Any:
        return self.found.to_dict()

    def outline(self) -> "Outline":
        from sightline.answers.analyses import explained_outline

        return explained_outline(self.found)

    def csv(self) -> str:
        from sightline.render.csv import explained_to_csv

        return explained_to_csv(self.found)

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.charts.explained_bars import explained_chart

        return explained_chart(self.found, *room)

    def charted(self) -> "Explanation":
        return self.found


def _next(found: "Explanation", again: list[str]) -> list[str]:
    """Words of the command that goes on: a search where changes help, else what the prediction hangs on."""
    if not again or found.source != "predicted":
        return ["compare", again[0], "predicted"] if again and found.scenario and len(again) == 1 else []
    task = found.scenario.get("workload", {}).get("task")
    if task in ("pretrain", "finetune") and has("plan"):
        return ["plan", *again]
    return [] if task == "operator" else ["sensitivity" if task == "generate" else "simulate", *again]
