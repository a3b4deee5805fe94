"""Joules of the devices that a rank works on, where a driver counts them."""

import contextlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_POWERCAP = Path("/sys/class/powercap")


class EnergyWatch:
    """Energy since the watch was made; ``joules`` is None where nobody counts.

    GPUs by NVML (the extra named gpu), the processor's packages by the kernel's power capping, which often only root may
    read. The counters of packages start again from zero; spans over which they do are left out.
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
