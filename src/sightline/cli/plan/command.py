"""``sightline plan``: the best plans for what a scenario leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.cli import output, reports
from sightline.cli.options import takes_options
from sightline.cli.plan.launch import Launched, check_folder, first_launched, save_launch
from sightline.cli.plan.options import PlanOptions
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.planning.answer import PlanAnswer
    from sightline.profile import Profile
    from sightline.progress import Progress

Commands = Sequence[tuple[str, str]]
"""What commands are for, and what to type."""


@takes_options
def plan(options: PlanOptions) -> None:
    """Find the best plans for the fields a scenario leaves open, such as parallelism, micro-batch and recomputation.

    Supports training, generation and serving; for serving, the most promising layouts are simulated under the load.
    Fields set in the scenario stay fixed. Restrict a field with {any: [1, 2, 4]} or {from: 1, to: 64, factor: 2}, also
    cluster, adapter and quantization. Plans within the uncertainty of the prediction are ranked as tied. If no plan
    fits, the nearest plans that fit are shown.

    \b
    Examples:
      sightline plan examples/plans/llama-3-70b-64xh100.yaml
      sightline plan examples/plans/llama-3.1-8b-rtx-4090.yaml --launch run
      sightline plan examples/serving/llama-3.1-70b-users.yaml --objective users
      sightline plan scenario.yaml --deadline 30d --objective cost
      sightline plan scenario.yaml --pareto time,cost --chart front.svg
      sightline plan scenario.yaml --budget 1M --price h100-sxm-80gb=2.10
      sightline plan scenario.yaml --launchable --html report.html
      sightline plan scenario.yaml --workers local --where search
      sightline plan scenario.yaml --set plan.micro_batch='{any: [1, 2]}' --json
    """
    _check(options)
    source = _source(options)
    with progress_bar(tables=options.workers is not None or options.where is not None) as progress:
        answer = _searched(source, options, progress)
        launched = _launched(answer, source, options, progress)
    commands = _next(answer, options, launched)
    output.warn((*answer.warnings, *(warning for best in answer.plans[:1] for warning in best.profile.warnings)))
    reports.write(_Report(answer, commands), options.reports)
    if options.where is not None:
        again = "; run the same command to resume" if answer.stopped else ""
        output.print_remark(f"wrote {options.where.rstrip('/')}/parts/*.parquet{again}")
    if options.launch is not None:
        save_launch(launched, options.launch, answer)
    end_if_stopped(progress)


def _check(options: PlanOptions) -> None:
    """Refuse what is wrong before the search."""
    options.reports.check()
    if options.objective is not None and options.pareto is not None:
        raise InputError("--objective cannot be combined with --pareto, which names its two objectives")
    if options.launch is not None:
        check_folder(options.launch)


def _source(options: PlanOptions) -> object:
    """What the scenario is read from; standard input is read here, once."""
    if options.file != "-":
        _check_file(options.file)
        return options.file
    from sightline.loading.sources import read_source

    return read_source("-")


def _check_file(file: str) -> None:
    """Refuse no file, and a model in place of one, with what a scenario looks like."""
    if not file.strip():
        raise InputError("FILE is missing; give a scenario file, such as `sightline plan scenario.yaml`")
    if "\n" in file or Path(file).suffix in (".yaml", ".yml", ".json", ".csv") or Path(file).exists():
        return
    from sightline import catalog

    model = catalog.name_of("models", file)
    if model in catalog.names("models"):
        raise InputError(f"{file} is a model; give a scenario file, such as {_scenario_of(model)}")


def _scenario_of(model: str) -> str:
    """A scenario of a model, as short as one is."""
    work = "{task: pretrain, global_batch: 256, sequence_length: 4096}"
    return f"{{model: {model}, cluster: 8x h100-sxm-80gb, workload: {work}, plan: {{framework: megatron}}}}"


def _launched(answer: "PlanAnswer", source: object, options: PlanOptions, progress: "Progress") -> Launched:
    """The first plan that can be launched, if one was asked for: searched for alone where no plan of the answer can."""
    if options.launch is None:
        return Launched()
    is_done = options.launchable or answer.stopped or not answer.plans
    if is_done or answer.plans[0].profile.task.name != "training":
        return first_launched(answer, None)
    alone = replace(options, launchable=True, top="1", pareto=None, where=None)
    return first_launched(answer, lambda: _searched(source, alone, progress))


def _searched(source: object, options: PlanOptions, progress: "Progress") -> "PlanAnswer":
    """Return what the search finds; a wrong value is refused under the name of its option."""
    from sightline.planning.search import plan as best_plans

    known = None
    if options.anchor:
        from sightline.anchors import anchored

        known = anchored(options.anchor, options.store)
    given: dict[str, Any] = {} if options.objective is None else {"objective": options.objective}
    return best_plans(
        source,
        **given,
        pareto=_listed(options.pareto),
        top=options.first,
        max_memory=options.max_memory,
        launchable=options.launchable,
        devices=_listed(options.devices) or (),
        deadline=options.deadline,
        budget=options.budget,
        ttft=options.ttft,
        tpot=options.tpot,
        think_time=options.think_time,
        prices=options.price or (),
        availability=options.availability,
        anchor=known,
        overrides=options.settings or (),
        workers=options.workers,
        where=options.where,
        progress=progress,
    )


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


@dataclass(frozen=True)
class _Report(Report):
    answer: "PlanAnswer"
    commands: Commands

    def document(self) -> Any:
        from sightline.planning.answer import launches, plans_to_dict

        return plans_to_dict(self.answer, launches(self.answer))

    def tables(self) -> Any:
        from sightline.report.terminal.plan import plan_text

        return [plan_text(self.answer, self.commands)]

    def csv(self) -> str:
        from sightline.report.plans.csv import plans_to_csv

        return plans_to_csv(self.answer)

    def chart(self, *room: Any) -> dict[str, Any]:
        from sightline.report.charts.plan import plan_chart

        return plan_chart(self.answer, *room)

    def charted(self) -> "PlanAnswer":
        return self.answer

    def page(self, command: str) -> str:
        from sightline.report.pages.plans import plan_page

        return plan_page(self.answer, self.commands, command=command)

    def as_markdown(self, command: str) -> str:
        from sightline.report.markdown.answers import plan_markdown

        return plan_markdown(self.answer, command=command)


def _load_of(profile: "Profile", options: PlanOptions) -> dict[str, Any]:
    """The settings of a load that its file may lack: limits given as options, and as many requests as a plan took."""
    limits = {"ttft": options.ttft, "tpot": options.tpot}
    stated: dict[str, Any] = {f"workload.slo.{key}": limit for key, limit in limits.items() if limit is not None}
    shape = profile.scenario.workload.requests
    return stated | ({} if shape is None else {"workload.requests.count": int(shape.count)})


def _next(answer: "PlanAnswer", options: PlanOptions, launched: Launched) -> Commands:
    """What to try next, each with the command that does it; nothing for a question from stdin."""
    if not answer.plans or options.file == "-":
        return []
    from sightline.launching.launch import starting
    from sightline.loading.sources import as_options
    from sightline.report.plans.sentences import can_be_set, most_surely, settings

    found: list[tuple[str, str]] = []
    best = next((one for one in answer.plans if one.launchable and can_be_set(answer, one)), None)
    if launched.launch is not None:
        found.append((f"run {launched.named}", starting(launched.launch, options.launch or "")))
    if best is not None and best.profile.task.name == "serving":
        stated = as_options(_load_of(best.profile, options))
        alone = " ".join([options.as_asked("simulate"), *stated, *settings(answer, best), "--capacity"])
        found.append((f"see the latency of plan {best.rank} at every request rate", alone))
    elif best is not None:
        alone = " ".join([options.as_asked("predict"), *settings(answer, best)])
        found.append((f"see where the time and memory of plan {best.rank} go", alone))
    if getattr(answer.plans[0].profile.scenario.workload, "continuous", True) is False:
        found.append(("search plans for a steady load", options.again("--set", "workload.continuous=true")))
    if not answer.plans[0].launchable:
        found.append(("search only launchable plans", options.again("--launchable")))
    elif launched.launch is None:
        found.append(("write the launch command", options.again("--launch", "run")))
    if answer.plans[0].profile.tight and options.max_memory is None:
        found.append(
            (
                "search only plans that fit with certainty",
                options.again("--max-memory", most_surely(answer.plans[0].profile)),
            )
        )
    if options.reports.chart is None and options.reports.html is None:
        found.append(("write a report with tables and charts", options.again("--html", "plan.html")))
    return found
