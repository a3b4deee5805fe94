"""Scenario files measured task by task; answers in the order they were asked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sightline.cli.measure.options import FILES, MeasureOptions, refuse_idle
from sightline.cli.progress_bar import progress_bar
from sightline.errors import InputError, WorkError, nearest

if TYPE_CHECKING:
    from sightline.measurement.processes.suite import Measured, OnStep, Serving, Settings
    from sightline.runs import Store


def measure_files(options: MeasureOptions, store: "Store", on_step: "OnStep") -> "list[Measured]":
    """Measure all scenarios of the files; on a node that only follows another, nothing is answered.

    Raises:
        InputError: A file or an option is wrong, or this machine cannot do what a scenario asks.
        WorkError: Something failed, and nothing could be measured.
    """
    from sightline.loading import load_all
    from sightline.measurement.measure import measure_scenarios
    from sightline.measurement.processes.suite import complain, nodes_of
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
    nodes = nodes_of(options.nnodes, options.node_rank, options.rendezvous)
    if nodes.count > 1 and len(by_task[Scenario]) < len(scenarios):
        raise InputError("workload.task must be pretrain or finetune to measure on several nodes")
    if nodes.rank > 0:
        _follow(list(by_task[Scenario].values()), settings_of(options))
        return []
    with progress_bar(stops=False) as progress:
        settings = settings_of(options)
        for kind in (OperatorScenario, GenerationScenario, ServingScenario, Scenario):
            if asked := by_task[kind]:
                answered = measure_scenarios(list(asked.values()), store, settings, on_step=on_step, progress=progress)
                if kind is Scenario:
                    _check_trainings(answered)
                else:
                    complain([one.run for one in answered])
                measured |= zip(asked, answered, strict=True)
    return [measured[i] for i in range(len(scenarios))]


def settings_of(options: MeasureOptions) -> "Settings":
    """Return how scenarios are measured."""
    from sightline.measurement.processes.suite import LEVELS, QUICK, Effort, Settings, nodes_of

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
    if problems:
        raise InputError(problems)
    stated: dict[str, Any] = {
        "steps": options.steps,
        "warm_up": options.warmup,
        "repeats": options.repeats,
        "levels": None if levels is None else tuple(levels),
        "limit_s": options.time_limit,
    }
    effort = replace(QUICK if options.quick else Effort(), **{k: v for k, v in stated.items() if v is not None})
    nodes = nodes_of(options.nnodes, options.node_rank, options.rendezvous)
    return Settings(
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
    from sightline.measurement.processes.suite import Serving

    stated: dict[str, Any] = {
        "url": options.url,
        "model": options.served_model,
        "chat": options.chat,
        "command": options.engine_command,
        "key_variable": options.api_key_env,
        "warm_up": options.warmup,
        "stall_s": options.stall,
    }
    return Serving(**{key: value for key, value in stated.items() if value is not None})


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


def _follow(scenarios: list[Any], settings: "Settings") -> None:
    from sightline.measurement.training.case import follow

    failed = follow(scenarios, settings)
    if failed:
        raise WorkError("\n".join(failed))
