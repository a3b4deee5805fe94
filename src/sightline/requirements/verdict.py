"""Whether an answer meets a requirement, and the sentence that says so with the figure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from sightline.profile import SERVING, TRAINING, Profile
from sightline.quantities import GIB
from sightline.requirements.expression import COMPARED, Requirement
from sightline.requirements.figures import FITS
from sightline.requirements.notation import Notation

Interval: TypeAlias = tuple[float, float | None]
"""Both ends of an 80 % interval; without an upper end it is a bound."""

_IN_WORDS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than", "==": "exactly", "!=": "other than"}
_OF_A_RUN = ("total_tokens", "steps", "run_time_s", "energy_j", "cost_usd")
"""Figures of a training that need to know how long it is."""
_OF_AN_OBJECTIVE = ("goodput_requests_per_s", "good_share", "capacity_requests_per_s")
"""Figures of a load that need an objective."""
_LOWER = (">=", ">")
_NO_INTERVAL = " (no interval is known)"
_EXACT = ("usd_per_hour", "total_tokens", "steps", "model_flops", "hardware_flops", "peak_flops", "flops", "bytes")
"""Figures that follow from the scenario alone, so that no prediction errs about them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A requirement, the figure that it is about, and whether that meets it."""

    require: str
    """As it was typed."""
    key: str
    """The result key of the figure."""
    operator: str
    """Empty for whether it fits."""
    bound: float | str | None
    """In the base unit of the figure."""
    value: float | str | bool | None
    """The figure; None where it is not known."""
    interval: Interval | None
    """Its 80 % interval; None where none is known."""
    met: bool
    sentence: str


def judged(requirement: Requirement, profile: Profile, *, whole_interval: bool = False) -> Judged:
    """Return whether an answer meets a requirement; with ``whole_interval`` the whole 80 % interval has to."""
    key = requirement.figure.key
    value, interval = value_of(profile, key), _interval(profile, "memory_bytes.total" if key == FITS else key)
    if key == FITS:
        met, sentence = _fitting(profile, interval, whole_interval=whole_interval)
    else:
        has_error = not (requirement.figure.words or key in _EXACT)
        met = _meets(requirement, value, interval if whole_interval else None)
        met = met and not (whole_interval and has_error and interval is None)
        where = " in the whole interval" if whole_interval and has_error else ""
        sentence = _sentence(requirement, profile, value, interval, where)
    return Judged(
        require=requirement.require,
        key=key,
        operator=requirement.operator,
        bound=requirement.bound,
        value=value,
        interval=interval,
        met=met,
        sentence=f"{sentence}: {'met' if met else 'not met'}",
    )


def value_of(profile: Profile, key: str) -> Any:
    """Return a single figure of an answer, also a part of its memory or its phases; None where it is not known."""
    part = key.partition(".")[2]
    if key.startswith(("memory_bytes.", "phases.")):
        found = getattr(profile, key.partition(".")[0]).get(part)
    else:
        found = profile.figure(key)
    if isinstance(found, Mapping):
        return float(sum(found.values()))  # requests that were refused, by reason
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else found


def _interval(profile: Profile, key: str) -> Interval | None:
    low, high = profile.interval.get(key, (None, None))
    return None if low is None else (float(low), None if high is None else float(high))


def _meets(requirement: Requirement, value: Any, interval: Interval | None) -> bool:
    """Whether the figure is as required; with an ``interval``, whether both its ends are too."""
    compared, bound = COMPARED[requirement.operator], requirement.bound
    if value is None or not compared(value, bound):
        return False
    # Of a lower bound the low end decides; the high one may be unknown.
    ends = (interval or ())[: 1 if requirement.operator in _LOWER else 2]
    return all(end is not None and compared(end, bound) for end in ends)


def _fitting(profile: Profile, interval: Interval | None, *, whole_interval: bool) -> tuple[bool, str]:
    """Whether a plan fits as is required, and the figures.

    An engine that serves gives its KV cache all memory that is left, which is no need.
    """
    serves = profile.task is SERVING
    cache = float(profile.memory_bytes["kv_cache"]) if serves else 0.0
    needed, usable = float(profile.memory_bytes["total"]) - cache, float(profile.usable_bytes)
    said = f"fits is {'true' if profile.fits else 'false'}: {needed / GIB:.1f} of {usable / GIB:.1f} GiB are needed"
    if serves:
        said += f" without the KV cache, which has {cache / GIB:.1f} GiB"
    if interval is not None and interval[1] is not None:
        said += f" (80 % interval {interval[0] / GIB:.1f} to {interval[1] / GIB:.1f} GiB)"
    elif whole_interval:
        said += _NO_INTERVAL
    if not (serves or profile.fits) and needed <= usable:
        said += ", but what is offloaded does not fit into the memory of the hosts"
    if whole_interval:
        said += ": in the whole interval it is required"
    return bool(profile.fits) and not (whole_interval and (interval is None or profile.tight)), said


def _sentence(requirement: Requirement, profile: Profile, value: Any, interval: Interval | None, where: str) -> str:
    """The figure with its interval, and what is required of it ``where``."""
    if isinstance(requirement.bound, str):
        word = "other than " if requirement.operator == "!=" else ""
        known = "not known" if value is None else value
        return f"{requirement.name} is {known}: {word}{requirement.bound} is required"
    written, bound = Notation.of(requirement), float(requirement.bound or 0.0)
    asked = f"{_IN_WORDS[requirement.operator]} {written.beside(bound, value)}{where} is required"
    if value is None:
        return f"{requirement.name} is not known{_reason(profile, requirement.figure.key)}: {asked}"
    spread = _spread(interval, bound, written) if interval or not where else _NO_INTERVAL
    return f"{requirement.name} is {written.beside(value, bound)}{spread}: {asked}"


def _spread(interval: Interval | None, bound: float, written: Notation) -> str:
    """An interval in brackets; empty without one."""
    if interval is None:
        return ""
    low, high = interval
    ends = f"from {written.beside(low, bound)} on" if high is None else written.between(low, high, bound)
    return f" (80 % interval {ends})"


def _reason(profile: Profile, key: str) -> str:
    """Why a figure is not known, where that is known."""
    if profile.task is TRAINING and key in _OF_A_RUN and profile.scenario.workload.total_tokens is None:
        return ", for workload.total_tokens is not stated"
    if key.startswith("cost_usd") and profile.scenario.cluster.usd_per_hour is None:
        return ", for a device has no price"
    if profile.task is SERVING and key in _OF_AN_OBJECTIVE and profile.scenario.workload.slo is None:
        return ", for workload.slo is not stated"
    return ", for the plan does not fit in memory" if profile.fits is False else ""
