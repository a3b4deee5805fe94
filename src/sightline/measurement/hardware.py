"""What devices say of themselves, and what a measurement takes of them: clocks, limits, energy and memory."""

import contextlib
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

PROC, SYS = Path("/proc"), Path("/sys")
_CPU0 = "devices/system/cpu/cpu0/cpufreq"


def cpu() -> dict[str, Any]:
    """Return the CPU's model, its counts, NUMA nodes, frequency range and governor."""
    described = _cpu_fields(_read(PROC / "cpuinfo"))
    sockets = {b.get("physical id", "0") for b in described}
    cores = {(b.get("physical id", "0"), b.get("core id", str(i))) for i, b in enumerate(described)}
    nodes = list((SYS / "devices/system/node").glob("node[0-9]*"))
    found: dict[str, Any] = {
        "model": (described[0].get("model name") if described else None) or platform.processor() or platform.machine(),
        "sockets": len(sockets) or None,
        "cores": len(cores) or None,
        "logical_cpus": os.cpu_count(),
        "allowed_cpus": allowed_cpus(),
        "numa_nodes": len(nodes) or None,
        "max_frequency_hz": _thousands(SYS / _CPU0 / "cpuinfo_max_freq"),
        "governor": _read(SYS / _CPU0 / "scaling_governor").strip() or None,
        "flags": [flag for flag in _WIDE if described and flag in described[0].get("flags", "").split()],
    }
    return {key: value for key, value in found.items() if value is not None}


_WIDE = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8")
"""Instruction sets that decide how fast matmuls can be."""


def allowed_cpus() -> float:
    """Return CPUs this process may use: its affinity, or the control group's quota where that is less."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(SYS / "fs/cgroup/cpu.max").strip().partition(" ")
    return min(float(affinity), int(quota) / int(period)) if quota.isdigit() and period.isdigit() else float(affinity)


def memory() -> dict[str, float]:
    """Return bytes of memory in the machine, free for use now, and allowed by the control group."""
    lines = dict(line.split(":", 1) for line in _read(PROC / "meminfo").splitlines() if ":" in line)
    found = {
        key: float(lines[name].split()[0]) * 1024
        for key, name in (("total_bytes", "MemTotal"), ("available_bytes", "MemAvailable"))
        if name in lines
    }
    limit = _read(SYS / "fs/cgroup/memory.max").strip()
    return found | ({"limit_bytes": float(limit)} if limit.isdigit() else {})


def cpu_frequency_hz() -> float | None:
    """Return the mean frequency of the CPUs now."""
    megahertz = [float(b["cpu MHz"]) for b in _cpu_fields(_read(PROC / "cpuinfo")) if "cpu MHz" in b]
    return sum(megahertz) / len(megahertz) * 1e6 if megahertz else None


def load_average() -> list[float] | None:
    """Return the mean number of processes that wanted a CPU over 1, 5 and 15 minutes."""
    return [round(load, 2) for load in os.getloadavg()] if hasattr(os, "getloadavg") else None


def _cpu_fields(text: str) -> list[dict[str, str]]:
    """Return the blocks of /proc/cpuinfo, one per logical CPU."""
    blocks = (block.splitlines() for block in text.strip().split("\n\n"))
    found = [{k.strip(): v.strip() for k, _, v in (line.partition(":") for line in block)} for block in blocks]
    return [block for block in found if "processor" in block]


def _thousands(path: Path) -> float | None:
    text = _read(path).strip()
    return float(text) * 1e3 if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


_TIMEOUT_S = 20

_FIXED = {
    "index": ("index", 1.0),
    "name": ("name", None),
    "uuid": ("uuid", None),
    "driver": ("driver_version", None),
    "memory_bytes": ("memory.total", 2.0**20),
    "power_limit_w": ("power.limit", 1.0),
    "max_clock_hz": ("clocks.max.sm", 1e6),
    "max_memory_clock_hz": ("clocks.max.memory", 1e6),
    "pcie_generation": ("pcie.link.gen.max", 1.0),
    "pcie_lanes": ("pcie.link.width.max", 1.0),
    "persistence": ("persistence_mode", None),
    "mig": ("mig.mode.current", None),
    "ecc": ("ecc.mode.current", None),
}
_CHANGING = {
    "index": ("index", 1.0),
    "clock_hz": ("clocks.sm", 1e6),
    "memory_clock_hz": ("clocks.mem", 1e6),
    "temperature_c": ("temperature.gpu", 1.0),
    "power_w": ("power.draw", 1.0),
    "utilization": ("utilization.gpu", 0.01),
    "memory_used_bytes": ("memory.used", 2.0**20),
    "throttle_reasons": ("clocks_throttle_reasons.active", None),
}
"""Our key: the driver's field, and what its number is multiplied by (None: a text)."""

