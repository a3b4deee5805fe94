"""What the best plan takes, in a sentence: the time on the calendar and rent of a run, the rent of a service."""

from collections.abc import Iterator

from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.report import units
from sightline.report.plans import columns

_LONG_S = 3 * 365 * 86400.0
"""Seconds of a run that hardly anybody waits for."""


def whole_run(answer: PlanAnswer) -> list[str]:
    """Return what the first plan's run takes, and first of all whether that is too long; nothing of unknown length.

    Of a load, which has no end: what its devices are rented for.
    """
    if answer.plans and answer.plans[0].profile.task.name == "serving":
        return list(_rent(answer.plans[0]))
    calendar_s = columns.value(answer.plans[0], "calendar_time_s") if answer.plans else None
    if calendar_s is None:
        return []
    first = answer.plans[0]
    long = f"no plan shown finishes within {units.seconds(_LONG_S)}; use more devices, or fewer tokens or parameters"
    times = [columns.value(one, "calendar_time_s") for one in answer.plans]
    is_long = all(one is not None and one > _LONG_S for one in times)
    return [*([long] if is_long else []), f"plan 1: {', '.join(_parts(answer, first, calendar_s))}"]


def _rent(first: RankedPlan) -> Iterator[str]:
    """What the devices of a service cost."""
    keys = {"usd_per_hour": "per hour", "cost_usd_per_million_tokens": "per million output tokens"}
    known = [(figure, said, key) for key, said in keys.items() if (figure := columns.value(first, key)) is not None]
    if known:
        yield f"plan 1: costs {', '.join((f'{columns.shown(key, figure)} {said}' for figure, said, key in known))}"


def _parts(answer: PlanAnswer, first: RankedPlan, calendar_s: float) -> Iterator[str]:
    profile = first.profile
    low, high = profile.interval.get(profile.task.whole, (None, None))
    ends = [calendar_s * float(end) / float(profile.whole_s) for end in (low, high) if end and profile.whole_s]
    spread = f" (80 %: {' to '.join(map(units.seconds, ends))})" if len(ends) == len((low, high)) else ""
    yield f"{units.seconds(calendar_s)}{spread}"
    asked = [columns.leading(answer, axis) for axis in answer.pareto_axes or (answer.objective,)]
    for key in dict.fromkeys(("cost_usd", *asked)):
        figure = columns.value(first, key)
        if figure is not None and key not in ("step_time_s", "run_time_s", "calendar_time_s"):
            named = "" if key == "cost_usd" else f"{columns.label(key, first)} "
            yield f"{named}{columns.shown(key, figure)}"
