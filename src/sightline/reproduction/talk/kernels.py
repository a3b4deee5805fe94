"""Kernels of attention and the compiler, on one training step."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.asking import Ask, Tables

BASE: Mapping[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 16},
}
PLAN: Mapping[str, Any] = {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1}
DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb")
KERNELS: Mapping[str, Mapping[str, Any]] = {
    "eager": {"attention": "eager"},
    "FlashAttention-2": {"attention": "flash", "attention_kernel": "flash-2"},
    "FlashAttention-3": {"attention": "flash", "attention_kernel": "flash-3"},
    "cuDNN": {"attention": "flash", "attention_kernel": "cudnn"},
}
NEEDS_HOPPER = {"FlashAttention-3"}
"""Kernels that A100 does not run."""
COMPILERS = {False: "eager mode", True: "torch.compile"}
ABOUT: Mapping[str, Column] = {
    "device": Column(label="devices"),
    "kernel": Column(label="attention"),
    "compiler": Column(label="other operators"),
    "step_time_s": Column(label="step", unit="s"),
    "speedup": Column(label="times as fast"),
    "mfu": Column(label="MFU", unit="share"),
    "memory_bytes": Column(label="memory", unit="B"),
}


def kernels(ask: Ask) -> ReproducedTable:
    """Return step times by kernel of attention and by compiler, over eager ones of both."""
    rows = [row for device in DEVICES for row in _of_device(ask, device)]
    bars = Figure(
        kind="bars",
        title="Step by kernels and compiler",
        x="kernel",
        y="step_time_s",
        series="compiler",
        panel="device",
    )
    return table("kernels", f"Kernels and compiler: {BASE['model']}", rows, about=ABOUT, figures=[bars])


def _of_device(ask: Ask, device: str) -> Iterator[dict[str, Any]]:
    first = None
    for (kernel, how), (compiled, compiler) in product(KERNELS.items(), COMPILERS.items()):
        if kernel in NEEDS_HOPPER and device.startswith("a100"):
            continue
        profile = ask.profile({**BASE, "cluster": f"8x {device}", "plan": {**PLAN, **how, "compile": compiled}})
        seconds = float(profile.step_time_s)
        first = seconds if first is None else first
        yield {
            "device": f"8x {device}",
            "kernel": kernel,
            "compiler": compiler,
            "step_time_s": seconds,
            "speedup": first / seconds,
            "mfu": float(profile.mfu),
            "memory_bytes": float(profile.memory_bytes["total"]),
        }


TABLES: Tables = {"kernels": kernels}
