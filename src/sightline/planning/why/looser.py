"""Limits that a plan meets, each as it was asked for or just loose enough, as options are typed."""

from collections.abc import Mapping
from math import ceil, floor, log10

from sightline.planning.training.money import RunLimits
from sightline.quantities import significant

FARTHEST = 10.0
"""How many times a limit of time or money a plan may take, for a share to say it and for fewer tokens to help."""
_UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0))
"""Units of a deadline, the longest first."""


def looser(
    limits: RunLimits, figures: Mapping[str, float | None], *, max_memory: float | None = None, needed: float = 0.0
) -> tuple[dict[str, str], list[str]]:
    """Return options under which a plan fits, and by how much it exceeds each limit that it does not meet.

    Args:
        limits: Those on the run.
        figures: Of the plan, by result key.
        max_memory: Bytes of a device that a plan may take, where that is limited.
        needed: Bytes that the plan takes.
    """
    options, beyond = dict[str, str](), list[str]()
    if max_memory is not None and needed > max_memory:
        options["max-memory"] = f"{ceil(needed / 1e8) / 10:g}GB"
        beyond.append(_beyond(needed / max_memory, "max-memory"))
    if limits.deadline_s is not None:
        takes_s = figures["calendar_time_s"] or 0.0
        kept = limits.typed.get("deadline", "").replace(" ", "")
        options["deadline"] = _duration(takes_s) if takes_s > limits.deadline_s else kept or _days(limits.deadline_s)
        beyond.append(_beyond(takes_s / limits.deadline_s, "deadline"))
    if limits.budget_usd is not None and (cost := figures["cost_usd"]):
        options["budget"] = _dollars(cost) if cost > limits.budget_usd else f"{limits.budget_usd:.10g}"
        beyond.append(_beyond(cost / limits.budget_usd, "budget"))
    return options, [said for said in beyond if said]


def _beyond(ratio: float, limit: str) -> str:
    """By how much a limit is exceeded; nothing where it is met."""
    if ratio > FARTHEST:
        return f"{significant(ratio, 2):,.0f} times the {limit}"
    return f"{significant(100 * (ratio - 1), 2):g} % beyond the {limit}" if ratio > 1 else ""


def _two_digits(value: float) -> float:
    """The least number of two digits that is no less."""
    digit = 10.0 ** (floor(log10(value)) - 1)
    return ceil(value / digit) * digit


def _dollars(cost: float) -> str:
    """A budget of two digits that pays for it, as it is typed: 110, 5.5k."""
    usd = _two_digits(cost)
    return f"{usd / 1000:g}k" if usd >= 1000 else f"{usd:g}"


def _duration(seconds: float) -> str:
    """A deadline of two digits, or of whole days, that suffices, as it is typed: 3.2min, 14h, 15d."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])
    value = seconds / size
    return f"{ceil(value) if value >= 100 else _two_digits(value):g}{unit}"


def _days(seconds: float) -> str:
    return f"{seconds / 86400:.10g}d"
