"""Describe this machine: the devices that a scenario runs on, and the environment that a measurement records."""

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from sightline.errors import InputError, install
from sightline.loading.clusters import read_cluster, read_device
from sightline.loading.clusters.cluster import catalog_name
from sightline.loading.clusters.this_machine import THIS_MACHINE, processor
from sightline.measurement.hardware import cpu, cpu_frequency_hz, gpu_conditions, gpus, load_average, memory
from sightline.measurement.timing import Clock, HostClock
from sightline.quantities import percent
from sightline.scenario import Cluster, Device

LIBRARIES = (
    *("sightline", "numpy", "torch", "transformers", "peft", "accelerate", "bitsandbytes", "torchao"),
    *("deepspeed", "megatron-core", "flash-attn", "triton", "vllm"),
)
_SETTINGS = (
    *("SIGHTLINE_CLOCK", "CUDA_", "NCCL_", "GLOO_", "TORCH", "PYTORCH_", "OMP_", "MKL_", "KMP_", "OPENBLAS_"),
    *("GOMP_", "MALLOC_"),
)
_OTHERS_CPU, _IDLE_GPU = 0.10, 0.05


def record_environment() -> dict[str, Any]:
    """Return everything that stays as it is while a suite runs; numbers in SI units, what cannot be read left out."""
    return {
        "cpu": cpu(),
        "memory": memory(),
        "gpus": gpus(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "host": platform.node(),
        "python": platform.python_version(),
        "libraries": libraries(),
        "variables": {k: v for k, v in sorted(os.environ.items()) if k.startswith(_SETTINGS) or k == "LD_PRELOAD"},
        "folder": os.getcwd(),  # noqa: PTH109 - a string
    }


def conditions() -> dict[str, Any]:
    """Return what changes from minute to minute: load, clocks, temperature, power."""
    found = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": load_average(),
        "cpu_frequency_hz": cpu_frequency_hz(),
        "gpus": gpu_conditions(),
    }
    return {key: value for key, value in found.items() if value not in (None, [])}


def contention(before: Mapping[str, Any], after: Mapping[str, Any], others_cpu_fraction: float) -> list[str]:
    """Return in sentences why a measurement between these conditions may have been disturbed; none when it was not.

    The load average alone would accuse a suite of its own work, so the work of others is measured by CPU time.
    """
    found = []
    if others_cpu_fraction > _OTHERS_CPU:
        found.append(f"other processes used {percent(others_cpu_fraction)} of the CPU time")
    found += [
        f"GPU {gpu['index']} was {percent(gpu['utilization'])} busy before it started"
        for gpu in before.get("gpus", [])
        if gpu.get("utilization", 0.0) > _IDLE_GPU
    ]
    found += [
        f"GPU {gpu['index']} slowed its clocks: {gpu['throttled']}"
        for gpu in after.get("gpus", [])
        if gpu.get("throttled")
    ]
    return found


def environment_class(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a record that a result depends on: another class means measuring again.

    Left out are the host's name, folders, command, clocks and temperatures: results differ by them, but not in kind.
    """
    cpu_of, gpus_of = environment["cpu"], environment["gpus"]
    kept = ("name", "memory_bytes", "driver", "power_limit_w", "mig")
    return {
        "cpu": {key: cpu_of.get(key) for key in ("model", "allowed_cpus")},
        "gpus": [{key: gpu.get(key) for key in kept} for gpu in gpus_of],
        "libraries": {k: v for k, v in environment["libraries"].items() if k != "sightline"},
        "variables": environment["variables"],
    }


PACKAGES = {"torch": "PyTorch"}
"""What a package is called, where that is not its name."""
BESIDE = {"deepspeed": "measure,deepspeed", "megatron": "measure,megatron"}
"""Extras of packages that the extra named measure leaves out."""


def missing(*packages: str, what: str = "measuring") -> list[str]:
    """Return a sentence for each package that ``what`` needs and that is not installed, with the command for it."""
    return [
        f"{what} needs {PACKAGES.get(name, name)}, which is not installed; run {_install(name)}"
        for name in packages
        if find_spec(name) is None
    ]


def _install(package: str) -> str:
    """The command that installs a package."""
    extras = BESIDE.get(package, "measure")
    return f"DS_BUILD_OPS=0 {install(extras, '--no-build-isolation ')}" if package == "deepspeed" else install(extras)


def require(*packages: str, what: str = "measuring") -> None:
    """Raise `InputError` where one of these packages is missing."""
    if sentences := missing(*packages, what=what):
        raise InputError(sentences)


def libraries() -> dict[str, str]:
    """Return the installed versions of what measurements depend on."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


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
            raise InputError(f"{key} is '{name}'; allowed on this machine: {', '.join(self.dtypes)}")
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
        raise InputError(f"cluster is {cluster.name}; its {cluster.devices} devices cannot be divided by {nodes} nodes")
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
        has = f"{len(found)} GPUs" if found else f"no GPU usable by PyTorch {torch.__version__}"
        raise InputError(
            f"cluster is {cluster.name}, but this machine has {has}; to measure its CPU, use --set "
            f"cluster={THIS_MACHINE}"
        )
    other = [gpu["name"] for gpu in found[:ranks] if catalog_name(gpu) != cluster.device.name]
    if other:
        raise InputError(f"cluster is {cluster.name}, but this machine has a {other[0]}")
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
