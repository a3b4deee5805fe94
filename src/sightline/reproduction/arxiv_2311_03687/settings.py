"""The study's platforms, models and techniques as scenarios."""

from collections.abc import Mapping
from typing import Any

from sightline.reproduction.arxiv_2311_03687.grid import step
from sightline.reproduction.asking import Asked

A800, RTX_4090, RTX_3090, RTX_3090_NVLINK = PLATFORMS = tuple(
    f"study-2311.03687-{server}" for server in ("a800", "rtx-4090", "rtx-3090", "rtx-3090-nvlink")
)
NAMES: Mapping[str, str] = {
    A800: "A800",
    RTX_4090: "RTX 4090",
    RTX_3090: "RTX 3090",
    RTX_3090_NVLINK: "RTX 3090, NVLink",
}
CARDS = (RTX_4090, RTX_3090)
"""Platforms of 24 GB cards, each without NVLink."""
SEVEN, THIRTEEN, SEVENTY = "llama-2-7b", "llama-2-13b", "llama-2-70b"
MODELS: Mapping[str, str] = {SEVEN: "7B", THIRTEEN: "13B", SEVENTY: "70B"}
DATE = "2023-11"
"""Of the software: the month in which the study appeared."""
GPUS = 8
OUT_OF_MEMORY = "out of memory"


def trained(
    platform: str,
    techniques: str = "N",
    *,
    model: str = SEVEN,
    batch: int = 1,
    devices: int = GPUS,
    framework: str = "deepspeed",
    **plan: Any,
) -> Asked:
    """Return a scenario of training or, where ``techniques`` name L or QL, of fine-tuning.

    Args:
        platform: One of `PLATFORMS`.
        techniques: The study's letters, such as ``F+R+Z3+O``.
        model: Of the catalog.
        batch: As `grid.step` has it.
        devices: GPUs in use.
        framework: deepspeed or megatron.
        plan: Further settings.
    """
    cluster = {"same_as": platform, "devices": devices} if devices != GPUS else platform
    return step(
        model,
        cluster,
        techniques,
        batch=batch,
        devices=devices,
        framework=framework,
        framework_version=DATE,
        **plan,
    )
