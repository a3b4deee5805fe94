"""``search`` of a study: fields of the plan, and what a device is made of, that are searched at every point."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sightline.errors import nearest
from sightline.exploration.own.asked.axes import Axis
from sightline.exploration.own.asked.numbers import SPLIT, TECHNOLOGY, TRAINING_TASKS, technology_key
from sightline.loading.checks import Complaints
from sightline.quantities import show
from sightline.scenario.space import GENERATION_FIELDS, TRAINING_FIELDS
from sightline.technology.budget import PARTS


def _spread(low: float, high: float, count: int) -> tuple[float, ...]:
    return tuple(float(f"{value:.3g}") for value in np.geomspace(low, high, count))


_SHARES: Final = _spread(0.02, 0.8, 20)
"""Of the area of all dies; each value is the same multiple of the one before, as of those below."""
_OTHERS: Final[Mapping[str, tuple[Any, ...]]] = {
    f"{TECHNOLOGY}.stacks": tuple(range(1, 13)),
    f"{TECHNOLOGY}.frequency": _spread(0.4e9, 3.2e9, 19),
    f"{TECHNOLOGY}.voltage": _spread(0.4, 1.1, 11),
}


def designs() -> tuple[str, ...]:
    """Return the keys of a device's technology that may be searched."""
    return (*(f"{TECHNOLOGY}.{SPLIT}{part}" for part in PARTS), *_OTHERS)


def design_axis(key: str) -> Axis:
    """Return the axis of a key that is searched."""
    number = technology_key(key)
    unit = number.unit if number else ""
    return Axis(key=key, values=_OTHERS.get(key, _SHARES), number=number, unit=unit, is_searched=True)


def split_search(stated: Any) -> tuple[Any, list[str]]:
    """Return what a study searches of the plan, as it is stated, and the keys of the device's technology."""
    named = [stated] if isinstance(stated, str) else stated
    if not isinstance(named, list | tuple):
        return stated, []
    devices = [name for name in named if isinstance(name, str) and name.startswith("cluster.")]
    return [name for name in named if name not in devices], devices


def read_designs(names: Sequence[str], axes: Sequence[Axis], task: str, complaints: Complaints) -> list[Axis]:
    """Return the axes of the device's technology that are searched."""
    if not names:
        return []
    known, varied = designs(), [axis.key for axis in axes]
    if task == "serve":
        complaints.add("search is for training and generation; workload.task is 'serve'")
    wrong = [name for name in names if name not in known]
    complaints.add(
        *(f"search names {show(name)}; allowed of a device: {', '.join(known)}{nearest(name, known)}" for name in wrong)
    )
    complaints.add(*(f"search names {show(name)}, which is an axis; allowed: the one or the other"
                     for name in names if name in varied))  # fmt: skip
    return [design_axis(name) for name in dict.fromkeys(names) if name in known and name not in varied]


def read_search(
    stated: Any, base: Mapping[str, Any], task: str, axes: Sequence[Axis], complaints: Complaints
) -> tuple[str, ...]:
    """Return the fields of the plan that are searched: those that are named, and a micro-batch that nobody states."""
    plan = base.get("plan")
    is_open = task in TRAINING_TASKS and not (isinstance(plan, Mapping) and plan.get("micro_batch"))
    usual = ("micro_batch",) if is_open and all(axis.key != "plan.micro_batch" for axis in axes) else ()
    if stated is None or stated == []:
        return usual
    named = [stated] if isinstance(stated, str) else stated
    if task not in (*TRAINING_TASKS, "generate"):
        complaints.add(f"search is for training and generation; workload.task is {show(task)}")
        return ()
    fields: tuple[str, ...] = GENERATION_FIELDS if task == "generate" else TRAINING_FIELDS
    if not isinstance(named, list | tuple):
        complaints.add(f"search is {show(stated)}; allowed: a list of {', '.join(fields)}")
        return ()
    names = [str(name).removeprefix("plan.") for name in named]
    wrong = [name for name in names if name not in fields]
    complaints.add(
        *(f"search names {show(name)}; allowed: {', '.join(fields)}{nearest(name, fields)}" for name in wrong)
    )
    varied = [name for name in names if any(axis.key == f"plan.{name}" for axis in axes)]
    complaints.add(*(f"search names {show(name)}, which is an axis; allowed: the one or the other" for name in varied))
    return tuple(dict.fromkeys((*(name for name in names if name in fields), *usual)))
