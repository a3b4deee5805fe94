"""``this-machine``: the processor that Sightline runs on, as a cluster whose devices share it evenly.

Found without PyTorch: cores, clock, vector width and caches as the system states them, memory bandwidth by copying.
``Nx this-machine`` stands for N processes, each with its share of cores, caches and memory. An entry of that name in a
folder of ``SIGHTLINE_CATALOG`` is taken instead, so that constants fitted to it keep meaning the same.
"""

import os
import platform
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sightline import catalog
from sightline.loading.checks import Complaints
from sightline.loading.clusters.hardware import DEVICE, read_part

THIS_MACHINE = "this-machine"
RELATIVES = ("processor",)
"""Families of processors that stand in where this one was not measured."""

FLOPS_PER_CYCLE = {"avx512f": 64.0, "fma": 32.0, "avx": 16.0, "sve": 32.0, "asimd": 16.0, "neon": 16.0}
"""Of a core in fp32, by the widest instructions it has: two units that multiply and add vectors."""
PLAIN_FLOPS_PER_CYCLE = 8.0
"""Of a core about which nothing is known: vectors of 128 bits."""
FASTER = {
    "bf16": {"amx_bf16": 16.0, "avx512_bf16": 2.0, "bf16": 2.0},
    "fp16": {"amx_fp16": 16.0, "avx512_fp16": 2.0, "asimdhp": 2.0},
}
"""How many times the rate in fp32 a core multiplies 16-bit numbers at; without these they are converted to fp32."""
ASSUMED_HZ = 2.5e9
ASSUMED_CACHE_BYTES = 32 * 2**20
WATTS_PER_CORE, IDLE_SHARE = 10.0, 0.3
LOOPBACK = {"bandwidth": 2e9, "latency": 3e-5}
"""What processes of one machine send each other over its own network interface: orders of magnitude."""

COPIED_BYTES = 2**18
"""Bytes copied at a time: too few for other processes to come in between as a rule."""
COPIES = 4
FASTEST = 0.1
"""Quantile of the pieces' times that counts: what else the machine does can only slow a copy down."""


class Processor(NamedTuple):
    """The processor as the operating system describes it."""

    name: str
    cores: int
    """Those that this process may run on."""
    hertz: float
    flags: frozenset[str]
    cache_bytes: float
    """Of the last level."""
    memory_bytes: float


def this_machine(ranks: int) -> dict[str, Any]:
    """Return the keys of ``cluster`` for ``ranks`` processes that share this machine's processor."""
    p = processor()
    device = _device()
    estimated = {"source": "orders of magnitude for processes of one machine"}
    return {
        "name": f"{ranks}x {THIS_MACHINE}",
        "devices": ranks,
        "per_node": ranks,
        "device": share_of(device, ranks),
        "intra_node": {"name": "loopback", **LOOPBACK, "topology": "full-mesh", **estimated},
        "network": {
            "name": "loopback",
            "bandwidth_per_node": LOOPBACK["bandwidth"],
            "latency": LOOPBACK["latency"],
            **estimated,
        },
        "host": {
            "name": p.name,
            "memory": p.memory_bytes,
            "memory_bandwidth": device["memory_bandwidth"],
            "cores": p.cores,
            "source": "detected",
        },
    }


