"""Collectives by torch.distributed: a process per rank on this machine, gloo between processors and NCCL between GPUs.

Ranks (``python -m sightline.measurement.operators.collectives '{...}'``) take the same number of calls at the same time,
and a sample is the slowest rank's.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, WorkError
from sightline.measurement.machine.devices import DeviceClock, Machine
from sightline.measurement.machine.timing import Clock, HostClock, Rule, Timing, measure_calls
from sightline.measurement.operators.case import chosen
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
    with tempfile.TemporaryDirectory(prefix="sightline-") as folder:
        asked = {
            "operator": x.operator,
            "bytes": int(x.bytes),
            "kind": machine.kind,
            "library": library,
            "ranks": machine.ranks,
            "threads": machine.threads,
            "rendezvous": str(Path(folder) / "ranks"),
            "rule": {name: getattr(rule, name) for name in rule.__dataclass_fields__},
        }
        said = _run(asked, START_S + 4 * (rule.warm_up_s + rule.longest_s))
    for seconds in said["samples"]:
        on_sample(seconds)
    return Timing(**said), library


def _run(asked: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
    """Start the ranks, wait for the first one's answer, and leave none behind."""
    threads = str(asked["threads"])
    environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    command = [sys.executable, "-m", "sightline.measurement.operators.collectives"]
    ranks = [
        subprocess.Popen(  # noqa: S603 - our own module
            [*command, json.dumps({**asked, "rank": rank})],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(asked["ranks"])
    ]
    try:
        answers = [rank.communicate(timeout=limit_s) for rank in ranks]
    except subprocess.TimeoutExpired:
        raise WorkError(f"{asked['operator']}: the ranks did not finish within {limit_s:.0f} s") from None
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    failed = [i for i, rank in enumerate(ranks) if rank.returncode]
    if failed:
        lines = answers[failed[0]][1].strip().splitlines() or [f"exit code {ranks[failed[0]].returncode}"]
        raise WorkError(f"{asked['operator']} over {asked['library']}: rank {failed[0]} failed: {lines[-1]}")
    said: dict[str, Any] = json.loads(answers[0][0].splitlines()[-1])
    return said


ELEMENT_BYTES = 4
PATIENCE = timedelta(seconds=60)


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


def main(asked: Mapping[str, Any]) -> None:
    """Join the others, measure, and print the times if this is the first rank."""
    import torch
    import torch.distributed as dist

    rank, ranks, device = asked["rank"], asked["ranks"], asked["kind"]
    torch.set_num_threads(asked["threads"])
    if device == "cuda":
        torch.cuda.set_device(rank)
    dist.init_process_group(
        asked["library"], init_method=f"file://{asked['rendezvous']}", rank=rank, world_size=ranks, timeout=PATIENCE
    )
    try:
        call = _collective(asked["operator"], asked["bytes"], rank, ranks, device)
        clock = SlowestRank(DeviceClock() if device == "cuda" else HostClock(), device)
        timing = measure_calls(call, clock, Rule(**asked["rule"]))
        if rank == 0:
            figures = {name: getattr(timing, name) for name in timing.__dataclass_fields__}
            print(json.dumps(figures))  # noqa: T201 - the answer to the process that asked
    finally:
        dist.destroy_process_group()


def _collective(operator: str, size: int, rank: int, ranks: int, device: str) -> Callable[[int], object]:
    """The call, over buffers as nccl-tests counts them: what is gathered, what is reduced, one rank's part of the rest."""
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


if __name__ == "__main__":
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    main(json.loads(sys.argv[1]))
