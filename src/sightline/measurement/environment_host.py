"""The host as the kernel describes it: CPUs, memory, what of them this process may use."""

import os
import platform
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
