"""An anchor: what was measured of one or several scenarios together, as far as it teaches about times."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sightline.content import record
from sightline.errors import InputError
from sightline.prediction.anchoring.posterior import Unexplained
from sightline.prediction.anchoring.timed import TIMES, Answered, Timed, task_name, timed_of, unused_keys
from sightline.prediction.beliefs import Array, Beliefs, Gradient
from sightline.scenario import GenerationScenario, OperatorScenario


class MeasuredLoad(Protocol):
    """A load that a server of one's own answered, ready to be simulated again with any constants of its engine."""

    @property
    def name(self) -> str:
        """What the measurement is called in sentences."""

    def named(self, name: str) -> "MeasuredLoad":
        """Return the same load under another name."""

    @property
    def timed(self) -> Sequence[Timed[GenerationScenario]]:
        """What was measured, each of some of the requests; all are called by the load's name."""

    @property
    def unexplained(self) -> Sequence[Unexplained]:
        """What effects do not explain of each of these times."""

    @property
    def cases(self) -> Mapping[str, Unexplained]:
        """The load's own slowdowns by the names of their effects, and what plans have in common with them."""

    def predict(self, beliefs: Beliefs) -> tuple[Array, Sequence[Gradient]]:
        """Return the logarithms of these times as simulated at the means of beliefs, and their gradients."""


@record
class Anchor:
    """Measurements that were given together, under one name."""

    name: str
    timed: tuple[Timed[Any], ...]
    unused: tuple[str, ...] = ()
    """Measured keys that teach nothing about times."""
    loads: tuple[MeasuredLoad, ...] = ()
    """Measured loads, each of many requests."""
    out_of_memory: int = 0
    """Rows that ran out of memory, which have no time and are left out."""

    @property
    def names(self) -> set[str]:
        """What its measurements are called."""
        return {one.name for one in self.timed} | {one.name for one in self.loads}


def joined(anchors: Sequence[Anchor], name: str) -> Anchor:
    """Return several anchors as one."""
    unused = dict.fromkeys(key for one in anchors for key in one.unused)
    return Anchor(
        name=name,
        timed=tuple(timed for one in anchors for timed in one.timed),
        unused=tuple(unused),
        loads=tuple(load for one in anchors for load in one.loads),
    )


def anchor_of(scenario: Answered | OperatorScenario, measured: Mapping[str, Any], name: str) -> Anchor:
    """Return the anchor of one scenario and what was measured of it.

    Raises:
        InputError: Nothing of it was measured that teaches about times.
    """
    if isinstance(scenario, OperatorScenario):
        raise InputError(
            f"anchor '{name}' measured a single operator; to fit a device to operators, use `sightline calibrate "
            "--measure`"
        )
    timed = timed_of(scenario, measured, name)
    if not timed:
        task = task_name(scenario)
        others = unused_keys(scenario, measured)
        there = f" ({', '.join(others)} cannot correct times)" if others else ""
        raise InputError(f"anchor '{name}' has no measured time{there}; needed for {task}: {', '.join(TIMES[task])}")
    return Anchor(name=name, timed=tuple(timed), unused=unused_keys(scenario, measured))
