"""A single operator, for real: the scenario's sizes on this machine, timed, under the keys of a prediction."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sightline.errors import InputError, WorkError
from sightline.measurement.buffers import cache_flush
from sightline.measurement.operator_case import Case
from sightline.measurement.operators_attention import attention_case
from sightline.measurement.operators_collectives import measure_collective
from sightline.measurement.operators_elementwise import elementwise_case
from sightline.measurement.operators_matmul import matmul_case
from sightline.measurement.operators_recorded import IMPLEMENTATIONS, recorded_case
from sightline.measurement.timing import FULL, Rule, Timing, measure_calls
from sightline.measurement.torch_machine import Machine, import_torch, machine_of
from sightline.prediction.operator import predict_operator
from sightline.profile import Profile
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
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
    that are ``cached`` do not take turns: they stay in the cache as far as they fit, or, ``flushed``, are driven out of it
    before each call.

    Raises:
        InputError: PyTorch is missing, the machine is another one, or it cannot do what is asked.
        WorkError: memory ran out, or a process of a collective failed.
    """
    machine = machine_of(scenario.cluster)
    before = cache_flush(machine) if flushed else None
    if cached or flushed:
        machine = replace(machine, cache_bytes=0.0)
    try:
        timing, record = _timed(scenario, machine, implementation, rule, on_sample, before)
    except (MemoryError, import_torch().OutOfMemoryError) as error:
        raise WorkError(f"{scenario.workload.operator}: out of memory") from error
    # Operands take turns, so none of them is found in the cache.
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
        warnings=_warnings(timing),
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
    raise InputError(
        "workload.operator is 'grouped_matmul'; this version measures matmul, attention, collectives and kernels"
    )


def _warnings(timing: Timing) -> tuple[str, ...]:
    """What to know before the time is believed."""
    low, high = timing.interval
    found = []
    if not timing.stable:
        found.append("times had not settled when the warm-up ended")
    if high - low > 0.1 * timing.median:
        found.append(f"the median is uncertain by {100 * (high - low) / timing.median / 2:.0f} %: is the machine busy?")
    return tuple(found)
