"""``sightline sensitivity``: which numbers a prediction depends on."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from sightline.cli import options, output, reports
from sightline.cli.next_step import given, has, try_next
from sightline.cli.options import Anchors, Files, RunStore, Settings, Sweeps, only, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions, changes_of
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.sensitivity import Sensitivity


@takes_options
def sensitivity(
    files: Files,
    anchor: Anchors = None,
    *,
    written: Annotated[ReportOptions, only("as_json", "chart", "charts", "html")],
    settings: Settings = None,
    sweeps: Sweeps = None,
    store: RunStore = None,
) -> None:
    """Show which inputs a prediction depends on: elasticities of device, link and network, and candidate changes.

    An elasticity of -0.4 means that raising the input by 1 % reduces the time by 0.4 %. For training, every plan with a
    single change is predicted as well.

    \b
    Examples:
      sightline sensitivity examples/llama-2-7b-zero2-8xa800.yaml
      sightline sensitivity examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,64
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --json
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --html depends.html
    """
    from sightline.anchors import anchored
    from sightline.prediction.sensitivity import sensitivity as of

    written.check()
    known = anchored(anchor, store) if anchor else None
    with progress_bar(stops=False) as reading:
        loaded = options.read(files, settings, sweeps, reading)
    with progress_bar() as progress:
        found = [of(scenario, anchor=known) for scenario in progress.over(loaded.scenarios, "varying inputs")]
    output.warn(warning for one in found for warning in (*one.answer.scenario.warnings, *one.answer.warnings))
    if (written.chart or written.charts) and len(found) > 1:
        raise InputError(f"--chart and --charts draw one scenario, got {len(found)}; use --html for several")
    again = given(files, settings)
    reports.write(_Report(found, again, known, loaded.is_list), written)
    end_if_stopped(progress)
    if written.are_tables and again:
        is_training = all(one.neighbours for one in found)
        try_next(*(["plan", *again] if is_training and has("plan") else ["predict", *again, "--html", "report.html"]))


@dataclass(frozen=True)
class _Report(Report):
    found: "list[Sensitivity]"
    again: list[str]
    known: "Anchored | None"
    is_list: bool
    without_chart = "no input affects the result"

    def document(self) -> Any:
        from sightline.prediction.results import sensitivity_to_dict

        return list(map(sensitivity_to_dict, self.found))

    def outline(self) -> "Outline":
        from sightline.answers.analyses import sensitivities_outline

        return sensitivities_outline(self.found)

    def kept_outline(self) -> "Outline":
        from sightline.answers.analyses import sensitivities_outline

        changes = [changes_of([one.answer], self.again, self.known) for one in self.found]
        return sensitivities_outline(self.found, changes)

    def chart(self, *room: Any) -> dict[str, Any] | None:
        from sightline.charts.study_charts import sensitivity_chart

        return sensitivity_chart(self.found[0], *room)

    def charted(self) -> "Sensitivity":
        return self.found[0]
