"""The answer to a single operator: seconds on the device, what it does in them, and what bounds it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sightline.quantities import Number
from sightline.scenario import OperatorScenario

Evidence = Literal["calibrated", "extrapolated", "datasheet"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperatorProfile:
    """One execution on a device, or of a collective on all of them; the host's launch to a GPU is not counted."""

    scenario: OperatorScenario
    source: str
    """predicted or measured."""
    time_s: Number
    flops: Number
    """Floating-point operations; causal attention counts the scores that are seen."""
    bytes: Number
    """Least bytes to and from device memory; of a collective, its buffer."""
    bound: str | None = None
    """compute, memory or network: the longest leg of the roofline; an array of names for arrays of sizes.
    None for what was measured."""
    evidence: Evidence | None = None
    """calibrated: within what was measured on the device's family; extrapolated: outside; datasheet: never measured;
    None: this is a measurement."""
    interval: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    """80 % intervals by result key; of a measurement, those of the median."""
    measurement: Mapping[str, Any] = field(default_factory=dict)
    """How it was measured: repeats, spread, warm-up, library, threads; empty for a prediction."""
    warnings: Sequence[str] = ()

    @property
    def flops_per_s(self) -> Number | None:
        """FLOP/s reached; None for what takes no time."""
        return _rate(self.flops, self.time_s)

    @property
    def bytes_per_s(self) -> Number | None:
        """Bytes per second reached; of a collective, nccl-tests' algorithm bandwidth. None for what takes no time."""
        return _rate(self.bytes, self.time_s)


def _rate(amount: Number, time_s: Number) -> Number | None:
    return None if np.all(np.equal(time_s, 0.0)) else amount / time_s
