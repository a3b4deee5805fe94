"""NVIDIA GPUs as the driver describes them, by ``nvidia-smi``; none where there is no driver."""

import shutil
import subprocess
from typing import Any

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
