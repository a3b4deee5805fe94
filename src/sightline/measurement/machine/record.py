"""What a measurement ran on: hardware, software, settings, and how busy and how warm the machine was."""

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from importlib.util import find_spec
from typing import Any

from sightline.errors import InputError, install
from sightline.measurement.machine.hardware import cpu, cpu_frequency_hz, gpu_conditions, gpus, load_average, memory
from sightline.quantities import percent

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
        found.append(f"other processes had {percent(others_cpu_fraction)} of the machine's CPU time")
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
        f"{what} needs {PACKAGES.get(name, name)}, which is not installed: {_install(name)}"
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
