"""Figures that several of the study's findings are judged by: throughputs, memory and ratios of them."""

from sightline.profile import Profile
from sightline.quantities import GIB
from sightline.reproduction.arxiv_2311_03687.settings import OUT_OF_MEMORY


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
