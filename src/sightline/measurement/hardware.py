"""The host and its GPUs as the kernel and the driver describe them, and whose the CPU time was.

GPUs are NVIDIA's, asked by ``nvidia-smi``; there are none without a driver.
"""

import os
import platform
import resource
import shutil
import subprocess
import time
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
    0x20: "the software's temperature limit",
    0x40: "the hardware's temperature limit",
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
