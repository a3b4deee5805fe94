"""The study's platforms, models and techniques as scenarios."""

from collections.abc import Mapping
from typing import Any

from sightline.profile import Profile
from sightline.quantities import GIB
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


def rate(profile: Profile) -> float | None:
    """Return tokens per second; None where the plan does not fit."""
    return float(profile.tokens_per_s) if profile.fits else None


def rate_in_words(value: float | None) -> str:
    """Return a throughput as sentences have it."""
    return OUT_OF_MEMORY if value is None else f"{value:,.0f} tokens/s"


def memory_gib(profile: Profile) -> float:
    """Return the memory that a plan needs on a GPU."""
    return float(profile.memory_bytes["total"]) / GIB


def ratio(one: float | None, other: float | None) -> float | None:
    """Return one number over another; None where either is not to be had."""
    return None if one is None or other is None else one / other
