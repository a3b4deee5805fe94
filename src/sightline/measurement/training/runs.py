"""Measure training: check whether a scenario fits, run its repeats in new processes, and return a profile.

One rank trains: it joins the others, warms up, takes its samples, and says what it saw.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sightline.errors import InputError, WorkError, noted, refuse
from sightline.loading import scenario_from_mapping
from sightline.measurement.hardware import EnergyWatch, MemoryWatch, state_bytes
from sightline.measurement.machine import DeviceClock, machine_of, missing, require, threads_asked, wait_for
from sightline.measurement.models import check_checkpoint, preload
from sightline.measurement.modules.instrument import instrument, split_by_operator, trace_operators, without_overhead
from sightline.measurement.modules.timeline import EventReader, HostReader, Reader
from sightline.measurement.modules.wrapping import EXPOSED, wrap_waits
from sightline.measurement.processes.cases import (
    LEVELS,
    Case,
    Settings,
    case_of,
    held_bytes,
    limits_of,
    memory_by_part,
    profile_of,
    remarks_on_times,
    rendezvous_of,
    why_too_large,
)
from sightline.measurement.processes.isolation import Emit, OutOfMemoryError, UnsupportedCaseError
from sightline.measurement.processes.ranks import Ranks, device_of_rank, join, run_ranks
from sightline.measurement.timing import HostClock, median_of_runs, spread_of_samples
from sightline.measurement.training.engines import refuse_stale_locks
from sightline.measurement.training.trainers import LIBRARIES, Trainer, setup_of, token_batches, way_of
from sightline.prediction import predict
from sightline.profile import REFERENCE, TRAINING, Profile
from sightline.profile.results import measured_rates
from sightline.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """One step."""

    step_time_s: float
    """From the end of the step before to the end of this one."""
    phases: Mapping[str, float]
    """Seconds by phase; what is left of the step is the host's."""


class StepClock:
    """Seconds of steps and of their phases, some steps late where a device must not wait for the host.

    A phase inside another interrupts it.
    """

    def __init__(self, reader: Reader, late: int = 0) -> None:
        self._reader, self._late = reader, late
        self._open: list[str] = []
        self._marks: list[tuple[str, Any]] = []
        """The phase that begins, and the reading then."""
        self._ended: list[list[tuple[str, Any]]] = []
        """Marks of steps that are not read yet."""

    def start(self) -> None:
        """Begin the first step."""
        self._marks = []
        self._mark()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark a phase."""
        self._open.append(name)
        self._mark()
        try:
            yield
        finally:
            self._open.pop()
            self._mark()

    def end_step(self) -> list[StepTime]:
        """End a step; return the oldest one once enough are behind it."""
        self._mark()
        self._ended.append(self._marks)
        self._marks = self._marks[-1:]
        return [self._read()] if len(self._ended) > self._late else []

    def drain(self) -> list[StepTime]:
        """Return all steps that are left."""
        return [self._read() for _ in range(len(self._ended))]

    def _mark(self) -> None:
        self._marks.append((self._open[-1] if self._open else "", self._reader.read()))

    def _read(self) -> StepTime:
        marks = self._ended.pop(0)
        seconds = self._reader.differences([reading for _, reading in marks])
        phases: dict[str, float] = {}
        for (name, _), part in zip(marks, seconds, strict=False):
            if name:
                phases[name] = phases.get(name, 0.0) + part
        return StepTime(step_time_s=sum(seconds), phases=phases)


MOST_STEPS = 20
"""Recorded steps; more would only repeat them."""


def times_by_module(
    scenario: Scenario,
    trainer: Trainer,
    batches: Sequence[Any],
    steps: int,
    device: str,
    plain_s: float,
    *,
    operators: bool,
) -> dict[str, Any]:
    """Return rows by phase and module, and the overhead of timing them: over the median of plain steps, minus 1.

    With ``operators`` a traced step splits the rows by operator; each module keeps its time of the untraced steps.
    """
    on_host = device == "cpu"
    on_model = instrument(trainer.model, None, HostClock() if on_host else DeviceClock())
    try:
        with on_model.counting():
            trainer.step(batches[0], on_model.phase)
        seconds = []
        for number in range(min(steps, MOST_STEPS)):
            wait_for(device)
            begin = perf_counter()
            with on_model.recording():
                trainer.step(batches[number % len(batches)], on_model.phase)
            wait_for(device)
            seconds.append(perf_counter() - begin)
        rows = on_model.rows(scenario.cluster.device, scenario.plan.dtype)
        rows = without_overhead(rows, plain_s) if on_host else rows
        if operators:
            rows = split_by_operator(rows, trace_operators(on_model, lambda: trainer.step(batches[0], on_model.phase)))
    finally:
        on_model.remove()
    return {
        "rows": [asdict(row) for row in rows],
        "recorded_steps": len(seconds),
        "instrumentation_overhead": float(np.median(seconds)) / plain_s - 1.0,
    }


RANK = f"{__name__}:measure_rank"
LATE = 2
"""Steps on a device whose readings are waited for later: the host prepares a step while the device is still busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a rank is asked to do."""

    warm_up: int
    steps: int
    weights: str | None = None
    levels: Sequence[str] = ()
    """Which levels below the whole step are measured too, in steps of their own: module, operator."""
    rendezvous: Mapping[str, Any] | None = None
    """How ranks find each other: ``file``, or ``host``, ``port`` and ``prefix``."""


def measure_rank(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Train as the scenario says; samples go off as they come, the result is this rank's.

    Arguments are ``scenario``, a mapping, and the fields of `Asked`.
    """
    asked = Asked(**{k: v for k, v in arguments.items() if k != "scenario"})
    try:
        return _measure(scenario_from_mapping(arguments["scenario"]), asked, emit)
    except RuntimeError as error:
        if "No available kernel" in str(error):
            raise UnsupportedCaseError(
                "plan.attention is 'flash', but PyTorch has no kernel for these heads and this dtype; allowed: eager"
            ) from error
        raise


