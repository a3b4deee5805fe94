"""The part of this machine that operators run on, by PyTorch: its processor, or one of its GPUs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.loading.this_machine import THIS_MACHINE, processor
from sightline.measurement.timing import Clock, HostClock
from sightline.scenario import Cluster

INSTALL = "pip install 'sightline[measure]'"
CPU_DTYPES = ("fp32", "bf16", "fp16")
GPU_DTYPES = ("fp32", "tf32", "bf16", "fp16")


def import_torch() -> Any:
    """Return PyTorch; raises `InputError` with the command that installs it."""
    try:
        import torch
    except ImportError:
        raise InputError(f"measuring needs PyTorch, which is not installed: {INSTALL}") from None
    return torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where operators run."""

    kind: str
    """cpu or cuda, as PyTorch calls it."""
    cache_bytes: float
    """Of the last level; buffers that take turns fill several times as much."""
    memory_bytes: float
    clock: Clock
    dtypes: tuple[str, ...]
    ranks: int
    threads: int
    """Of each rank."""

    def dtype(self, name: str) -> Any:
        """Return PyTorch's type; raises `InputError` for one that this machine is not measured in."""
        torch = import_torch()
        if name not in self.dtypes:
            raise InputError(f"workload.dtype is '{name}'; measured on this machine: {', '.join(self.dtypes)}")
        if name == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
        known: Mapping[str, Any] = {
            "fp32": torch.float32,
            "tf32": torch.float32,
            "bf16": torch.bfloat16,
            "fp16": torch.float16,
        }
        return known[name]


class DeviceClock(HostClock):
    """Device time by events around calls; the host runs ahead meanwhile, so that its launches are not counted."""

    resolution_s = 2e-4
    AHEAD_CYCLES = 200_000
    """Clock cycles that the device is kept waiting for each call to be launched."""

    def measure(self, call: Callable[[int], object], first: int, count: int) -> float:
        """Seconds between two events, the calls being in the queue when the first one passes."""
        torch = import_torch()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(self.AHEAD_CYCLES * min(count, 100))  # noqa: SLF001 - the usual way to keep a device waiting
        begin.record()
        for turn in range(first, first + count):
            call(turn)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


def machine_of(cluster: Cluster) -> Machine:
    """Return where the scenario's operators run; raises `InputError` where this machine is another one."""
    torch = import_torch()
    ranks = cluster.devices
    if cluster.device.name == THIS_MACHINE:
        p = processor()
        threads = max(1, p.cores // ranks)
        torch.set_num_threads(threads)
        return Machine(
            kind="cpu",
            cache_bytes=p.cache_bytes,
            memory_bytes=p.memory_bytes,
            clock=HostClock(),
            dtypes=CPU_DTYPES,
            ranks=ranks,
            threads=threads,
        )
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if gpus < ranks:
        has = f"{gpus} GPUs" if gpus else f"no GPU that PyTorch {torch.__version__} can use"
        raise InputError(
            f"cluster is {cluster.name}; operators are measured on the machine at hand, which has {has}: "
            f"--set cluster={THIS_MACHINE} measures its processor"
        )
    return _gpu(torch, cluster)


def _gpu(torch: Any, cluster: Cluster) -> Machine:
    found = torch.cuda.get_device_properties(0)
    words = cluster.device.name.split("-")
    name = found.name.lower().replace("-", " ")
    if not all(word in name for word in words[: 1 + (words[0] == "rtx")]):
        raise InputError(f"cluster is {cluster.name}; operators are measured on the machine at hand, a {found.name}")
    return Machine(
        kind="cuda",
        cache_bytes=float(found.L2_cache_size),
        memory_bytes=float(found.total_memory),
        clock=DeviceClock(),
        dtypes=GPU_DTYPES,
        ranks=cluster.devices,
        threads=torch.get_num_threads(),
    )
