"""Measure a single operator or collective of a scenario on this machine, with the keys of a prediction.

Collectives run by torch.distributed, one process per rank: gloo between processors, NCCL between GPUs.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, SightlineError, WorkError
from sightline.loading import operation_from_mapping
from sightline.measurement.machine import DeviceClock, Machine, import_torch, machine_of
from sightline.measurement.operators.kernels import (
    Case,
    attention_case,
    cache_flush,
    chosen,
    elementwise_case,
    host_copy_case,
    matmul_case,
)
from sightline.measurement.operators.recorded import IMPLEMENTATIONS, recorded_case
from sightline.measurement.processes.isolation import Emit, run_case
from sightline.measurement.processes.ranks import Ranks, join, run_ranks
from sightline.measurement.processes.suite import remarks_on_times
from sightline.measurement.timing import BRIEF, FULL, QUICK, Clock, HostClock, Rule, Timing, measure_calls
from sightline.prediction.single_operators import predict_operator
from sightline.profile import Profile
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    ElementwiseOperation,
    HostCopyOperation,
    MatmulOperation,
    OperatorScenario,
)

if TYPE_CHECKING:
    import torch

START_S = 120.0
"""What starting processes and importing PyTorch may take."""
LIBRARIES = {"cpu": "gloo", "cuda": "nccl"}


def measure_collective(
    x: CollectiveOperation,
    machine: Machine,
    implementation: str | None,
    rule: Rule,
    on_sample: Callable[[float], None] = lambda _: None,
) -> tuple[Timing, str]:
    """Return the slowest rank's times and the library's name.

    Raises:
        InputError: there is but one rank, or the library is another one.
        WorkError: a process failed or hung.
    """
    library = chosen(x.operator, implementation, (LIBRARIES[machine.kind],))
    if machine.ranks < 2:
        raise InputError(
            f"cluster is one device; {x.operator} needs two or more, such as --set cluster='2x this-machine'"
        )
    asked = {
        "operator": x.operator,
        "bytes": int(x.bytes),
        "rule": asdict(rule),
        "ranks": {"here": machine.ranks, "threads": machine.threads, "variables": machine.variables},
    }
    limit_s = START_S + 4 * (rule.warm_up_s + rule.longest_s)
    outcome = run_case(f"{__name__}:start_ranks", asked, limit_s, variables={"TORCH_CPP_LOG_LEVEL": "ERROR"})
    if outcome.status != "ok":
        raise WorkError(f"{x.operator} over {library}: {outcome.reason}")
    timing = Timing(**outcome.result)
    for seconds in timing.samples:
        on_sample(seconds)
    return timing, library


def start_ranks(arguments: Mapping[str, Any], emit: Emit) -> Mapping[str, Any]:
    """Run the ranks of a collective; the result is the fields of the first one's `Timing`."""
    import_torch()  # ranks have at once what the process that they are forked from has loaded
    with tempfile.TemporaryDirectory() as folder:
        asked = {**arguments, "rendezvous": {"file": f"{folder}/ranks"}}
        return run_ranks(f"{__name__}:measure_rank", asked, Ranks(**arguments["ranks"]), emit)[0]


ELEMENT_BYTES = 4


class SlowestRank:
    """A clock that all ranks agree on: they start together, and the slowest one counts."""

    def __init__(self, clock: Clock, device: str) -> None:
        self.clock, self.device = clock, device
        self.resolution_s = 10 * clock.resolution_s

    def now(self) -> float:
        """The first rank's wall time, or ranks would stop at different moments."""
        import torch
        import torch.distributed as dist

        now = torch.tensor([self.clock.now()], dtype=torch.float64, device=self.device)
        dist.broadcast(now, 0)
        return float(now.item())

    def measure(self, call: Callable[[int], object], first: int, count: int) -> float:
        """Seconds of the rank that took longest."""
        import torch
        import torch.distributed as dist

        dist.barrier()
        seconds = torch.tensor([self.clock.measure(call, first, count)], dtype=torch.float64, device=self.device)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        return float(seconds.item())


def measure_rank(arguments: Mapping[str, Any], _: Emit) -> dict[str, Any]:
    """Join the others and measure."""
    import torch.distributed as dist

    device = join(arguments["rendezvous"])
    call = _collective(arguments["operator"], arguments["bytes"], dist.get_rank(), dist.get_world_size(), device)
    clock = SlowestRank(HostClock() if device == "cpu" else DeviceClock(), device)
    return asdict(measure_calls(call, clock, Rule(**arguments["rule"])))


def _collective(operator: str, size: int, rank: int, ranks: int, device: str) -> Callable[[int], object]:
    """The call, over buffers as nccl-tests counts them: what is gathered or reduced, a rank's part of the rest."""
    import torch
    import torch.distributed as dist

    elements = max(ranks, size // ELEMENT_BYTES // ranks * ranks)
    whole, part = (torch.rand(n, device=device) for n in (elements, elements // ranks))
    other = torch.empty_like(whole)
    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all_to_all": lambda: dist.all_to_all_single(other, whole),
        "broadcast": lambda: dist.broadcast(whole, 0),
        "reduce": lambda: dist.reduce(whole, 0),
        "send_recv": lambda: _exchange(whole, other, rank, ranks),
    }
    chosen = calls[operator]
    return lambda _: chosen()


def _exchange(given: "torch.Tensor", taken: "torch.Tensor", rank: int, ranks: int) -> None:
    """Every rank sends to the next one and receives from the one before."""
    import torch.distributed as dist

    sent = dist.P2POp(dist.isend, given, (rank + 1) % ranks)
    received = dist.P2POp(dist.irecv, taken, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sent, received] if rank % 2 == 0 else [received, sent]):
        work.wait()


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