_THROTTLES = {
    0x4: "the power cap",
    0x8: "the hardware",
    0x20: "the software temperature limit",
    0x40: "the hardware temperature limit",
    0x80: "the power brake",
}
"""Bits of the driver's throttle reasons that mean slower than asked for (nvml.h, nvmlClocksThrottleReasons)."""


def gpus() -> list[dict[str, Any]]:
    """Return what each GPU is: name, memory, driver, power cap, highest clocks, PCIe link, modes."""
    return _asked(_FIXED)


def gpu_conditions() -> list[dict[str, Any]]:
    """Return how each GPU is now: clocks, temperature, power, utilization, memory in use, what slows it."""
    return [_with_throttles(gpu) for gpu in _asked(_CHANGING)]


def parsed(text: str, fields: dict[str, tuple[str, float | None]]) -> list[dict[str, Any]]:
    """Read the driver's CSV without headers or units; what it does not know ("[N/A]") is left out."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = zip(fields.items(), map(str.strip, line.split(",")), strict=False)
        values = {key: _value(cell, factor) for (key, (_, factor)), cell in cells}
        found.append({key: value for key, value in values.items() if value is not None})
    return found


def _asked(fields: dict[str, tuple[str, float | None]]) -> list[dict[str, Any]]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = ",".join(name for name, _ in fields.values())
    try:
        answer = subprocess.run(  # noqa: S603 - the driver's own program
            [program, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return parsed(answer.stdout, fields)


def _value(cell: str, factor: float | None) -> Any:
    if cell.startswith("[") or cell in {"", "N/A"}:
        return None
    if factor is None:
        return cell
    try:
        number = float(cell) * factor
    except ValueError:
        return None
    return int(number) if number.is_integer() else number


def _with_throttles(gpu: dict[str, Any]) -> dict[str, Any]:
    try:
        bits = int(gpu.pop("throttle_reasons", "0"), 16)
    except ValueError:
        bits = 0
    reasons = [name for bit, name in _THROTTLES.items() if bits & bit]
    return gpu | ({"throttled": ", ".join(reasons)} if reasons else {})


_STAT = Path("/proc/stat")
_IDLE, _WAITING = 3, 4
"""Places in the first line of /proc/stat, after its name."""


class CpuWatch:
    """CPU time since the watch was made: of this process and its ended children, and of everybody else.

    The machine's figures are the kernel's own (/proc/stat); in a container they are the whole host's.
    """

    def __init__(self) -> None:
        self._ours, self._busy, self._start = _ours(), _busy(), time.monotonic()

    def ours(self) -> float:
        """Return CPU seconds of this process and of all descendants it has collected."""
        return _ours() - self._ours

    @staticmethod
    def largest_child() -> float:
        """Return the most bytes that one of the collected descendants ever held."""
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024.0

    def others(self) -> float:
        """Return the share of all CPUs' time that others had, stolen time included; 0 where the kernel does not say."""
        busy, elapsed = _busy(), time.monotonic() - self._start
        if busy is None or self._busy is None or elapsed <= 0:
            return 0.0
        others = busy - self._busy - self.ours()
        # The kernel counts in ticks of 10 ms per CPU: short spans cannot be told from nothing.
        return max(0.0, others) / (elapsed * (os.cpu_count() or 1)) if elapsed > 0.2 else 0.0


