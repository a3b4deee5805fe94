"""What serving plans are compared by: objectives, limits, and the two figures of a Pareto front."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from sightline.errors import InputError, nearest
from sightline.profile import Profile


class Figure(NamedTuple):
    """A figure of a plan."""

    of: Callable[[Profile], Any]
    more_is_better: bool = False


def _metric(key: str, *, more_is_better: bool = False) -> Figure:
    return Figure(lambda profile: getattr(profile, key), more_is_better)


def _tokens_per_s_per_user(profile: Profile) -> Any:
    """Tokens per second that a user sees after the first; unknown where there is one token."""
    return 1.0 / np.where(np.asarray(profile.tpot_s) > 0.0, profile.tpot_s, np.nan)


def _energy_j(profile: Profile) -> Any:
    work = profile.scenario.workload
    return profile.energy_j / (work.batch * work.output_tokens) * 1e6


FIGURES: Mapping[str, Figure] = {
    "output_tokens_per_s_per_device": _metric("output_tokens_per_s_per_device", more_is_better=True),
    "output_tokens_per_s": _metric("output_tokens_per_s", more_is_better=True),
    "output_tokens_per_s_per_user": Figure(_tokens_per_s_per_user, more_is_better=True),
    "ttft_s": _metric("ttft_s"),
    "tpot_s": _metric("tpot_s"),
    "latency_s": _metric("latency_s"),
    "cost_usd_per_million_tokens": _metric("cost_usd_per_million_tokens"),
    "energy_j_per_million_tokens": Figure(_energy_j),
    "memory_bytes.total": Figure(lambda profile: profile.memory_bytes["total"]),
    "batch": Figure(lambda profile: profile.scenario.workload.batch, more_is_better=True),
}
"""By result key; those that a result does not have are of searches alone. ``batch`` is the users at a time."""

OBJECTIVES: Mapping[str, str] = {
    "throughput": "output_tokens_per_s_per_device",
    "time": "output_tokens_per_s_per_device",
    "latency": "tpot_s",
    "cost": "cost_usd_per_million_tokens",
    "energy": "energy_j_per_million_tokens",
    "memory": "memory_bytes.total",
    "batch": "batch",
    "users": "batch",
    "interactivity": "output_tokens_per_s_per_user",
}
"""Words for figures."""
PARETO = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_device")
"""Axes of the usual front: what a user sees, against what a device yields."""


def figure_key(name: str) -> str:
    """Return the result key that a word stands for; raise `InputError` for any other."""
    key = OBJECTIVES.get(name, name)
    if key not in FIGURES:
        allowed = (*OBJECTIVES, *FIGURES)
        raise InputError(f"objective is '{name}'; allowed of generation: {', '.join(allowed)}{nearest(name, allowed)}")
    return key


def figure(key: str, profile: Profile, count: int) -> Any:
    """Return a figure of each plan of a list; NaN where nobody knows it."""
    value = FIGURES[key].of(profile)
    return np.broadcast_to(np.nan if value is None else np.asarray(value, dtype=float), count)


def within(key: str, values: Any, limit: float) -> Any:
    """Whether figures meet a limit: at most so much, at least of what more is better; unknown ones do not."""
    return values >= limit if FIGURES[key].more_is_better else values <= limit


def missed_by(key: str, values: Any, limit: float) -> Any:
    """Return the factor by which figures miss a limit; 1 or less where they meet it."""
    return limit / values if FIGURES[key].more_is_better else values / limit


def ascending(key: str, values: Any) -> Any:
    """Return figures with a sign that puts the best first; unknown ones come last."""
    signed = -values if FIGURES[key].more_is_better else values
    return np.where(np.isnan(signed), np.inf, signed)