def share_of(device: Mapping[str, Any], ranks: int) -> dict[str, Any]:
    """Return a device's figures, under the keys of a catalog's, as each of ``ranks`` processes has them."""
    shared = {"memory", "memory_bandwidth", "l2", "l2_bandwidth", "vector_flops", "tdp", "idle_power"}
    return {
        **{k: v / ranks if k in shared else v for k, v in device.items()},
        "peak_flops": {dtype: rate / ranks for dtype, rate in device["peak_flops"].items()},
        "compute_units": max(1, int(device["compute_units"] // ranks)),
    }


def _device() -> dict[str, Any]:
    """The whole processor: as a catalog folder of the user's states it, or as it is found."""
    if THIS_MACHINE not in catalog.names("devices"):
        return detected()
    complaints = Complaints()
    stated = read_part(DEVICE, THIS_MACHINE, None, complaints)
    complaints.raise_any()
    return dict(stated or {})


@cache
def detected() -> dict[str, Any]:
    """Return the processor under the keys of a catalog's device; takes a tenth of a second, for copying memory."""
    p = processor()
    per_cycle = next((rate for flag, rate in FLOPS_PER_CYCLE.items() if flag in p.flags), PLAIN_FLOPS_PER_CYCLE)
    fp32 = p.cores * p.hertz * per_cycle
    families = {name.partition("/")[0] for name in catalog.names("calibrations")}
    known = (THIS_MACHINE, *RELATIVES)
    return {
        "name": THIS_MACHINE,
        "peak_flops": {"fp32": fp32, **{dtype: fp32 * _faster(dtype, p.flags) for dtype in FASTER}},
        "memory": p.memory_bytes,
        "memory_bandwidth": copy_bandwidth(4 * p.cache_bytes, p.cores),
        "l2": p.cache_bytes,
        "l2_bandwidth": copy_bandwidth(p.cache_bytes / 4, p.cores),
        "compute_units": p.cores,
        "tdp": WATTS_PER_CORE * p.cores,
        "idle_power": WATTS_PER_CORE * p.cores * IDLE_SHARE,
        "vector_flops": fp32,
        "calibration": next((family for family in known if family in families), "generic"),
        "relatives": [family for family in RELATIVES if family in families],
        "source": f"{p.name}: {p.cores} cores at {p.hertz / 1000000000.0:g} GHz, {per_cycle:g} FLOP per cycle; "
        f"measured copy bandwidth; assumed power of {WATTS_PER_CORE:g} W per core",
    }


def _faster(dtype: str, flags: frozenset[str]) -> float:
    return next((times for flag, times in FASTER[dtype].items() if flag in flags), 1.0)


@cache
def processor() -> Processor:
    """Return the processor as the operating system describes it; what is missing there is assumed."""
    info = _text("/proc/cpuinfo")
    name = _field(info, "model name") or platform.processor() or platform.machine() or "processor"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Processor(
        name=" ".join(name.split()),
        cores=cores,
        hertz=_hertz(info, name),
        flags=frozenset((_field(info, "flags") or _field(info, "Features")).split()),
        cache_bytes=_cache_bytes(),
        memory_bytes=_memory_bytes(),
    )


def _hertz(info: str, name: str) -> float:
    """The base clock where the name tells it, else the highest or the present one."""
    if found := re.search(r"@ *([\d.]+) *GHz", name):
        return float(found[1]) * 1e9
    if (highest := _text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").strip()).isdigit():
        return float(highest) * 1e3
    try:
        return float(_field(info, "cpu MHz")) * 1e6
    except ValueError:
        return ASSUMED_HZ


def _cache_bytes() -> float:
    """The largest cache that a core sees."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    stated = [_text(str(p)).strip() for p in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    sizes = [int(s[:-1]) * units[s[-1]] for s in stated if s[:-1].isdigit() and s[-1] in units]
    return float(max(sizes, default=ASSUMED_CACHE_BYTES))


def _memory_bytes() -> float:
    """Memory of the machine, or what its control group grants this process."""
    total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if hasattr(os, "sysconf") else 16e9
    granted = _text("/sys/fs/cgroup/memory.max").strip()
    return min(total, float(granted)) if granted.isdigit() else total


def _field(info: str, key: str) -> str:
    found = re.search(rf"^{key}\s*:\s*(.*)$", info, re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def copy_bandwidth(size: float, threads: int) -> float:
    """Return bytes read and written per second by copies within ``size`` bytes that threads share, all at once."""
    from concurrent.futures import ThreadPoolExecutor

    part = max(int(size) // threads // 2 // COPIED_BYTES, 1) * COPIED_BYTES
    buffers = [(np.ones(part, dtype=np.uint8), np.ones(part, dtype=np.uint8)) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(_piecewise, buffers))


def _piecewise(buffers: tuple[NDArray[np.uint8], NDArray[np.uint8]]) -> float:
    """The rate of one thread that goes through its buffers piece by piece, several times."""
    source, target = buffers
    seconds = []
    for _ in range(COPIES):
        for first in range(0, len(source), COPIED_BYTES):
            piece = slice(first, first + COPIED_BYTES)
            begin = perf_counter()
            np.copyto(target[piece], source[piece])
            seconds.append(perf_counter() - begin)
    return 2 * COPIED_BYTES / float(np.quantile(seconds, FASTEST))
