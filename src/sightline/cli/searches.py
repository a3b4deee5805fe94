"""``sightline plan``: the best plans for what a scenario leaves open, and how the best of them is launched."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from sightline.cli import options as shared
from sightline.cli import output, reports
from sightline.cli.options import Anchors, RunStore, Settings, again, anchored_by, argument, first_of, option
from sightline.cli.output import try_next
from sightline.cli.progress_bar import end_if_stopped, progress_bar
from sightline.cli.reports import Report, ReportOptions
from sightline.errors import InputError, prefixed
from sightline.quantities import percent

if TYPE_CHECKING:
    from sightline.launching import Launch
    from sightline.planning.plan_answer import PlanAnswer, RankedPlan
    from sightline.profile import Profile
    from sightline.progress import Progress

_MOST_PROBLEMS = 3
"""Reasons for which plans cannot be launched that are printed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launched:
    """The plan that is launched, if there is one."""

    plan: "RankedPlan | None" = None
    launch: "Launch | None" = None


def first_launched(answer: "PlanAnswer", tool: str | None = None) -> Launched:
    """Return the first plan that its framework, or a tool, can run with how it is launched.

    Raises:
        InputError: The tool has no keys for any of the plans; what it has none for in the first.
    """
    from sightline.launching import write

    problems: list[InputError] = []
    for one in answer.plans:
        if not (one.launchable or tool):
            continue
        try:
            return Launched(plan=one, launch=write(one.profile.scenario, tool))
        except InputError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return Launched()


def save_launch(launched: Launched, folder: str, answer: "PlanAnswer") -> None:
    """Write the launch after the answer; where there is none, say why, which fails unless the search was stopped."""
    from sightline.answers.plan_sentences import obstacles
    from sightline.quantities import counted

    passed = answer.plans if launched.plan is None else answer.plans[: launched.plan.rank - 1]
    said = [
        f"plan{'s' * (not sentence.partition(' not ')[0].isdigit())} {sentence}"
        for sentence in obstacles(passed, _MOST_PROBLEMS)
    ]
    if launched.plan is None:
        none = f"none of the {counted(len(answer.plans), 'plan')} shown can be launched"
        said.append(none if answer.plans else "no plan found")
        said = [f"--launch: {problem}" for problem in said]
        if not answer.stopped:
            raise InputError(said)
    for problem in said:
        output.print_remark(problem)
    if launched.plan is None or launched.launch is None:
        return
    from sightline.launching import save

    script, *others = save(launched.launch, folder)
    files = f" and {counted(len(others), 'file')}" if others else ""
    named, behind = f"plan {launched.plan.rank}", _behind(launched, answer)
    output.print_remark(f"wrote {script}{files}: {named} with {launched.launch.framework}{behind}")
    for sentence in launched.launch.without_counterpart:
        output.print_remark(sentence)