def _measure(scenario: Scenario, asked: Asked, emit: Emit) -> dict[str, Any]:
    way = way_of(scenario)
    device = device_of_rank() if way == "single" else join(asked.rendezvous or {})
    clock = StepClock(HostReader()) if device == "cpu" else StepClock(EventReader(), LATE)
    _flush_denormal_numbers(device)
    setup = setup_of(way)
    memory = MemoryWatch(device)
    trainer = setup(scenario, device, None if asked.weights is None else Path(asked.weights))
    wrap_waits(trainer.model, lambda: clock.phase(EXPOSED))
    batches = token_batches(scenario, trainer.replica, trainer.replicas, device)
    seen = _train(trainer, batches, clock, asked, memory, emit)
    own = {**seen, "memory": memory.read(), "states": state_bytes(trainer.model, trainer.optimizer)}
    levels: dict[str, Any] = {}
    if {"module", "operator"} & set(asked.levels) and not trainer.record.get("shimmed"):
        plain_s, operators = float(np.median(seen["step_s"])), "operator" in asked.levels
        levels["module"] = times_by_module(
            scenario, trainer, batches, asked.steps, device, plain_s, operators=operators
        )
    ranks = _everyone(own) if way != "single" else [own]
    return {"ranks": ranks, "levels": levels, "remarks": list(trainer.remarks), "record": dict(trainer.record)}


def _flush_denormal_numbers(device: str) -> None:
    """Take numbers below the normal ones for zero on a processor, which handles each of them by a program of its own.

    Second moments of rows that rarely occur end there, so that the update's time would depend on the data.
    """
    import torch

    if device == "cpu":
        torch.set_flush_denormal(True)


def _train(
    trainer: Trainer, batches: Sequence[Any], clock: StepClock, asked: Asked, memory: MemoryWatch, emit: Emit
) -> dict[str, Any]:
    """Warm up, then take samples; nothing waits for the device but readings that are two steps old.

    Returns seconds of each step, in all and in collectives (waiting for ranks that come later included), joules of all
    of them, and mean losses of this rank's sequences by step, those of the warm-up included.
    """
    losses: list[Any] = []
    taken: list[StepTime] = []

    def step(number: int) -> None:
        losses.append(trainer.step(batches[number % len(batches)], clock.phase))

    def keep(readings: Sequence[StepTime]) -> None:
        for reading in readings:
            emit({"step": len(taken), **asdict(reading)})
            taken.append(reading)

    clock.start()
    for number in range(asked.warm_up):
        step(number)
        clock.end_step()
    clock.drain()
    memory.restart()
    energy = EnergyWatch(memory.device)
    clock.start()
    for number in range(asked.warm_up, asked.warm_up + asked.steps):
        step(number)
        keep(clock.end_step())
    keep(clock.drain())
    return {
        "step_s": [reading.step_time_s for reading in taken],
        "exposed_s": [reading.phases.get(EXPOSED, 0.0) for reading in taken],
        "energy_j": energy.joules(),
        "losses": [float(loss) for loss in losses],
    }


