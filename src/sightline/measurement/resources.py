"""Memory and energy of one rank: what its device's allocator, the kernel and the driver count."""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

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
