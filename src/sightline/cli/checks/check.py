"""``sightline check``: whether predictions meet what is required, before a job starts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli import completion, output, reports
from sightline.cli import options as asked
from sightline.cli.main import FAILED
from sightline.cli.options import Anchors, Files, RunStore, Settings, Sweeps, anchored_by, only, takes_options
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions

if TYPE_CHECKING:
    from sightline.answers.outline import Outline
    from sightline.loading.loader import Loaded
    from sightline.requirements.check import Checked


@takes_options
def check(
    files: Files,
    require: Annotated[
        list[str],
        typer.Option(
            "--require",
            metavar="EXPRESSION,...",
            help="Requirement: `fits`, or FIGURE OPERATOR BOUND, such as 'mfu>=0.35' or 'ttft_p90<=500 ms'. "
            "Operators: >=, <=, >, <; also == and != for counts and words. Quote it: the shell treats > and "
            "< as redirection. Can be repeated.",
            show_default=False,
            autocompletion=completion.requirements,
        ),
    ],
    whole_interval: Annotated[
        bool,
        typer.Option(
            "--whole-interval",
            help="Require the whole 80 % interval to meet the bound. A figure without an interval fails.",
        ),
    ] = False,
    anchor: Anchors = None,
    *,
    written: Annotated[ReportOptions, only("as_json", "markdown")],
    settings: Settings = None,
    sweeps: Sweeps = None,
    store: RunStore = None,
) -> None:
    """Check that a prediction meets requirements. Exits with 0 if it does, 1 if not, 2 for invalid input.

    Figures are result keys such as ttft_s.p90, or short names such as ttft_p90 and memory. Serving scenarios are
    simulated. With several scenarios, each must meet every requirement; an invalid combination of a sweep meets none.

    \b
    Examples:
      sightline check examples/llama-2-7b-zero2-8xa800.yaml --require 'fits,mfu>=0.15'
      sightline check examples/llama-2-7b-zero2-8xa800.yaml --require 'memory<=70 GB' --whole-interval
      sightline check examples/serving/llama-3.1-8b-h100.yaml --require 'ttft_p90<=500 ms,tpot_p99<=50 ms'
      sightline check scenario.yaml --require fits --anchor latest && sbatch job.sh
      sightline check scenario.yaml --require fits --sweep plan.micro_batch=1,2,4 --json
      sightline check scenario.yaml --require 'cost<=10000' --markdown check.md
    """
    written.check()
    with progress_bar(stops=False) as reading:
        loaded = asked.read(files, settings, sweeps, reading)
    from sightline.requirements.check import check as checked_one
    from sightline.requirements.check import requirements

    requirements(require, loaded.scenarios)
    known = anchored_by(anchor, None, store)
    with progress_bar() as progress:
        found = [
            checked_one(scenario, require, whole_interval=whole_interval, anchor=known or ())
            for scenario in progress.over(loaded.scenarios, "checking")
        ]
    end_if_stopped(progress)  # a verdict on some of the scenarios is none
    reports.write(_Report(found, loaded, loaded.is_list), written)
    if loaded.impossible or not all(one.met for one in found):
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class _Report(Report):
    checked: "list[Checked]"
    loaded: "Loaded"
    is_list: bool

    def show(self, options: ReportOptions) -> None:
        output.warn(warning for one in self.checked for warning in one.warnings)
        super().show(options)

    def document(self) -> Any:
        left_out = list(self.loaded.not_possible())
        documents = [one.to_dict() for one in self.checked]
        return [{**one, "warnings": [*left_out, *one["warnings"]]} for one in documents]

    def tables(self) -> Any:
        from sightline.answers.requirements import requirements_lines

        return requirements_lines(self.checked, impossible=len(self.loaded.impossible))

    def outline(self) -> "Outline":
        from sightline.answers.requirements import requirements_outline

        impossible = len(self.loaded.impossible)
        return requirements_outline(self.checked, impossible=impossible, left_out=list(self.loaded.not_possible()))