def _everyone(own: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What every rank saw, by rank."""
    import torch.distributed as dist

    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, own)
    with suppress(RuntimeError):
        dist.barrier()
    return found


Samples = Sequence[Mapping[str, Any]]
"""As ranks send them: repeat, step, step_time_s, phases."""


def result_of(scenario: Scenario, predicted: Profile, seen: Mapping[str, Any], samples: Samples) -> dict[str, Any]:
    """Return the result keys that a measurement has of its own, and ``rows``.

    Args:
        scenario: What was asked.
        predicted: Its prediction, for the FLOPs of the work and for what bounds phases whose modules were not told
            apart.
        seen: What `measure_case` collected.
        samples: Of all repeats.
    """
    times = [[s["step_time_s"] for s in samples if s["repeat"] == r] for r in range(len(seen["repeats"]))]
    step_s, ends = median_of_runs(times)
    rows = [row for repeat in seen["repeats"] for row in repeat["levels"].get("module", {}).get("rows", ())]
    waited_s = waiting_s(seen["repeats"])
    phases = _phases(samples, step_s, rows, waited_s)
    tokens = float(scenario.workload.tokens_per_step)
    return {
        "source": "measured",
        "fits": True,
        "step_time_s": step_s,
        **measured_rates(predicted, step_s),
        "phases": phases,
        "memory_bytes": _memory(seen["repeats"]),
        "limits": _limits(rows, phases, predicted),
        "energy_per_step_j": _energy(seen["repeats"], times),
        "interval": {"step_time_s": list(ends), "tokens_per_s": [tokens / ends[1], tokens / ends[0]]},
        "evidence": {"step": "measured", **({} if rows else {"limits": "predicted"})},
        "measurement": _measurement(seen, times),
        "warnings": [*seen["repeats"][0]["remarks"], *remarks_on_times(*ends, step_s, what="step time")],
        "model_flops": float(predicted.model_flops),
        "hardware_flops": float(predicted.hardware_flops),
        "rows": rows,
    }


def waiting_s(repeats: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of all steps that the first rank spent in collectives while others had yet to come.

    The last rank does not wait, so that a step's collectives take the least that any rank spends in them.
    """
    steps = (zip(*(rank.get("exposed_s", ()) for rank in repeat["ranks"]), strict=False) for repeat in repeats)
    return float(sum(step[0] - min(step) for taken in steps for step in taken))


def _phases(
    samples: Samples, step_s: float, rows: Sequence[Mapping[str, Any]], waited_s: float = 0.0
) -> dict[str, float]:
    """Seconds by phase that sum to the step: each one's share of all steps; what is in none is the host's.

    Waiting for a late rank is no communication and the host's too. Recomputation runs inside the backward pass; its
    share of it is that of the steps whose modules were told apart.
    """
    whole = sum(s["step_time_s"] for s in samples)
    named = [phase for phase in TRAINING.phases if phase != REFERENCE]
    share = {phase: sum(s["phases"].get(phase, 0.0) for s in samples) / whole for phase in named}
    share[EXPOSED] = max(share[EXPOSED] - waited_s / whole, 0.0)
    backward, again = (sum(r["time_s"] for r in rows if r["phase"] == phase) for phase in ("backward", "recompute"))
    if again:
        share["recompute"] = share["backward"] * again / (backward + again)
        share["backward"] -= share["recompute"]
    share["host"] = 1.0 - sum(share.values())
    return {phase: part * step_s for phase, part in share.items()}


def _memory(repeats: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Bytes by part of the rank that held most."""
    ranks = [rank for repeat in repeats for rank in repeat["ranks"]]
    most = max(ranks, key=lambda rank: held_bytes(rank["memory"]))
    return memory_by_part(most["memory"], most["states"])


def _limits(rows: Sequence[Mapping[str, Any]], phases: Mapping[str, float], predicted: Profile) -> dict[str, float]:
    """Seconds of the step by what bounds them, as rows say; without rows in the prediction's proportions.

    What is neither waiting for others nor outside of all phases is then arithmetic or memory, as predicted.
    """
    step_s = sum(phases.values())
    if rows:
        return limits_of(rows, step_s)
    network, host = phases["communication_exposed"], phases["host"]
    work = step_s - network - host
    compute, memory = (float(predicted.limits[bound]) for bound in ("compute", "memory"))
    share = compute / (compute + memory) if compute + memory else 1.0
    return {"compute": share * work, "memory": (1.0 - share) * work, "network": network, "host": host, "bubble": 0.0}


def _energy(repeats: Sequence[Mapping[str, Any]], times: Sequence[Sequence[float]]) -> float | None:
    """Joules of a step on all devices; None where some device's were not counted."""
    steps = [len(t) for t in times]
    joules = [[rank["energy_j"] for rank in repeat["ranks"]] for repeat in repeats]
    if any(j is None for repeat in joules for j in repeat) or not sum(steps):
        return None
    return float(sum(map(sum, joules)) / sum(steps))


def _measurement(seen: Mapping[str, Any], times: Sequence[Sequence[float]]) -> dict[str, Any]:
    first = seen["repeats"][0]
    ranks = [rank for repeat in seen["repeats"] for rank in repeat["ranks"]]
    module = first["levels"].get("module", {})
    return {
        "implementation": seen["way"],
        "threads": seen["threads"],
        **first["record"],
        "weights": seen["weights"],
        "repeats": [len(t) for t in times],
        "warm_up": seen["warm_up"],
        "median_s": [float(np.median(t)) for t in times],
        "spread_s": spread_of_samples(times),
        "waiting_s": waiting_s(seen["repeats"]) / sum(map(len, times)),
        "losses": np.nanmean([rank["losses"] for rank in first["ranks"]], axis=0).tolist(),
        "peak_memory_bytes": {key: max(rank["memory"][key] for rank in ranks) for key in ranks[0]["memory"]},
        "shimmed": bool(first["record"].get("shimmed", False)),
        **{key: module[key] for key in ("recorded_steps", "instrumentation_overhead") if key in module},
    }


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
        with noted(problems):
            machine_of(scenario.cluster, settings.nodes.count, settings.nodes.local_count)
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        problems += _missing_extras(scenario)
    refuse(problems)


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
