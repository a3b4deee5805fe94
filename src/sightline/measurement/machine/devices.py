"""Which devices of this machine a scenario or a suite runs on: its processor, or its GPUs."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.loading.clusters import read_cluster, read_device
from sightline.loading.clusters.driver_names import catalog_name
from sightline.loading.clusters.this_machine import THIS_MACHINE, processor
from sightline.measurement.machine.hardware import gpus
from sightline.measurement.machine.record import require
from sightline.measurement.machine.timing import Clock, HostClock
from sightline.scenario import Cluster, Device

CPU_DTYPES = ("fp32", "bf16", "fp16")
GPU_DTYPES = ("fp32", "tf32", "bf16", "fp16")
TORCH_DTYPES: Mapping[str, str] = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""PyTorch's name of each dtype."""


def import_torch() -> Any:
    """Return PyTorch; raises `InputError` with the command that installs it."""
    require("torch")
    import torch

    return torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this node gives to the ranks of a scenario that run on it."""

    kind: str
    """cpu or cuda, as PyTorch calls it."""
    cache_bytes: float
    """Of the last level; sets of buffers that are used in rotation fill several times as much."""
    memory_bytes: float
    clock: Clock
    dtypes: tuple[str, ...]
    ranks: int
    threads: int
    """Of each rank: its share of the cores."""

    @property
    def variables(self) -> Mapping[str, str]:
        """What ranks read from their environment."""
        accelerator = {"DS_ACCELERATOR": "cpu"} if self.kind == "cpu" else {}
        return {"SIGHTLINE_DEVICE": self.kind, **accelerator}

    def dtype(self, name: str, key: str = "workload.dtype") -> Any:
        """Return PyTorch's type; raises `InputError` for one that this machine is not measured in."""
        torch = import_torch()
        if name not in self.dtypes:
            raise InputError(f"{key} is '{name}'; measured on this machine: {', '.join(self.dtypes)}")
        if name == "tf32":
            torch.backends.cuda.matmul.allow_tf32 = True
        return getattr(torch, TORCH_DTYPES[name])


def wait_for(device: str) -> None:
    """Wait until a device has done all that it was asked for; on a processor calls return when their work is done."""
    if device != "cpu":
        import_torch().cuda.synchronize()


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
        for number in range(first, first + count):
            call(number)
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


def machine_of(cluster: Cluster, nodes: int = 1, nodes_here: int = 1) -> Machine:
    """Return what this node is for a scenario over ``nodes`` nodes, without starting anything on its devices.

    ``nodes_here`` of them share this machine, as processes of torchrun do.

    Raises:
        InputError: The scenario's devices are not here, or their number can't be divided among the nodes.
    """
    ranks, rest = divmod(cluster.devices, nodes)
    if rest or not ranks:
        raise InputError(f"cluster is {cluster.name}; its {cluster.devices} devices can't be divided by {nodes} nodes")
    if cluster.device.name == THIS_MACHINE:
        p = processor()
        return Machine(
            kind="cpu",
            cache_bytes=p.cache_bytes,
            memory_bytes=p.memory_bytes,
            clock=HostClock(),
            dtypes=CPU_DTYPES,
            ranks=ranks,
            threads=max(1, p.cores // (ranks * nodes_here)),
        )
    torch = import_torch()
    found = gpus() if torch.version.cuda else []
    if len(found) < ranks:
        has = f"{len(found)} GPUs" if found else f"no GPU that PyTorch {torch.__version__} can use"
        raise InputError(
            f"cluster is {cluster.name}; a scenario is measured on the machine at hand, which has {has}: "
            f"--set cluster={THIS_MACHINE} measures its processor"
        )
    other = [gpu["name"] for gpu in found[:ranks] if catalog_name(gpu) != cluster.device.name]
    if other:
        raise InputError(f"cluster is {cluster.name}; a scenario is measured on the machine at hand, a {other[0]}")
    return Machine(
        kind="cuda",
        cache_bytes=float(cluster.device.l2_bytes),
        memory_bytes=float(found[0]["memory_bytes"]),
        clock=DeviceClock(),
        dtypes=GPU_DTYPES,
        ranks=ranks,
        threads=max(1, (os.cpu_count() or 1) // (ranks * nodes_here)),
    )


def threads_asked(cores: int) -> int:
    """Return the threads of a rank with so many cores: fewer where ``OMP_NUM_THREADS`` says so."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(asked)) if asked.isdigit() and int(asked) else cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Accelerators of one kind, or a processor whose cores several processes share."""

    device: Device
    count: int
    """GPUs; on a processor the processes that still have a core each, two at most."""

    @property
    def is_processor(self) -> bool:
        """Whether operators run on the processor itself."""
        return self.device.name == THIS_MACHINE

    def cluster(self, devices: int) -> str:
        """Return the scenario's ``cluster`` for that many of them."""
        return f"{devices}x {self.device.name}"


def hardware_at_hand() -> Hardware:
    """Return what this machine has: its first kind of GPU where the catalog knows it, else its processor."""
    found = gpus()
    name = catalog_name(found[0]) if found else None
    if name is None:
        return Hardware(device=read_cluster(THIS_MACHINE).device, count=min(processor().cores, 2))
    same = [gpu for gpu in found if gpu["name"] == found[0]["name"]]
    return Hardware(device=read_device(name), count=len(same))
