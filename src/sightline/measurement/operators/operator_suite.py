"""Measure single operators, in this process or as stored runs; the suite that constants of a device are fitted to."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, SightlineError, WorkError
from sightline.loading import operation_from_mapping
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.this_machine import THIS_MACHINE, processor
from sightline.measurement.machine import DeviceClock, Machine, import_torch, machine_of, require
from sightline.measurement.operators.kernels import (
    BACKWARD,
    IMPLEMENTATIONS,
    MATMULS,
    RECORDED,
    ReadyOperator,
    attention_case,
    cache_flush,
    chosen,
    elementwise_case,
    host_copy_case,
    matmul_case,
    recorded_case,
)
from sightline.measurement.processes.cases import (
    Case,
    Measured,
    OnStep,
    Settings,
    case_of,
    profile_of,
    remarks_on_times,
    run_suite,
)
from sightline.measurement.processes.isolation import Emit, run_case
from sightline.measurement.processes.ranks import Ranks, join, run_ranks
from sightline.measurement.timing import BRIEF, FULL, QUICK, Clock, HostClock, Rule, Timing, measure_calls
from sightline.prediction.single_operators import predict_operator
from sightline.profile import Profile
from sightline.progress import SILENT, Progress
from sightline.runs import Store
from sightline.scenario import (
    AttentionOperation,
    CollectiveOperation,
    Device,
    ElementwiseOperation,
    HostCopyOperation,
    MatmulOperation,
    OperatorScenario,
)
from sightline.scenario.operation import ElementwiseName

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
            f"cluster has one device; {x.operator} needs at least two, such as --set cluster='2x this-machine'"
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


def _case(x: object, machine: Machine, implementation: str | None) -> ReadyOperator:
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
        "workload.operator is 'grouped_matmul'; allowed when measuring: matmul, attention, collectives and kernels"
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


Workload = Mapping[str, Any]
Entry = tuple[Workload, Mapping[str, Any]]
"""A workload and how it is measured."""

HOW = "how"
"""Key of a suite's entry, besides those of its scenario: ``implementation``, and whether operands are ``cached`` or
caches ``flushed`` before each call."""
CACHED, FLUSHED = {"cached": True}, {"flushed": True}
LONGEST_S = 0.02
"""Time that an operator of the suite may take at the device's peak: ten times as long in practice."""
MANY = 24
"""Operators of a kind of which a quick suite of an accelerator takes every second one."""
KERNELS: tuple[ElementwiseName, ...] = ("copy", "norm", "activation", "embedding", "rope", "softmax", "residual")
"""One of each class of kernels that has constants; the others are predicted with those of a class."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
MESSAGES = tuple(2**power for power in range(10, 27))


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sizes of a suite's operators."""

    weights: Sequence[tuple[int, int]]
    """Outputs and inputs of linear layers."""
    tokens: Sequence[int]
    heads: Sequence[tuple[int, int, int]]
    """Heads, heads of keys and values, their width."""
    contexts: Sequence[int]
    batches: Sequence[int]
    elements: Sequence[int]


