"""Cases of training: whether a scenario fits, and its repeats one after the other, each by new processes."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.loading import scenario_from_mapping
from sightline.measurement.machine.devices import machine_of, threads_asked
from sightline.measurement.machine.record import missing, require
from sightline.measurement.models.build import check_checkpoint, preload
from sightline.measurement.processes.case import Emit, OutOfMemoryError, UnsupportedCaseError
from sightline.measurement.processes.nodes import rendezvous_of
from sightline.measurement.processes.ranks import Ranks, run_ranks
from sightline.measurement.processes.results import profile_of, why_too_large
from sightline.measurement.processes.suite import LEVELS, Case, Settings, case_of
from sightline.measurement.training.deepspeed import refuse_stale_locks
from sightline.measurement.training.rank import ENTRY as RANK
from sightline.measurement.training.results import result_of
from sightline.measurement.training.steps import LIBRARIES, way_of
from sightline.prediction import predict
from sightline.profile import Profile
from sightline.scenario import Scenario

ENTRY = f"{__name__}:measure_case"
PASSED_ON = ("scenario", "warm_up", "steps", "weights")


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario ``repeats`` times and return its result keys and rows.

    Arguments: ``scenario``, ``warm_up``, ``steps``, ``repeats``, ``levels``, ``weights``, ``force``, and ``nodes``: how
    many (``count``), which of them this is (``rank``), and where they meet (``host``, ``port``, ``prefix``).
    """
    predicted = predict(scenario_from_mapping(arguments["scenario"]))
    # With the micro-batch of the prediction where the scenario leaves that open.
    scenario = predicted.scenario
    nodes: Mapping[str, Any] = arguments.get("nodes") or {}
    machine = machine_of(scenario.cluster, int(nodes.get("count", 1)), int(nodes.get("local_count", 1)))
    threads, way = threads_asked(machine.threads), way_of(scenario)
    if not arguments["force"] and (too_large := why_too_large(predicted)):
        raise OutOfMemoryError(too_large)
    if way == "deepspeed":
        refuse_stale_locks()
    ranks = Ranks(
        here=machine.ranks,
        first=machine.ranks * int(nodes.get("rank", 0)),
        world=scenario.cluster.devices,
        threads=threads,
        variables={**machine.variables, **_place(nodes)},
    )
    preload(*LIBRARIES.get(way, ()))
    samples: list[dict[str, Any]] = []
    repeats = []
    for repeat in range(arguments["repeats"]):

        def keep(sample: Mapping[str, Any], repeat: int = repeat) -> None:
            samples.append({"repeat": repeat, **sample})
            emit(_flat(samples[-1]))

        with tempfile.TemporaryDirectory() as folder:
            asked = {
                **{key: arguments[key] for key in PASSED_ON},
                # Modules and operators take steps of their own, once.
                "levels": arguments["levels"] if repeat == 0 else [],
                "rendezvous": _rendezvous(nodes, folder, repeat),
            }
            repeats.append(run_ranks(RANK, asked, ranks, keep)[0])
    seen = {
        "way": way,
        "threads": threads,
        "warm_up": arguments["warm_up"],
        "weights": arguments["weights"] or "random",
        "repeats": repeats,
    }
    return result_of(scenario, predicted, seen, samples) if samples else {}


def _place(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Under torchrun, which of the machine's devices this process is for."""
    return {} if nodes.get("local_rank") is None else {"LOCAL_RANK": str(nodes["local_rank"])}


def _rendezvous(nodes: Mapping[str, Any], folder: str, repeat: int) -> dict[str, Any]:
    """Where ranks find each other: a file on one node, a server on several, anew for every repeat."""
    if not nodes:
        return {"file": str(Path(folder) / "ranks")}
    return {"host": nodes["host"], "port": nodes["port"], "prefix": f"{nodes['prefix']}/{repeat}"}


def _flat(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample as a line of a table: phases become columns."""
    phases = {f"{phase}_s": seconds for phase, seconds in sample["phases"].items()}
    return {key: value for key, value in sample.items() if key != "phases"} | phases


def cases_of(scenarios: Iterable[Scenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario; what is predicted not to fit ends as out of memory, unless ``settings.force``.

    Raises:
        InputError: A package is missing, the machine has not what some scenario asks, or the checkpoint is another
            model's.
    """
    asked = [predict(scenario).scenario for scenario in scenarios]
    _check(asked, settings)
    return [_case(scenario, settings, number) for number, scenario in enumerate(asked)]


def follow(scenarios: Iterable[Scenario], settings: Settings) -> list[str]:
    """Run this node's ranks of what the first node announces; return how scenarios ended that did not end well.

    Raises:
        InputError: As `cases_of`.
        WorkError: The first node is gone.
    """
    cases, failed = cases_of(scenarios, settings), []
    with rendezvous_of(settings.nodes) as rendezvous:
        for number in rendezvous.announced():
            case = cases[number]
            outcome = case.run()
            if outcome.status == "interrupted":
                raise KeyboardInterrupt
            if outcome.status != "ok":
                failed.append(f"{case.name}: {outcome.reason}")
    return failed


def measure_training(scenario: Scenario, settings: Settings) -> Profile:
    """Measure one scenario, of which nothing is stored.

    Raises:
        InputError: As `cases_of`, or the scenario cannot be measured.
        WorkError: Memory or time ran out, or a process crashed.
    """
    (case,) = cases_of([scenario], settings)
    outcome = case.run()
    if outcome.status == "unsupported":
        raise InputError(outcome.reason)
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.status != "ok":
        raise WorkError(outcome.reason)
    return profile_of(case.measures, outcome.result, outcome.result["rows"])


def _case(scenario: Scenario, settings: Settings, number: int) -> Case:
    effort = settings.effort
    return case_of(
        scenario,
        ENTRY,
        effort.limit_s,
        warm_up=effort.warm_up,
        steps=effort.steps,
        repeats=effort.repeats,
        levels=[level for level in LEVELS if level in effort.levels],
        weights=settings.weights,
        force=settings.force,
        nodes=settings.nodes.to_dict(number),
    )


def _check(scenarios: Sequence[Scenario], settings: Settings) -> None:
    """Refuse, before anything runs, what cannot be measured here.

    Scenarios a framework cannot do end as unsupported.
    """
    require("torch", "transformers")
    problems: list[str] = []
    for scenario in scenarios:
        try:
            machine_of(scenario.cluster, settings.nodes.count, settings.nodes.local_count)
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        except InputError as error:
            problems += error.problems
        problems += _missing_extras(scenario)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def _missing_extras(scenario: Scenario) -> list[str]:
    """Sentences about packages that the scenario's framework or techniques need and that are not installed."""
    plan = scenario.plan
    try:
        way = way_of(scenario)
    except UnsupportedCaseError:
        return []
    libraries = [name.partition(".")[0] for name in LIBRARIES.get(way, ())]
    quantized = missing("bitsandbytes", what="plan.quantization") if plan.quantization != "none" else []
    adapted = missing("peft", what="plan.adapter") if plan.adapter is not None else []
    return [*missing(*libraries, what=f"plan.framework {plan.framework.name}"), *quantized, *adapted]
