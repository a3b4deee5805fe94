"""``sightline measure``: the same scenario, for real, on the machine at hand.

Options that what is measured has no use for are refused, not left unread.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from sightline.cli import output, reports
from sightline.cli.options import RunStore, Settings, Sweeps, argument, only, option
from sightline.cli.progress_bar import progress_bar
from sightline.cli.reports import ProfilesReport, Report, ReportOptions
from sightline.errors import InputError, WorkError, nearest, refuse

if TYPE_CHECKING:
    from sightline.measurement.processes.cases import Measured, OnStep, Serving, Step
    from sightline.measurement.processes.cases import Settings as SuiteSettings
    from sightline.runs import Store

TRAINING, GENERATION, SERVING, OPERATOR = "training", "generation", "serving", "single operators"
FILES = (TRAINING, GENERATION, SERVING, OPERATOR)
STANDARD_SUITE, PAPER_SUITE = "standard", "2311.03687"
SUITES = (STANDARD_SUITE, PAPER_SUITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReports(ReportOptions):
    """The forms in which what was measured is asked for."""

    out: str | None = option(None, "Write the results to a .json file for `calibrate --from`.", metavar="FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """What is measured and how; None leaves it to the task."""

    files: Annotated[
        list[str] | None, argument("Scenario files (YAML, JSON or CSV). Use - to read from stdin.", "[FILE...]")
    ] = None
    suite: str | None = option(
        None,
        "Measure a suite: `standard` (operators for `calibrate`) or `2311.03687` (the grid of that paper).",
        metavar="NAME",
    )
    quick: bool = option(False, "Use fewer repeats and half of the suite.")
    rerun: bool = option(False, "Ignore stored results of the suite and measure again.")
    implementation: str | None = option(
        None,
        "PyTorch implementation: flash, math, eager, ... (attention); fused, foreach, loop (adam); "
        "host-to-device, ... (copy); dynamic, static, compiled, eager (generation).",
        metavar="NAME",
    )
    weights: str | None = option(None, "Load the checkpoint in this folder. Default: random weights.", metavar="DIR")
    level: str | None = option(
        None,
        "Levels to measure in training: end-to-end, module, operator. Default: end-to-end,module.",
        metavar="LEVEL,...",
    )
    steps: int | None = option(None, "Timed training steps per run. Default: 100.", metavar="N")
    warmup: int | None = option(
        None, "Warm-up steps before timing (default: 30), or warm-up requests when serving (default: 4).", metavar="N"
    )
    repeats: int | None = option(None, "Independent training runs, each in a new process. Default: 3.", metavar="N")
    time_limit: float | None = option(
        None, "Time limit per training or serving scenario. Default: 3600.", metavar="SECONDS"
    )
    force: bool = option(False, "Run plans that are predicted not to fit in memory.")
    url: str | None = option(
        None, "Send requests to this OpenAI-compatible server. Default: start the plan's engine.", metavar="URL"
    )
    api_key_env: str | None = option(
        None, "Environment variable that holds the server's API key. The key is never stored.", metavar="VAR"
    )
    served_model: str | None = option(None, "Model name on the server. Default: the only model listed.", metavar="NAME")
    chat: bool = option(False, "Use the chat endpoint instead of completions.")
    engine_command: str | None = option(
        None, "Command that starts the engine; {model} is the model folder and {port} the port.", metavar="COMMAND"
    )
    stall: float | None = option(
        None,
        "Abandon a request after this time without output. Default: 120, once output has begun.",
        metavar="SECONDS",
    )
    nnodes: int | None = option(None, "Number of nodes. Not needed with torchrun.", metavar="N")
    node_rank: int | None = option(None, "Rank of this node, starting at 0.", metavar="N")
    rendezvous: str | None = option(None, "Address of node 0.", metavar="HOST:PORT")
    dtype: str = option("fp32", "Data type of the suite: fp32, bf16 or fp16.", metavar="NAME")
    cluster: str | None = option(
        None, "Cluster of the suite, such as '8x h100-sxm-80gb'. Default: this-machine.", metavar="CLUSTER"
    )
    reports: Annotated[MeasureReports, only("as_json", "as_csv", "verbose", "out", "charts", "html", "markdown")] = (
        MeasureReports()
    )
    store: RunStore = None
    settings: Settings = None
    sweeps: Sweeps = None

    def given(self, name: str) -> bool:
        """Whether the user gave the option of this field."""
        value = getattr(self if hasattr(self, name) else self.reports, name)
        return value not in (None, [], "fp32") and value is not False


STANDARD_NAME, PAPER_NAME = (f"--suite {name}" for name in SUITES)
USED_BY: Mapping[str, Collection[str]] = {
    "implementation": (GENERATION, OPERATOR),
    "weights": (TRAINING, GENERATION, SERVING),
    **dict.fromkeys(("level", "steps", "repeats"), (TRAINING,)),
    **dict.fromkeys(("warmup", "time_limit"), (TRAINING, SERVING)),
    **dict.fromkeys(("url", "api_key_env", "served_model", "chat", "engine_command", "stall"), (SERVING,)),
    "force": (TRAINING, GENERATION),
    **dict.fromkeys(("nnodes", "node_rank", "rendezvous"), (TRAINING,)),
    **dict.fromkeys(("settings", "sweeps"), FILES),
    **dict.fromkeys(("dtype", "cluster"), (STANDARD_NAME,)),
    **dict.fromkeys(("as_csv", "out"), (*FILES, STANDARD_NAME)),
    "rerun": (STANDARD_NAME, PAPER_NAME),
}
"""What each option is for, by its field, as far as it is not for everything."""
OPTION_NAMES = {"settings": "--set", "sweeps": "--sweep", "as_csv": "--csv"}


def refuse_idle(options: MeasureOptions, measured: Iterable[str]) -> None:
    """Raise `InputError` for every option that is given and that nothing of what is measured has a use for."""
    what = list(dict.fromkeys(measured))
    idle = [field for field, users in USED_BY.items() if options.given(field) and not set(users) & set(what)]
    if idle:
        raise InputError(
            [
                f"{OPTION_NAMES.get(field, '--' + field.replace('_', '-'))} applies to "
                f"{', '.join(USED_BY[field])}, not to {', '.join(what)}"
                for field in idle
            ]
        )


def measure_files(options: MeasureOptions, store: "Store", on_step: "OnStep") -> "list[Measured]":
    """Measure all scenarios of the files; on a node that only follows another, nothing is answered.

    Raises:
        InputError: A file or an option is wrong, or this machine cannot do what a scenario asks.
        WorkError: Something failed, and nothing could be measured.
    """
    from sightline.loading import load_all
    from sightline.measurement.measure import measure_scenarios
    from sightline.measurement.processes.cases import complain
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario

    scenarios: list[Any] = load_all(options.files or [], options.settings or [], options.sweeps or [])
    by_task = {
        kind: {i: s for i, s in enumerate(scenarios) if isinstance(s, kind)}
        for kind in (Scenario, GenerationScenario, ServingScenario, OperatorScenario)
    }
    if sum(map(len, by_task.values())) < len(scenarios):
        raise InputError("workload.task is 'serve'; measure supports pretrain, finetune, generate and operator")
    refuse_idle(options, [task for task, asked in zip(FILES, by_task.values(), strict=True) if asked])
    measured: dict[int, Measured] = {}
    settings = settings_of(options)
    if settings.nodes.count > 1 and len(by_task[Scenario]) < len(scenarios):
        raise InputError("workload.task must be pretrain or finetune to measure on several nodes")
    if settings.nodes.rank > 0:
        from sightline.measurement.training.runs import follow

        trainings: list[Any] = list(by_task[Scenario].values())
        if failed := follow(trainings, settings):
            raise WorkError("\n".join(failed))
        return []
    with progress_bar(stops=False, stored=store if len(scenarios) > 1 else None) as progress:
        for kind in (OperatorScenario, GenerationScenario, ServingScenario, Scenario):
            if asked := by_task[kind]:
                answered = measure_scenarios(list(asked.values()), store, settings, on_step=on_step, progress=progress)
                if kind is Scenario:
                    _check_trainings(answered)
                else:
                    complain([one.run for one in answered])
                measured |= zip(asked, answered, strict=True)
    return [measured[i] for i in range(len(scenarios))]


def settings_of(options: MeasureOptions) -> "SuiteSettings":
    """Return how scenarios are measured."""
    from sightline.measurement.processes.cases import LEVELS, QUICK, Effort, nodes_of
    from sightline.measurement.processes.cases import Settings as SuiteSettings

    problems = [
        f"{option} is {value}; allowed: {least} or more"
        for option, value, least in (
            ("--steps", options.steps, 1),
            ("--warmup", options.warmup, 0),
            ("--repeats", options.repeats, 1),
            ("--time-limit", options.time_limit, 1),
            ("--stall", options.stall, 0.1),
        )
        if value is not None and value < least
    ]
    levels = None if options.level is None else [level.strip() for level in options.level.split(",")]
    problems += [
        f"--level is '{level}'; allowed: {', '.join(LEVELS)}{nearest(level, LEVELS)}"
        for level in levels or ()
        if level not in LEVELS
    ]
    problems += _of_serving(options)
    refuse(problems)
    stated = {
        "steps": options.steps,
        "warm_up": options.warmup,
        "repeats": options.repeats,
        "levels": None if levels is None else tuple(levels),
        "limit_s": options.time_limit,
    }
    effort = replace(QUICK if options.quick else Effort(), **_without_none(stated))
    nodes = nodes_of(options.nnodes, options.node_rank, options.rendezvous)
    return SuiteSettings(
        implementation=options.implementation,
        quick=options.quick,
        effort=effort,
        weights=options.weights,
        force=options.force,
        nodes=nodes,
        serving=_serving(options),
    )


def _of_serving(options: MeasureOptions) -> list[str]:
    """What is wrong with the options of serving."""
    url, problems = options.url, []
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        problems.append(f"--url is '{url}'; allowed: a URL such as http://localhost:8000")
    elif url is not None and (urlsplit(url).username or urlsplit(url).password):
        problems.append("--url contains credentials, which would be stored; use --api-key-env")
    if url is not None and options.engine_command is not None:
        problems.append("--engine-command cannot be combined with --url")
    return problems


def _serving(options: MeasureOptions) -> "Serving":
    """Which server a load is sent to, and how."""
    from sightline.measurement.processes.cases import Serving

    stated = {
        "url": options.url,
        "model": options.served_model,
        "chat": options.chat,
        "command": options.engine_command,
        "key_variable": options.api_key_env,
        "warm_up": options.warmup,
        "stall_s": options.stall,
    }
    return Serving(**_without_none(stated))


def _without_none(stated: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stated.items() if value is not None}


def _check_trainings(measured: "Sequence[Measured]") -> None:
    """Raise why no training scenario was measured, if none was: how a single one ended is a result."""
    from sightline.measurement.processes.isolation import was_refused

    if any(m.profile is not None for m in measured):
        return
    if all(m.run.status == "unsupported" or was_refused(m.run.reason) for m in measured):
        raise InputError(list(dict.fromkeys(m.run.reason for m in measured)))
    raise WorkError("\n".join(f"{m.run.name}: {outcome(m.run)}" for m in measured))


def outcome(run: Any) -> str:
    """Return how a run that was not measured ended, in words."""
    return f"{run.status.replace('_', ' ')}: {run.reason}"


def measure(options: MeasureOptions) -> None:
    """Measure training, generation, serving or single operators, and report the same keys as a prediction.

    The cluster must be this-machine (its CPU) or the GPUs of this machine. Each scenario runs in a separate process and
    is stored as a run. Serving scenarios start the plan's engine, or use the server at --url. Requires PyTorch: install
    the extra `measure`.

    \b
    Examples:
      sightline measure examples/measure-tiny-llama.yaml --quick
      sightline measure examples/tiny-llama-generate-this-machine.yaml --quick
      sightline measure examples/tiny-llama-serve-this-machine.yaml --url http://localhost:8000 --api-key-env SERVER_KEY
      sightline measure --suite standard --quick --out operators.json
    """
    _check(options)
    from sightline.runs import open_store

    if options.suite in SUITES:
        refuse_idle(options, [f"--suite {options.suite}"])
    if options.suite == PAPER_SUITE:
        _paper_suite(open_store(options.store), options)
        return
    missing: list[str] = []
    measured: Sequence[Measured]
    if options.suite is None:
        measured = measure_files(options, open_store(options.store), _tell)
        if not measured:
            return
    else:
        measured, missing = _measure_suite(options)
    _print(measured, options)
    _not_measured(missing)


def _check(options: MeasureOptions) -> None:
    """Refuse, before anything runs, options that contradict each other."""
    options.reports.check({"--out": options.reports.out})
    if options.suite == PAPER_SUITE and (options.reports.markdown or options.reports.charts):
        raise InputError(f"--suite {PAPER_SUITE} supports only --html and --json")
    if not options.files and options.suite is None:
        raise InputError("FILE is missing; needed: scenario files, or --suite")
    if options.files and options.suite is not None:
        raise InputError("--suite cannot be combined with scenario files")


def _measure_suite(options: MeasureOptions) -> "tuple[list[Measured], list[str]]":
    from sightline.measurement.machine import CPU_DTYPES
    from sightline.measurement.operators.operator_suite import measure_suite, standard_suite
    from sightline.runs import open_store

    suite, dtype, cluster = str(options.suite), options.dtype, options.cluster
    if suite not in SUITES:
        raise InputError(f"--suite is '{suite}'; allowed: {', '.join(SUITES)}{nearest(suite, SUITES)}")
    if dtype not in CPU_DTYPES:
        raise InputError(f"--dtype is '{dtype}'; allowed: {', '.join(CPU_DTYPES)}{nearest(dtype, CPU_DTYPES)}")
    scenarios = standard_suite(dtype, quick=options.quick, cluster=cluster)
    store = open_store(options.store)
    with progress_bar(stops=False, stored=store) as progress:
        return measure_suite(
            suite,
            scenarios,
            store,
            quick=options.quick,
            brief=cluster is None,
            rerun=options.rerun,
            on_step=_tell,
            progress=progress,
        )


def results_of_suite(store: str | None, *, dtype: str, quick: bool, rerun: bool) -> list[dict[str, Any]]:
    """Measure the standard suite and return its results under the documented keys; says what could not be measured."""
    measured, missing = _measure_suite(
        MeasureOptions(suite=STANDARD_SUITE, dtype=dtype, store=store, quick=quick, rerun=rerun)
    )
    _not_measured(missing)
    return [_result(m) for m in measured]


def _not_measured(sentences: "Iterable[str]") -> None:
    for sentence in sentences:
        output.print_remark(f"not measured: {sentence}")


def _tell(step: "Step") -> None:
    """Say what disturbed a case that has ended."""
    if step.run is not None and step.run.status == "ok" and step.run.environment.get("contended"):
        for why in step.run.environment["contention"]:
            output.print_remark(f"warning: {step.case.name}: {why}")


def _print(measured: "Sequence[Measured]", options: MeasureOptions) -> None:
    _not_measured(f"{m.run.name}: {outcome(m.run)}" for m in measured if m.profile is None)
    results = [_result(m) for m in measured] if options.reports.as_json or options.reports.out else []
    if options.reports.out is not None:
        output.write_file(options.reports.out, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    profiles = [m.profile for m in measured if m.profile is not None]
    report = ProfilesReport(answer=profiles, each=lambda _: results, is_list=options.suite is not None)
    if profiles:
        reports.write(report, options.reports)
    else:
        report.show(options.reports)


def _result(measured: "Measured") -> dict[str, Any]:
    """The result keys, the run they are stored in, and what it ran on."""
    run = measured.run
    if measured.profile is None:
        return {
            "scenario": dict(run.scenario),
            "source": "measured",
            "fits": run.status != "out_of_memory",
            "status": run.status,
            "reason": run.reason,
            "run": run.id,
        }
    return measured.profile.to_dict() | {
        "run": run.id,
        "command": list(run.command),
        "environment": dict(run.environment),
    }


def _paper_suite(store: "Store", options: MeasureOptions) -> None:
    """Measure the grid, write its report and print its tables."""
    from sightline.measurement.machine import hardware_at_hand
    from sightline.reproduction.arxiv_2311_03687.measured import measured_suite, suite_to_list

    hardware = hardware_at_hand()
    with progress_bar(stops=False, stored=store) as progress:
        suite = measured_suite(hardware, store, quick=options.quick, rerun=options.rerun, progress=progress)
    for one in (answered for _, cells in suite for answered in cells if answered.refused):
        output.print_remark(f"not predicted: {one.cell.row}, {one.cell.column}: {one.refused}")
    title = f"The study of arXiv {PAPER_SUITE} on {hardware.cluster(hardware.count)}"
    documents = lambda: suite_to_list(suite)  # noqa: E731 - a form like the others
    report = Report(kind="suite", answer=suite, documents=documents, says={"title": title, "machine": _machine()})
    reports.write(report, options.reports)


def _machine() -> list[str]:
    """Sentences about what the suite ran on."""
    from sightline.measurement.machine import record_environment

    environment = record_environment()
    gpus, cpu = environment["gpus"], environment["cpu"]
    kinds = ", ".join(dict.fromkeys(str(gpu["name"]) for gpu in gpus))
    what = f"{len(gpus)} x {kinds}" if gpus else f"{cpu['model']}, {cpu['cores']} cores"
    return [what, ", ".join(f"{name} {version}" for name, version in environment["libraries"].items())]
