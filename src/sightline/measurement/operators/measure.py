"""A single operator, for real: the scenario's sizes on this machine, timed, under the keys of a prediction."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sightline.errors import InputError, SightlineError, WorkError
from sightline.loading import operation_from_mapping
from sightline.measurement.machine.devices import Machine, import_torch, machine_of
from sightline.measurement.machine.timing import BRIEF, FULL, QUICK, Rule, Timing, measure_calls
from sightline.measurement.operators.case import Case, cache_flush
from sightline.measurement.operators.collectives import measure_collective
from sightline.measurement.operators.elementwise import elementwise_case, host_copy_case
from sightline.measurement.operators.products import attention_case, matmul_case
from sightline.measurement.operators.recorded import IMPLEMENTATIONS, recorded_case
from sightline.measurement.processes.case import Emit
from sightline.measurement.processes.results import remarks_on_times
from sightline.prediction.operators.predict import predict_operator
from sightline.profile import Profile
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    HostCopyOperation,
    MatmulOperation,
    OperatorScenario,
)


def measure_operator(
    scenario: OperatorScenario,
    implementation: str | None = None,
    rule: Rule = FULL,
    on_sample: Callable[[float], None] = lambda _: None,
    *,
    cached: bool = False,
    flushed: bool = False,
) -> Profile:
    """Measure the scenario's operator here; FLOPs and bytes are those that a prediction counts.

    ``implementation`` names one of several ways that PyTorch has; ``on_sample`` is told each sample's seconds. Operands
    that are ``cached`` are not rotated: they stay in the cache as far as they fit, or, ``flushed``, are driven out of
    it before each call.

    Raises:
        InputError: PyTorch is missing, the machine is another one, or it cannot do what is asked.
        WorkError: memory ran out, or a process of a collective failed.
    """
    torch, machine = import_torch(), machine_of(scenario.cluster)
    torch.set_num_threads(machine.threads)
    before = cache_flush(machine) if flushed else None
    if cached or flushed:
        machine = replace(machine, cache_bytes=0.0)
    try:
        timing, record = _timed(scenario, machine, implementation, rule, on_sample, before)
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise WorkError(f"{scenario.workload.operator}: out of memory") from error
    # Operands are used in rotation, so none of them is found in the cache.
    device = replace(scenario.cluster.device, l2_bytes=1.0)
    work = predict_operator(replace(scenario, cluster=replace(scenario.cluster, device=device)))
    return Profile(
        scenario=scenario,
        source="measured",
        time_s=timing.median,
        flops=work.flops,
        bytes=work.bytes,
        interval={"time_s": timing.interval},
        measurement={**record, **timing.to_dict(), "threads": machine.threads, "flushed": flushed},
        warnings=remarks_on_times(*timing.interval, timing.median, stable=timing.stable),
    )


def _timed(
    scenario: OperatorScenario,
    machine: Machine,
    implementation: str | None,
    rule: Rule,
    on_sample: Callable[[float], None],
    before: Callable[[], object] | None,
) -> tuple[Timing, Mapping[str, Any]]:
    """The times, and what they are of."""
    torch = import_torch()
    library = f"torch {torch.__version__}"
    x = scenario.workload
    if isinstance(x, CollectiveOperation):
        timing, name = measure_collective(x, machine, implementation, rule, on_sample)
        return timing, {"implementation": name, "library": library}
    records = implementation in IMPLEMENTATIONS
    with torch.inference_mode(not records):
        case = recorded_case(x, machine, str(implementation)) if records else _case(x, machine, implementation)
        timing = measure_calls(case.call, machine.clock, rule, on_sample, before).of_each(case.operators)
    return timing, {"implementation": case.implementation, "library": library, "sets": case.sets, **case.remarks}


def _case(x: object, machine: Machine, implementation: str | None) -> Case:
    match x:
        case MatmulOperation():
            return matmul_case(x, machine, implementation)
        case AttentionOperation():
            return attention_case(x, machine, implementation)
        case ElementwiseOperation():
            return elementwise_case(x, machine, implementation)
        case HostCopyOperation():
            return host_copy_case(x, machine, implementation)
    raise InputError(
        "workload.operator is 'grouped_matmul'; this version measures matmul, attention, collectives and kernels"
    )


ONE, SEVERAL = (f"{__name__}:{name}" for name in ("one", "several"))
"""Entries of cases; their arguments are ``scenario``, or ``scenarios`` and ``operators``, and ``quick``."""


def one(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure one scenario's operator: its samples are the case's samples, its result keys the case's result."""
    scenario = operation_from_mapping(arguments["scenario"])
    profile = measure_operator(
        scenario,
        arguments.get("implementation"),
        BRIEF if arguments.get("brief") else QUICK if arguments["quick"] else FULL,
        lambda seconds: emit({"time_s": seconds}),
        cached=arguments.get("cached", False),
        flushed=arguments.get("flushed", False),
    )
    return result_of(profile)


def several(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure many operators in one process: a result each, or the reason why there is none.

    In several ``rounds`` through all of them, if asked: a machine that is fast or slow for a while is so for one
    round's measurement of an operator, and the round whose time is the median counts.
    """
    asked_for, rounds = arguments["operators"], int(arguments.get("rounds", 1))
    found: list[list[dict[str, Any]]] = [[] for _ in asked_for]
    for _ in range(rounds):
        for asked, mine in zip(asked_for, found, strict=True):
            said = {k: v for k, v in arguments.items() if k not in ("operators", "rounds")} | asked
            try:
                result = one(said, lambda _: None)
            except SightlineError as error:
                result = {"reason": "; ".join(str(error).splitlines())}
            mine.append(result)
            told = {k: result.get(k) for k in ("time_s", "reason")}
            emit({"operator": asked["scenario"]["workload"]["operator"], **told})
    results = [
        {**_median_round(mine), "scenario": asked["scenario"]} for asked, mine in zip(asked_for, found, strict=True)
    ]
    return {"source": "measured", "results": results}


def _median_round(results: list[dict[str, Any]]) -> dict[str, Any]:
    """The lower median by time, with the times of all rounds; the first that failed where none did not."""
    timed = sorted((r for r in results if "time_s" in r), key=lambda r: float(r["time_s"]))
    if not timed:
        return results[0]
    chosen = timed[(len(timed) - 1) // 2]
    if len(timed) == 1:
        return chosen
    record = {**chosen["measurement"], "rounds_s": [float(r["time_s"]) for r in results if "time_s" in r]}
    return {**chosen, "measurement": record}


def result_of(profile: Profile) -> dict[str, Any]:
    """Return a measured profile under the result keys, its scenario left out."""
    return {
        "source": profile.source,
        "time_s": profile.time_s,
        "flops": profile.flops,
        "bytes": profile.bytes,
        "interval": {key: list(ends) for key, ends in profile.interval.items()},
        "measurement": dict(profile.measurement),
        "warnings": list(profile.warnings),
    }
