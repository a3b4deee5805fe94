"""What serving plans are compared by: objectives, limits, and the two figures of a Pareto front."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from sightline.errors import InputError, refuse
from sightline.loading.checks import meant
from sightline.profile import Profile
from sightline.profile.metrics import metric_of
from sightline.scenario import Generate


def _tokens_per_s_per_user(profile: Profile) -> Any:
    """Tokens per second that a user sees after the first; unknown where there is one token."""
    return np.nan if profile.tpot_s is None else 1.0 / np.asarray(profile.tpot_s)


def _energy_j(profile: Profile) -> Any:
    work = profile.scenario.workload
    return profile.energy_j / (work.batch * work.output_tokens) * 1e6


FIGURES: Mapping[str, Callable[[Profile], Any]] = {
    "output_tokens_per_s_per_device": attrgetter("output_tokens_per_s_per_device"),
    "output_tokens_per_s": attrgetter("output_tokens_per_s"),
    "output_tokens_per_s_per_user": _tokens_per_s_per_user,
    "ttft_s": attrgetter("ttft_s"),
    "tpot_s": attrgetter("tpot_s"),
    "latency_s": attrgetter("latency_s"),
    "cost_usd_per_million_tokens": attrgetter("cost_usd_per_million_tokens"),
    "energy_j_per_million_tokens": _energy_j,
    "memory_bytes.total": lambda profile: profile.memory_bytes["total"],
    "batch": attrgetter("scenario.workload.batch"),
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
OF_FURTHER_TOKENS = ("tpot_s", "output_tokens_per_s_per_user")
"""Figures that nobody has of one output token."""
PARETO = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_device")
"""Axes of the usual front: what a user sees, against what a device yields."""
ALLOWED_AXES = "two objectives, such as latency,throughput"
"""What a refusal of other axes names."""


def figure_key(name: str) -> str:
    """Return the result key that a word stands for; raise `InputError` for any other."""
    key = OBJECTIVES.get(name, name)
    if key not in FIGURES:
        allowed = (*OBJECTIVES, *FIGURES)
        raise InputError(
            f"objective is '{name}'; allowed for generation: {', '.join(allowed)}{meant(name, list(allowed))}"
        )
    return key


def check_known(work: Generate, **named: Iterable[str]) -> None:
    """Raise `InputError` for figures of further tokens, by the option that names them, where there is one token."""
    problems = [
        f"{option} is '{name}', a figure of the tokens after the first; workload.output_tokens is 1; use ttft_s"
        for option, names in named.items()
        for name in names
        if work.output_tokens == 1 and figure_key(name) in OF_FURTHER_TOKENS
    ]
    refuse(problems)


def more_is_better(key: str) -> bool:
    """Return whether more of a figure is better."""
    return metric_of(key).better == "higher"


def figure(key: str, profile: Profile, count: int) -> Any:
    """Return a figure of each plan of a list; NaN where nobody knows it."""
    value = FIGURES[key](profile)
    return np.broadcast_to(np.nan if value is None else np.asarray(value, dtype=float), count)


def within(key: str, values: Any, limit: float) -> Any:
    """Whether figures meet a limit: at most so much, at least of what more is better; unknown ones do not."""
    return values >= limit if more_is_better(key) else values <= limit


def missed_by(key: str, values: Any, limit: float) -> Any:
    """Return the factor by which figures miss a limit; 1 or less where they meet it."""
    return limit / values if more_is_better(key) else values / limit


def ascending(key: str, values: Any) -> Any:
    """Return figures with a sign that puts the best first; unknown ones come last."""
    signed = -values if more_is_better(key) else values
    return np.where(np.isnan(signed), np.inf, signed)
