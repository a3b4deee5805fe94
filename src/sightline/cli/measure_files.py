"""Scenario files measured task by task; answers in the order they were asked for."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.measure_options import FILES, MeasureOptions, refuse_idle
from sightline.errors import InputError, WorkError, nearest

if TYPE_CHECKING:
    from sightline.measurement.processes.results import Measured
    from sightline.measurement.processes.suite import Step
    from sightline.measurement.training.runs import Settings
    from sightline.runs import Store


def measure_files(
    options: MeasureOptions, store: "Store", on_step: "Callable[[Step, Callable[[], None]], None]"
) -> "list[Measured]":
    """Measure all scenarios of the files; on a node that only follows another, nothing is answered.

    Raises:
        InputError: A file or an option is wrong, or this machine cannot do what a scenario asks.
        WorkError: Something failed, and nothing could be measured.
    """
    from sightline.loading import load_all
    from sightline.measurement.training.nodes import nodes_of
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario

    scenarios: list[Any] = load_all(options.files or [], options.settings or [], options.sweeps or [])
    by_task = {
        kind: {i: s for i, s in enumerate(scenarios) if isinstance(s, kind)}
        for kind in (Scenario, GenerationScenario, OperatorScenario)
    }
    refuse_idle(options, [task for task, asked in zip(FILES, by_task.values(), strict=True) if asked])
    measured: dict[int, Measured] = {}
    nodes = nodes_of(options.nnodes, options.node_rank, options.rendezvous)
    if nodes.count > 1 and len(by_task[Scenario]) < len(scenarios):
        raise InputError("several nodes measure training together; workload.task must be pretrain or finetune")
    if nodes.rank > 0:
        _follow(list(by_task[Scenario].values()), training_settings(options))
        return []
    with output.progress(len(scenarios), "measuring", least=2) as advance:

        def tell(step: "Step") -> None:
            on_step(step, advance)

        for kind, run in ((OperatorScenario, _operators), (GenerationScenario, _generations), (Scenario, _trainings)):
            if by_task[kind]:
                measured |= zip(by_task[kind], run(list(by_task[kind].values()), store, options, tell), strict=True)
    return [measured[i] for i in range(len(scenarios))]


def training_settings(options: MeasureOptions) -> "Settings":
    """Return how training is measured."""
    from sightline.measurement.training.nodes import nodes_of
    from sightline.measurement.training.runs import QUICK, Effort, Settings
    from sightline.measurement.training.times import LEVELS

    problems = [
        f"{option} is {value}; allowed: {least} or more"
        for option, value, least in (
            ("--steps", options.steps, 1),
            ("--warmup", options.warmup, 0),
            ("--repeats", options.repeats, 1),
            ("--time-limit", options.time_limit, 1),
        )
        if value is not None and value < least
    ]
    levels = None if options.level is None else [level.strip() for level in options.level.split(",")]
    problems += [
        f"--level is '{level}'; allowed: {', '.join(LEVELS)}{nearest(level, LEVELS)}"
        for level in levels or ()
        if level not in LEVELS
    ]
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
    return Settings(effort=effort, weights=options.weights, force=options.force, nodes=nodes)


def _operators(scenarios: list[Any], store: "Store", options: MeasureOptions, tell: Any) -> "Sequence[Measured]":
    from sightline.measurement.operators.runs import measure_scenarios

    return measure_scenarios(scenarios, store, implementation=options.implementation, quick=options.quick, on_step=tell)


def _generations(scenarios: list[Any], store: "Store", options: MeasureOptions, tell: Any) -> "Sequence[Measured]":
    from sightline.measurement.generation.runs import Settings, measure_generations
    from sightline.measurement.processes.suite import complain

    settings = Settings(
        implementation=options.implementation, weights=options.weights, quick=options.quick, force=options.force
    )
    measured = measure_generations(scenarios, store, settings, on_step=tell)
    complain([one.run for one in measured])
    return measured


def _trainings(scenarios: list[Any], store: "Store", options: MeasureOptions, tell: Any) -> "Sequence[Measured]":
    """Measure training; how a scenario ended is a result, unless none was measured at all."""
    from sightline.measurement.processes.case import was_refused
    from sightline.measurement.training.runs import measure_trainings

    measured = measure_trainings(scenarios, store, training_settings(options), on_step=tell)
    if any(m.profile is not None for m in measured):
        return measured
    if all(m.run.status == "unsupported" or was_refused(m.run.reason) for m in measured):
        raise InputError(list(dict.fromkeys(m.run.reason for m in measured)))
    raise WorkError("\n".join(f"{m.run.name}: {outcome(m.run)}" for m in measured))


def outcome(run: Any) -> str:
    """Return how a run that was not measured ended, in words."""
    return f"{run.status.replace('_', ' ')}: {run.reason}"


def _follow(scenarios: list[Any], settings: "Settings") -> None:
    from sightline.measurement.training.runs import follow

    failed = follow(scenarios, settings)
    if failed:
        raise WorkError("\n".join(failed))