def _behind(launched: Launched, answer: "PlanAnswer") -> str:
    """By how much the plan is behind the first one, where it is another of as large a batch."""
    first, one = answer.plans[0], launched.plan
    if one is None or one is first or answer.objective not in ("time", "cost", "energy", "memory"):
        return ""
    batches = {getattr(plan.profile.scenario.workload, "global_batch", None) for plan in (first, one)}
    if answer.pareto_axes or len(batches) > 1 or not first.value > 0:
        return ""
    from sightline.answers.plan_sentences import compared_by

    return f", whose {compared_by(answer)} is {percent(one.value / first.value - 1, 1)} above plan 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is looked for, where, and in which form it is answered."""

    file: Annotated[
        str | None,
        argument(
            "A scenario file (YAML or JSON), or none with --model and --cluster. Fields it leaves out are searched. - "
            "reads stdin.",
            "[FILE]",
        ),
    ] = None
    question: shared.Question = field(default_factory=shared.Question)
    objective: str | None = option(
        None,
        "Objective. Training: time (default), cost, energy, memory, batch. Generation: throughput (default), "
        "latency, interactivity, cost, energy, memory, users. Serving: goodput (default), cost, users, energy.",
        metavar="NAME",
    )
    pareto: str | None = option(
        None, "Find the Pareto-optimal plans for two objectives, such as time,cost.", metavar="X,Y"
    )
    top: str | None = option(
        None, "Show the best N plans, at most 1000. Default: 10; 5 for serving; 15 with --pareto.", metavar="N"
    )
    devices: str | None = option(
        None,
        "Devices to search instead of the scenario's: '64x NAME', '8..1024x NAME' (doubling), or a device name, "
        "which keeps the device count.",
        metavar="NAME,...",
    )
    max_memory: str | None = option(None, "Memory limit per device, such as '70 GB'.", metavar="SIZE")
    deadline: str | None = option(None, "Longest run time, such as 30d.", metavar="TIME")
    budget: str | None = option(None, "Highest cost of the run in USD, such as 1M.", metavar="USD")
    ttft: str | None = option(None, "Limit for time to first token, such as '300 ms'.", metavar="TIME")
    tpot: str | None = option(None, "Limit for time per output token, such as '10 ms'.", metavar="TIME")
    think_time: str | None = option(
        None, "Time a user takes between an answer and the next request, such as '30 s'.", metavar="TIME"
    )
    price: list[str] | None = option(
        None, "Override the catalog price of a device. Can be repeated.", metavar="NAME=USD_PER_HOUR"
    )
    availability: str | None = option(
        None,
        "Share of wall-clock time in which the run makes progress. Default: from the size of the cluster.",
        metavar="SHARE",
    )
    everything: bool = option(False, "Also search plans that cannot be launched, each with what prevents it.", "--all")
    launchable: bool = option(False, "Default; kept for compatibility.")
    launch: str | None = option(
        None, "Write the launch command and files of the best plan to this folder.", metavar="DIR"
    )
    tool: str | None = option(
        None,
        "With --launch, write them for llama-factory, axolotl, ms-swift or megatron-swift.",
        "--with",
        metavar="TOOL",
    )
    workers: str | None = option(
        None,
        "Where to run: `local`, `ray` or `dask`, with a worker count or cluster address, such as local:8 or "
        "dask:tcp://node0:8786. Default: this process.",
        metavar="KIND[:WHAT]",
    )
    where: str | None = option(
        None,
        "Save partial results as Parquet files, so that a stopped search can resume.",
        metavar="DIR|URL",
    )
    anchor: Anchors = None
    settings: Settings = None
    sweeps: shared.Sweeps = None
    reports: ReportOptions = field(default_factory=ReportOptions)
    store: RunStore = None

    @property
    def first(self) -> int | None:
        """How many plans are asked for; None for the usual number."""
        from sightline.planning.search import MOST_TOP

        return first_of(self.top, MOST_TOP)

    def stated(self) -> dict[str, Any]:
        """Return the texts that are given, by argument of `sightline.plan`."""
        return {name: value for name in _TEXTS if (value := getattr(self, name)) is not None}

    def as_asked(self, command: str) -> str:
        """Return a command for the same scenario."""
        same = again([self.file] if self.file else [], self.settings, self.sweeps, self.question)
        return shlex.join(["sightline", command, *same, *(w for one in self.anchor or () for w in ("--anchor", one))])

    def again(self, *more: str) -> str:
        """Return the command as it was typed, without what writes its answer, and with ``more``."""
        words = [word for name, value in self.stated().items() for word in (f"--{name.replace('_', '-')}", value)]
        words += [word for value in self.price or () for word in ("--price", value)]
        words += ["--all"] if self.everything and "--all" not in more else []
        return " ".join([self.as_asked("plan"), *map(shlex.quote, (*words, *more))])


_TEXTS = (
    *("objective", "pareto", "devices", "max_memory", "deadline", "budget", "ttft", "tpot", "think_time"),
    *("availability", "workers", "where"),
)
Commands = Sequence[tuple[str, str]]
"""What commands are for, and what to type."""


def plan(options: PlanOptions) -> None:
    """Find the best plans for the fields a scenario leaves open, such as parallelism, micro-batch and recomputation.

    Supports training, generation and serving; for serving, the most promising layouts are simulated under the load.
    Only plans that the framework or engine can launch are searched and counted; --all adds the others.
    Fields set in the scenario stay fixed. Restrict a field with {any: [1, 2, 4]} or {from: 1, to: 64, factor: 2}, also
    cluster, adapter and quantization. Plans within the uncertainty of the prediction are ranked as tied. If no plan
    fits, the nearest plans that fit are shown.

    \b
    Examples:
      sightline plan --model llama-3.1-8b --cluster "64x h100" --tokens 2T
      sightline plan --model qwen3-8b --cluster "1x h100" --slo "tpot<=50ms"
      sightline plan examples/plans/llama-3-70b-64xh100.yaml --deadline 30d
      sightline plan examples/plans/llama-3.1-8b-rtx-4090.yaml --launch run
      sightline plan examples/serving/llama-3.1-70b-users.yaml --objective users
    """
    _check(options)
    asked = _source(options)
    with progress_bar(tables=options.workers is not None or options.where is not None, lines=True) as progress:
        answer = _searched(asked, options, progress)
    launched = Launched() if options.launch is None else first_launched(answer, options.tool)
    output.warn((*answer.warnings, *(warning for best in answer.plans[:1] for warning in best.profile.warnings)))
    from sightline.planning.plan_answer import launches, plans_to_dict

    documents = lambda: plans_to_dict(answer, launches(answer))  # noqa: E731 - a form like the others
    report = Report(kind="plans", answer=answer, documents=documents, in_full=options.top is not None)
    report.says = {"commands": (commands := _next(answer, options, launched))}
    reports.write(report, options.reports)
    if options.where is not None:
        again = "; run the same command to resume" if answer.stopped else ""
        output.print_remark(f"wrote {options.where.rstrip('/')}/parts/*.parquet{again}")
    if options.launch is not None:
        save_launch(launched, options.launch, answer)
    end_if_stopped(progress)
    if commands and options.reports.are_tables and not (report.in_full or options.reports.verbose):
        try_next(command=commands[0][1])


