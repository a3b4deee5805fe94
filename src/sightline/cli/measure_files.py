"""Scenario files measured task by task; answers in the order they were asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.measure_options import FILES, refuse_idle
from sightline.errors import InputError, WorkError, nearest

if TYPE_CHECKING:
    from sightline.measurement.generation.runs import MeasuredGeneration
    from sightline.measurement.operators.runs import Measured as MeasuredOperator
    from sightline.measurement.processes.suite import Step
    from sightline.measurement.training.runs import MeasuredTraining, Settings
    from sightline.runs import Store

    Measured = MeasuredOperator | MeasuredGeneration | MeasuredTraining


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What options say about how scenarios are measured; None leaves it to the task."""

    implementation: str | None = None
    weights: str | None = None
    quick: bool = False
    levels: str | None = None
    steps: int | None = None
    warm_up: int | None = None
    repeats: int | None = None
    time_limit_s: float | None = None
    force: bool = False
    nnodes: int | None = None
    node_rank: int | None = None
    rendezvous: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    """All options as they were given, to refuse those that no scenario has a use for."""


def measure_files(
    files: Sequence[str],
    settings: Sequence[str],
    sweeps: Sequence[str],
    store: "Store",
    wishes: Wishes,
    on_step: "Callable[[Step, Callable[[], None]], None]",
) -> "list[Measured]":
    """Measure all scenarios of the files; on a node that only follows another, nothing is answered.

    Raises:
        InputError: A file or an option is wrong, or this machine cannot do what a scenario asks.
        WorkError: Something failed, and nothing could be measured.
    """
    from sightline.loading import load_all
    from sightline.measurement.training.nodes import nodes_of
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario

    scenarios: list[Any] = load_all(list(files), list(settings), list(sweeps))
    by_task = {
        kind: {i: s for i, s in enumerate(scenarios) if isinstance(s, kind)}
        for kind in (Scenario, GenerationScenario, OperatorScenario)
    }
    refuse_idle(wishes.options, [task for task, asked in zip(FILES, by_task.values(), strict=True) if asked])
    measured: dict[int, Measured] = {}
    nodes = nodes_of(wishes.nnodes, wishes.node_rank, wishes.rendezvous)
    if nodes.count > 1 and len(by_task[Scenario]) < len(scenarios):
        raise InputError("several nodes measure training together; workload.task must be pretrain or finetune")
    if nodes.rank > 0:
        _follow(list(by_task[Scenario].values()), training_settings(wishes))
        return []
    with output.progress(len(scenarios), "measuring", least=2) as advance:

        def tell(step: "Step") -> None:
            on_step(step, advance)

        for kind, run in ((OperatorScenario, _operators), (GenerationScenario, _generations), (Scenario, _trainings)):
            if by_task[kind]:
                measured |= zip(by_task[kind], run(list(by_task[kind].values()), store, wishes, tell), strict=True)
    return [measured[i] for i in range(len(scenarios))]


def training_settings(wishes: Wishes) -> "Settings":
    """Return how training is measured."""
    from sightline.measurement.training.nodes import nodes_of
    from sightline.measurement.training.runs import QUICK, Effort, Settings
    from sightline.measurement.training.times import LEVELS

    problems = [
        f"{option} is {value}; allowed: {least} or more"
        for option, value, least in (
            ("--steps", wishes.steps, 1),
            ("--warmup", wishes.warm_up, 0),
            ("--repeats", wishes.repeats, 1),
            ("--time-limit", wishes.time_limit_s, 1),
        )
        if value is not None and value < least
    ]
    levels = None if wishes.levels is None else [level.strip() for level in wishes.levels.split(",")]
    problems += [
        f"--level is '{level}'; allowed: {', '.join(LEVELS)}{nearest(level, LEVELS)}"
        for level in levels or ()
        if level not in LEVELS
    ]
    if problems:
        raise InputError(problems)
    stated: dict[str, Any] = {
        "steps": wishes.steps,
        "warm_up": wishes.warm_up,
        "repeats": wishes.repeats,
        "levels": None if levels is None else tuple(levels),
        "limit_s": wishes.time_limit_s,
    }
    effort = replace(QUICK if wishes.quick else Effort(), **{k: v for k, v in stated.items() if v is not None})
    nodes = nodes_of(wishes.nnodes, wishes.node_rank, wishes.rendezvous)
    return Settings(effort=effort, weights=wishes.weights, force=wishes.force, nodes=nodes)


def _operators(scenarios: list[Any], store: "Store", wishes: Wishes, tell: Any) -> "Sequence[Measured]":
    from sightline.measurement.operators.runs import measure_scenarios

    return measure_scenarios(scenarios, store, implementation=wishes.implementation, quick=wishes.quick, on_step=tell)


def _generations(scenarios: list[Any], store: "Store", wishes: Wishes, tell: Any) -> "Sequence[Measured]":
    from sightline.measurement.generation.runs import measure_generations

    return measure_generations(
        scenarios,
        store,
        implementation=wishes.implementation,
        weights=wishes.weights,
        quick=wishes.quick,
        force=wishes.force,
        on_step=tell,
    )


def _trainings(scenarios: list[Any], store: "Store", wishes: Wishes, tell: Any) -> "Sequence[Measured]":
    """Measure training; how a scenario ended is a result, unless none was measured at all."""
    from sightline.measurement.processes.case import was_refused
    from sightline.measurement.training.runs import measure_trainings

    measured = measure_trainings(scenarios, store, training_settings(wishes), on_step=tell)
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
