"""Collectives by torch.distributed: a process per rank on this machine, gloo between processors and NCCL between GPUs.

Ranks take the same number of calls at the same time, and a sample is the slowest rank's.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, WorkError
from sightline.measurement.machine.devices import DeviceClock, Machine, import_torch
from sightline.measurement.machine.timing import Clock, HostClock, Rule, Timing, measure_calls
from sightline.measurement.operators.case import chosen
from sightline.measurement.processes.case import Emit
from sightline.measurement.processes.isolation import run_case
from sightline.measurement.processes.ranks import Ranks, join, run_ranks
from sightline.scenario import CollectiveOperation

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