def _ours() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _busy() -> float | None:
    try:
        ticks = [int(field) for field in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    return sum(t for place, t in enumerate(ticks) if place not in (_IDLE, _WAITING)) / os.sysconf("SC_CLK_TCK")


_STATUS, _REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class MemoryWatch:
    """Begin before the model is built, restart after warm-up, read at the end; bytes."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.before = self._held()

    def restart(self) -> None:
        """Let peaks count from now on."""
        if self.device == "cpu":
            # The kernel forgets the largest resident size it has seen.
            with contextlib.suppress(OSError):
                _REFERENCES.write_text("5", encoding="ascii")
        else:
            import torch

            torch.cuda.reset_peak_memory_stats(self.device)

    def read(self) -> dict[str, float]:
        """Return peaks: of the process or device, and of the allocator where there is one."""
        if self.device == "cpu":
            return {"before": self.before, "process": _status_bytes("VmHWM")}
        import torch

        free, total = torch.cuda.mem_get_info(self.device)
        return {
            "before": self.before,
            "allocated": float(torch.cuda.max_memory_allocated(self.device)),
            "reserved": float(torch.cuda.max_memory_reserved(self.device)),
            "device": float(total - free),
        }

    def _held(self) -> float:
        """What is taken before the first tensor."""
        import torch

        if self.device == "cpu":
            _settle()
            return _status_bytes("VmRSS")
        torch.zeros(1, device=self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        return float(total - free)


def _settle() -> None:
    """Let libraries set up what they do in any first step: threads, the backward pass, the optimizer's own code."""
    import torch

    with torch.random.fork_rng(devices=[]):
        layer = torch.nn.Linear(8, 8)
    layer(torch.ones(1, 8)).sum().backward()
    torch.optim.AdamW(layer.parameters()).step()


def state_bytes(model: Any, optimizer: Any) -> dict[str, float]:
    """Return what a rank holds for good: its own part of weights, gradients and optimizer state."""
    parameters = list(model.parameters())
    trained = [p for p in parameters if p.requires_grad]
    return {
        "weights": _bytes(parameters) + _bytes(model.buffers()),
        "gradients": _bytes(trained) * getattr(optimizer, "gradient_share", 1.0),
        "optimizer": _bytes(_tensors(getattr(optimizer, "state", {}))),
    }


def _bytes(tensors: Iterable[Any]) -> float:
    """Bytes of tensors, each once.

    Split ones (PyTorch, DeepSpeed) count with this rank's part, packed ones with their scales.
    """
    total, seen = 0.0, set()
    for tensor in tensors:
        local = tensor.to_local() if hasattr(tensor, "to_local") else getattr(tensor, "ds_tensor", tensor)
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        total += local.numel() * local.element_size()
        scales = getattr(tensor, "quant_state", None)
        if scales is not None:
            total += sum(t.numel() * t.element_size() for t in _tensors(vars(scales)))
    return total


def _tensors(value: Any) -> list[Any]:
    """All tensors inside nested mappings, lists and plain objects of bitsandbytes."""
    if hasattr(value, "element_size") and hasattr(value, "numel"):
        return [value]
    if isinstance(value, Mapping):
        return [t for item in value.values() for t in _tensors(item)]
    if isinstance(value, list | tuple):
        return [t for item in value for t in _tensors(item)]
    if type(value).__name__ == "QuantState":
        return _tensors(vars(value))
    return []


def _status_bytes(key: str) -> float:
    """A line of the kernel's own account of this process, in bytes; 0 where there is none."""
    try:
        found = re.search(rf"^{key}:\s+(\d+) kB$", _STATUS.read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return 0.0
    return float(found[1]) * 1024 if found else 0.0


_POWERCAP = Path("/sys/class/powercap")


class EnergyWatch:
    """Energy since the watch was made; ``joules`` is None where no counter is readable.

    GPUs by NVML (the extra named gpu), the processor's packages by the kernel's power capping, which often only root
    may read. The counters of packages start again from zero; spans over which they do are left out.
    """

    def __init__(self, device: str) -> None:
        self._read = _packages if device == "cpu" else _gpu(int(device.partition(":")[2] or 0))
        self._before = self._read()

    def joules(self) -> float | None:
        """Return what was used since, or None."""
        after = self._read()
        if after is None or self._before is None or after < self._before:
            return None
        return after - self._before


def _packages() -> float | None:
    counters = list(_POWERCAP.glob("intel-rapl:?/energy_uj"))
    try:
        return sum(int(c.read_text(encoding="ascii")) for c in counters) * 1e-6 if counters else None
    except (OSError, ValueError):
        return None


def _gpu(index: int) -> Callable[[], float | None]:
    with contextlib.suppress(ImportError):
        nvml: Any = import_module("pynvml")

        def read() -> float | None:
            try:
                return float(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) * 1e-3
            except nvml.NVMLError:
                return None

        try:
            nvml.nvmlInit()
            handle = nvml.nvmlDeviceGetHandleByUUID(_uuid(index))
        except nvml.NVMLError:
            return lambda: None
        return read
    return lambda: None


def _uuid(index: int) -> str:
    """The driver's name of a device: it counts others than those that this process may see."""
    import torch

    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"
