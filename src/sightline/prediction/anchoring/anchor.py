"""An anchor: what was measured of one or several scenarios together, as far as it teaches about times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.errors import InputError
from sightline.prediction.anchoring.timed import TIMES, Answered, Timed, task_name, timed_of, unused_keys
from sightline.scenario import OperatorScenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Anchor:
    """Measurements that were given together, under one name."""

    name: str
    timed: tuple[Timed[Any], ...]
    unused: tuple[str, ...] = ()
    """Measured keys that teach nothing about times."""


def joined(anchors: Sequence[Anchor], name: str) -> Anchor:
    """Return several anchors as one."""
    unused = dict.fromkeys(key for one in anchors for key in one.unused)
    return Anchor(name=name, timed=tuple(timed for one in anchors for timed in one.timed), unused=tuple(unused))


def anchor_of(scenario: Answered | OperatorScenario, measured: Mapping[str, Any], name: str) -> Anchor:
    """Return the anchor of one scenario and what was measured of it.

    Raises:
        InputError: Nothing of it was measured that teaches about times.
    """
    if isinstance(scenario, OperatorScenario):
        raise InputError(
            f"anchor '{name}' measured a single operator, which teaches about the device alone: "
            "`sightline calibrate --measure` fits devices to operators"
        )
    timed = timed_of(scenario, measured, name)
    if not timed:
        task = task_name(scenario)
        others = unused_keys(scenario, measured)
        there = f": {', '.join(others)} say nothing about times" if others else ""
        raise InputError(
            f"anchor '{name}' has no measured time to learn from{there}; {task} learns from {', '.join(TIMES[task])}"
        )
    return Anchor(name=name, timed=tuple(timed), unused=unused_keys(scenario, measured))