ACCELERATOR = Grid(
    # Squares, and the projections of small and large models.
    weights=(
        *((256, 256), (512, 512), (768, 768), (2048, 768), (768, 2048), (1024, 1024), (4096, 1024), (1024, 4096)),
        *((2048, 2048), (5632, 2048), (2048, 5632), (4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192)),
    ),
    tokens=(1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
    heads=((4, 4, 32), (8, 8, 64), (16, 4, 64), (12, 12, 64), (32, 8, 128)),
    contexts=(64, 128, 256, 512, 1024, 2048, 4096),
    batches=(1, 8),
    elements=tuple(2**power for power in range(14, 27)),
)
PROCESSOR = Grid(
    # Layers of small models: projections, both sides of an MLP, heads.
    weights=(
        *((64, 64), (192, 64), (256, 256), (688, 256), (384, 1024), (512, 512), (512, 1376), (1024, 640)),
        *((768, 2048), (2048, 768), (4096, 256), (4096, 1024), (8192, 512)),
    ),
    tokens=(1, 2, 8, 64, 128, 256, 512, 1024, 2048),
    heads=((4, 4, 16), (8, 8, 32), (8, 4, 64), (12, 12, 64), (8, 2, 128)),
    contexts=(4, 64, 128, 256, 512, 1024),
    batches=(1, 4),
    elements=tuple(2**power for power in (8, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23)),
)
PROCESSOR_QUICK = replace(
    PROCESSOR,
    weights=PROCESSOR.weights[::2],
    tokens=(1, 64, 256, 1024),
    contexts=(4, 128, 512),
    elements=tuple(2**power for power in (8, 13, 15, 17, 19, 21, 23)),
)
DISPATCH = 16
"""Sides of a product so small that only its call takes time."""
TRAINED = ("norm", "rope", "gated_activation", "residual", "embedding", "cross_entropy")
"""Operations of a training step that have a backward pass of their own."""
CACHED_ELEMENTS = 2**22
"""Beyond these no cache holds the tensors of a repeated operator."""
FROM_MEMORY = 2**15
"""Parameters below which an optimizer's states stay in the cache."""


def standard_suite(dtype: str, *, quick: bool, cluster: str | None = None) -> list[dict[str, Any]]:
    """Return the suite's scenarios in one dtype: on one device and, unless ``quick``, between those of ``cluster``.

    Where an operator is measured in some other way than usual, ``HOW`` says how.

    Without a cluster, these are the processor and two of its processes, where it has as many cores. Raises `InputError`
    for a cluster that cannot be read or a dtype that its device does not compute in.
    """
    several = cluster or (f"2x {THIS_MACHINE}" if processor().cores > 1 else THIS_MACHINE)
    read = read_cluster(several)
    one = THIS_MACHINE if read.device.name == THIS_MACHINE else f"1x {read.device.name}"
    device = read_cluster(one).device
    if dtype not in device.peak_flops:
        raise InputError(f"--dtype is '{dtype}'; allowed on {device.name}: {', '.join(device.peak_flops)}")
    entries: Sequence[Entry]
    if one == THIS_MACHINE:
        entries = list(_on_processor(PROCESSOR_QUICK if quick else PROCESSOR, device, dtype))
    else:
        alone = list(_on_accelerator(ACCELERATOR, device, dtype))
        entries = [(workload, {}) for workload in (thinned(alone) if quick else alone)]
    suite = [_scenario(one, workload) | ({HOW: how} if how else {}) for workload, how in entries]
    if read.devices > 1 and not quick:
        suite += [
            _scenario(several, {"operator": name, "bytes": size}) for name, size in product(COLLECTIVES, MESSAGES)
        ]
    return suite


def thinned(workloads: Sequence[Workload]) -> list[Workload]:
    """Return every second operator of the kinds that have many; neighbours in the grid alternate."""
    counts = Counter(w["operator"] for w in workloads)
    kinds = ([w for w in workloads if w["operator"] == kind][:: 2 if n > MANY else 1] for kind, n in counts.items())
    return [w for kind in kinds for w in kind]


def _scenario(cluster: str, workload: Workload) -> dict[str, Any]:
    return {"cluster": cluster, "workload": {"task": "operator", **workload}}


def _matmul(m: int, n: int, k: int, dtype: str) -> Workload:
    return {"operator": "matmul", "m": m, "n": n, "k": k, "dtype": dtype}


def _attention(heads: tuple[int, int, int], batch: int, queries: int, context: int, dtype: str) -> Workload:
    named = dict(zip(("heads", "kv_heads", "head_dim"), heads, strict=True))
    tokens = {"query_tokens": queries, "context_tokens": context}
    return {"operator": "attention", "batch": batch, **named, **tokens, "dtype": dtype}


def _kernel(name: str, elements: int, dtype: str) -> Workload:
    return {"operator": name, "elements": elements, "dtype": dtype}


def _on_accelerator(grid: Grid, device: Device, dtype: str) -> Iterator[Workload]:
    """Products, attention of prompts and of single queries against what came before, element-wise kernels."""
    most_flops = LONGEST_S * float(device.peak_flops[dtype])
    most_bytes = LONGEST_S * float(device.memory_bandwidth)
    for (n, k), m in product(grid.weights, grid.tokens):
        if 2 * m * n * k <= most_flops:
            yield _matmul(m, n, k, dtype)
    for heads, context, batch, is_prompt in product(grid.heads, grid.contexts, grid.batches, (True, False)):
        queries = context if is_prompt else 1
        if 4 * batch * heads[0] * heads[2] * queries * context <= most_flops / 4:
            yield _attention(heads, batch, queries, context, dtype)
    for name, elements in product(KERNELS, grid.elements):
        if 8 * elements <= most_bytes:
            yield _kernel(name, elements, dtype)


def _on_processor(grid: Grid, device: Device, dtype: str) -> Iterator[Entry]:
    """What a training step calls, in the cache and from memory."""
    most_flops = LONGEST_S * float(device.peak_flops[dtype])
    yield from _products(grid, dtype, most_flops)
    for heads, context, batch in product(grid.heads, grid.contexts, grid.batches):
        if 10 * batch * heads[0] * heads[2] * context * context <= most_flops:
            for implementation, place in product(IMPLEMENTATIONS, (CACHED, FLUSHED)):
                yield (
                    _attention(heads, batch, context, context, dtype),
                    {"implementation": implementation, **place},
                )
    for name, elements, implementation in product(TRAINED, grid.elements, (RECORDED, BACKWARD)):
        for place in (CACHED, FLUSHED) if elements <= CACHED_ELEMENTS else (FLUSHED,):
            yield _kernel(name, elements, dtype), {"implementation": implementation, **place}
    for elements in grid.elements:
        if elements <= CACHED_ELEMENTS:
            yield _kernel("adam", elements, "fp32"), {"implementation": "clipped", **CACHED}
        if elements >= FROM_MEMORY:
            yield _kernel("adam", elements, "fp32"), {"implementation": "clipped"}
    yield from ((_kernel(name, elements, dtype), {}) for name, elements in product(KERNELS, grid.elements[1:]))


def _products(grid: Grid, dtype: str, most_flops: float) -> Iterator[Entry]:
    """Each linear layer's three products over so many tokens, and the calls around them."""
    for rows, (outputs, inputs), layout in product(grid.tokens, grid.weights, MATMULS):
        if 2 * rows * outputs * inputs > most_flops or (rows < 64 and layout != "library"):
            continue
        m, n, k = {
            "library": (rows, outputs, inputs),
            "input-gradient": (rows, inputs, outputs),
            "weight-gradient": (outputs, inputs, rows),
        }[layout]
        for place in (CACHED, FLUSHED):
            yield _matmul(m, n, k, dtype), {"implementation": layout, **place}
    for implementation in (*MATMULS, *IMPLEMENTATIONS):
        yield _matmul(DISPATCH, DISPATCH, DISPATCH, dtype), {"implementation": implementation, **CACHED}


GROUP = 48
"""Operators of a suite that share a process: starting one takes longer than measuring a small operator."""
SECONDS_EACH = 60.0
ROUNDS = 3
"""Times that a brief suite goes through a group's operators; processes of a collective take too long to start."""


def cases_of(scenarios: Sequence[OperatorScenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario; raises `InputError` where PyTorch is missing."""
    require("torch")
    asked: dict[str, Any] = {"implementation": settings.implementation, "quick": settings.quick}
    return [case_of(scenario, ONE, **asked) for scenario in scenarios]


def measure_suite(
    suite: str,
    scenarios: Sequence[Mapping[str, Any]],
    store: Store,
    *,
    quick: bool = False,
    brief: bool = False,
    rerun: bool = False,
    on_step: OnStep = lambda _: None,
    progress: Progress = SILENT,
) -> tuple[list[Measured], list[str]]:
    """Measure the suite's scenarios, a group of the same operator in a process.

    Groups that are stored are not repeated.

    A scenario's mapping may also say how it is measured (``HOW``). ``brief`` takes a moment for each.

    Returns what was measured, and a sentence for each operator or group that was not.
    """
    require("torch")
    groups = grouped(scenarios)
    cases = [
        Case(
            name=f"{suite} {group[0]['workload']['operator']}",
            entry=SEVERAL,
            arguments={
                "operators": [asked(mapping) for mapping in group],
                "quick": quick,
                "brief": brief,
                **({"rounds": ROUNDS} if brief and group[0]["workload"]["operator"] not in COLLECTIVES else {}),
            },
            limit_s=SECONDS_EACH * len(group),
        )
        for group in groups
    ]
    runs = run_suite(cases, store, suite=suite, rerun=rerun, on_step=on_step, progress=progress)
    found, missing = [], []
    for group, run in zip(groups, runs, strict=True):
        if run.status != "ok":
            missing.append(f"{run.name}: {run.reason}")
            continue
        for mapping, result in zip(group, run.result["results"], strict=True):
            if "reason" in result:
                missing.append(result["reason"])
                continue
            scenario = operation_from_mapping(asked(mapping)["scenario"])
            found.append(Measured(scenario=scenario, run=run, profile=profile_of(scenario, result)))
    return found, missing


def asked(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a case is asked for an entry of a suite: its scenario, and how it is measured."""
    return {"scenario": {k: v for k, v in mapping.items() if k != HOW}, **mapping.get(HOW, {})}


def grouped(scenarios: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Return scenarios of the same operator together, up to as many as share a process."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for mapping in scenarios:
        kinds.setdefault(mapping["workload"]["operator"], []).append(mapping)
    return [kind[first : first + GROUP] for kind in kinds.values() for first in range(0, len(kind), GROUP)]