def _check(options: PlanOptions) -> None:
    """Refuse what is wrong before the search."""
    options.reports.check()
    if options.objective is not None and options.pareto is not None:
        raise InputError("--objective cannot be combined with --pareto, which names its two objectives")
    if options.tool is not None:
        from sightline.launching.training.stack_launches import check_tool

        check_tool(options.tool)
        if options.launch is None:
            raise InputError("--with names the tool of a launch: add --launch DIR")
    if options.launch is not None:
        from sightline.launching.launch import check_folder

        with prefixed("--launch: "):
            check_folder(options.launch)


def _source(options: PlanOptions) -> tuple[object, list[str]]:
    """What the scenario is read from, with its settings; standard input is read here, once."""
    file = options.file
    [source], settings = options.question.over(None if file is None else [file], options.settings)
    pairs = (one.partition("=") for one in options.sweeps or ())
    settings += [f"{key}={{any: [{values.strip('[]')}]}}" for key, _, values in pairs]
    if source != "-":
        return source, settings
    from sightline.loading.sources import read_source

    return read_source("-"), settings


def _searched(asked: tuple[object, list[str]], options: PlanOptions, progress: "Progress") -> "PlanAnswer":
    """Return what the search finds in a source with settings; a wrong value is refused under the name of its option."""
    from sightline.planning.search import plan as best_plans

    stated = options.stated()
    for name in {"pareto", "devices"} & stated.keys():
        stated[name] = [word.strip() for word in stated[name].split(",")]
    source, settings = asked
    return best_plans(
        source,
        **stated,
        top=options.first,
        launchable=not options.everything,
        prices=options.price or (),
        anchor=anchored_by(options.anchor, options.store),
        overrides=settings,
        progress=progress,
    )


def _load_of(profile: "Profile", options: PlanOptions) -> dict[str, Any]:
    """The settings of a load that its file may lack: limits given as options, and as many requests as a plan took."""
    limits = {"ttft": options.ttft, "tpot": options.tpot}
    stated: dict[str, Any] = {f"workload.slo.{key}": limit for key, limit in limits.items() if limit is not None}
    shape = profile.scenario.workload.requests
    return stated | ({} if shape is None else {"workload.requests.count": int(shape.count)})


def _next(answer: "PlanAnswer", options: PlanOptions, launched: Launched) -> Commands:
    """What to try next, each with the command that does it; nothing for a question from stdin."""
    from sightline.answers.plan_sentences import can_be_set, most_surely, settings, unlaunched

    if options.file == "-":
        return []
    if not answer.plans:
        also = [("search plans that cannot be launched too", options.again("--all"))]
        return also if unlaunched(answer) and not (answer.stopped or options.everything) else []
    from sightline.launching.launch import starting
    from sightline.loading.sources import with_settings

    found: list[tuple[str, str]] = []
    best = next(
        (one for one in answer.plans if can_be_set(answer, one) and (one.launchable or not options.everything)), None
    )
    if launched.plan is not None and launched.launch is not None:
        found.append((f"run plan {launched.plan.rank}", starting(launched.launch, options.launch or "")))
    if best is not None and best.profile.task.name == "serving":
        load = with_settings(options.as_asked("simulate"), _load_of(best.profile, options))
        alone = " ".join([load, *settings(answer, best), "--capacity"])
        found.append((f"see the latency of plan {best.rank} at every request rate", alone))
    elif best is not None:
        alone = " ".join([options.as_asked("predict"), *settings(answer, best)])
        found.append((f"see where the time and memory of plan {best.rank} go", alone))
    if getattr(answer.plans[0].profile.scenario.workload, "continuous", True) is False:
        found.append(("search plans for a steady load", options.again("--set", "workload.continuous=true")))
    if best is not None and best.launchable and launched.launch is None:
        found.append(("write the launch command", options.again("--launch", "run")))
    if answer.plans[0].profile.tight and options.max_memory is None:
        surely = options.again("--max-memory", most_surely(answer.plans[0].profile))
        found.append(("search only plans that fit with certainty", surely))
    if options.reports.chart is None and options.reports.html is None:
        found.append(("write a report with tables and charts", options.again("--html", "plan.html")))
    return found
