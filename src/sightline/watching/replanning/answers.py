"""What a search for a better plan found, in sentences: the gain with its interval, what it assumes, what to do."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sightline.quantities import SECONDS, format_quantity, percent
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.profile import Profile

WORTH: Final = 0.03
"""Share of the step that another plan must save, at the low end of the 80 % interval, to be worth a restart."""
UNEXPLAINED: Final = 0.15
"""Share of the predicted step by which a measured one must differ for that to be told."""


def assumed(scenario: Scenario, now: Scenario, question: Mapping[str, Any]) -> list[str]:
    """Return what has changed between the scenario that was asked and the one that is planned for."""
    return [*_of_devices(scenario, now, question.get("devices")), *_of_samples(scenario, now), *_of_link(question)]


def _of_devices(scenario: Scenario, now: Scenario, there: int | None) -> list[str]:
    from sightline.watching.replanning.situation import devices_of_replica

    used = int(now.cluster.devices)
    if there is not None and used < there:
        said = f"{used} of the {there} devices, which whole replicas of {devices_of_replica(now)} fill"
    elif used != scenario.cluster.devices:
        said = f"{used} device{'s' * (used != 1)}"
    else:
        return []
    batch = now.workload.global_batch
    return [said if batch == scenario.workload.global_batch else f"{said} and {batch:,.0f} samples a step"]


def _of_samples(scenario: Scenario, now: Scenario) -> list[str]:
    length = now.workload.sequence_length
    return [] if length == scenario.workload.sequence_length else [f"{length:,.0f} tokens a sample"]


def _of_link(question: Mapping[str, Any]) -> list[str]:
    factor = question.get("link_factor") or 1.0
    return [f"links that take {factor:.2g} x as long"] if 1.0 < factor < float("inf") else []


def of_factor(factor: float) -> list[str]:
    """Return what is assumed of a step that takes this many times its prediction."""
    if abs(factor - 1.0) < UNEXPLAINED:
        return []
    return [f"every plan takes {factor:.2g} x its prediction, as the one that runs does"]


def of_none(now: Scenario, evaluated: int, *, leaves_room: bool) -> str:
    """Return what is said where no plan was found."""
    framework, devices = now.plan.framework.name, int(now.cluster.devices)
    if not evaluated:
        return f"{framework} offers no plan that can run this on {devices} device{'s' * (devices != 1)}"
    room = " and leaves room" if leaves_room else ""
    return f"of the {evaluated:,} plans that {framework} offers none fits{room}"


def of_best(evaluated: int, cause: str, assumptions: Sequence[str]) -> str:
    """Return what is said where no other plan saves enough."""
    said = f"the plan that runs is still the best of {evaluated:,} that were searched"
    said += "" if cause in ("devices", "sequences") else "; look for the cause in the job itself"
    return said + _assuming(assumptions)


def of_gain(
    present: "Profile",
    best: "Profile",
    settings: Mapping[str, Any],
    interval: tuple[float, float] | None,
    assumptions: Sequence[str],
    *,
    is_advised: bool,
) -> str:
    """Return what changes of the plan save."""
    present_s, best_s = float(present.step_time_s), float(best.step_time_s)
    gain = 1.0 - best_s / present_s
    much = f"{percent(abs(gain))} {'less' if gain > 0 else 'more'} time"
    ends = "" if interval is None else f"80 %: {_interval(interval, gain)}; "
    times = f"{ends}predicted {_time(best_s)} a step, {_time(present_s)} with the plan that runs"
    verb = "would" if is_advised else "may"
    said = f"{_worded(present.scenario, settings)} {verb} take {much} ({times})"
    if not is_advised:
        said += ": too uncertain to restart for"
    return said + _assuming(assumptions)


def of_another(now: Scenario, best: "Profile", settings: Mapping[str, Any], assumptions: Sequence[str]) -> str:
    """Return what is said where the plan that ran cannot run any more."""
    devices = int(now.cluster.devices)
    took = f"{_time(float(best.step_time_s))} a step (predicted)"
    said = f"the plan cannot run on the devices that are left; on {devices} {_worded(now, settings)} is the fastest"
    return f"{said}: {took}" + _assuming(assumptions)


def _assuming(assumptions: Sequence[str]) -> str:
    return f"; assumed: {', '.join(assumptions)}" if assumptions else ""


def _interval(interval: tuple[float, float], gain: float) -> str:
    """The ends of a gain, in the direction of the sentence."""
    low, high = (100 * end for end in (interval if gain > 0 else (-interval[1], -interval[0])))
    return f"{low:.0f} to {high:.0f} %"


def _worded(present: Scenario, settings: Mapping[str, Any]) -> str:
    before = present.plan.to_dict()
    listed = [f"{key.removeprefix('plan.')} {value} (now {before[key.removeprefix('plan.')]})"
              for key, value in settings.items()]  # fmt: skip
    return " and ".join((", ".join(listed[:-1]), listed[-1])) if len(listed) > 1 else listed[0]


def _time(seconds: float) -> str:
    return format_quantity(seconds, SECONDS)
