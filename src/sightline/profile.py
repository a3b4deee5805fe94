"""The one answer type: a table with a row per operator, and what it adds up to.

Predicted and measured profiles have the same columns, so comparing, drawing and validating are written once.
All numbers are SI. A number may be an array when the scenario's plan holds arrays; ``profile[i]`` is one plan's profile.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.quantities import Number
from sightline.scenario import Scenario
from sightline.scenario.low_precision import rate_dtype

if TYPE_CHECKING:
    import polars

PHASES = (
    "forward",
    "backward",
    "recompute",
    "optimizer",
    "communication_exposed",
    "pipeline_bubble",
    "host",
)
"""Parts of a training step, in seconds; they sum to the step."""

MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "buffers", "framework")
"""Parts of the fullest device's memory, in bytes; they sum to ``total``."""

BETWEEN_PASSES = "between passes"
"""The moment of a step at which nothing but what stays is there, gradients included."""

BOUNDS = ("compute", "memory", "network", "host", "bubble")
"""What may limit an operator or a step."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Row:
    """One operator address: what it does in one step on one device of the pace-setting stage."""

    phase: str
    block: str
    module: str
    operator: str
    count: Number
    flops: Number
    bytes: Number
    """Bytes to and from device memory."""
    network_bytes: Number
    time_s: Number
    bound: str


class RowsOnDemand(Sequence[Row]):
    """Rows that are written when somebody first looks at them: most predictions are asked for their sums alone."""

    def __init__(self, write: Callable[[], Sequence[Row]]) -> None:
        self._write = write
        self._written: Sequence[Row] | None = None

    @property
    def _rows(self) -> Sequence[Row]:
        if self._written is None:
            self._written = self._write()
        return self._written

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]


class NumbersOnDemand(Mapping[str, Number]):
    """Named numbers, or what works one out when somebody first asks: most plans of a mesh are asked for sums alone."""

    def __init__(self, numbers: Mapping[str, Number | Callable[[], Number]]) -> None:
        self._numbers = dict(numbers)

    def __getitem__(self, name: str) -> Number:
        number = self._numbers[name]
        if callable(number):
            self._numbers[name] = number = number()
        return number

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageMemory:
    """One pipeline stage's memory ledger: bytes by part (``MEMORY_PARTS``) and the named items inside them."""

    stage: str
    """first, middle (the heaviest of them) or last; a single stage is the first."""
    parts: Mapping[str, Number]
    items: Mapping[str, Number]
    """Finer lines, such as ``layer activations``, ``logits``, ``recomputation working set``."""
    moments: Mapping[str, Number]
    """Bytes of all parts at each moment of a step that may be the fullest; the parts are those of the fullest."""

    @property
    def total(self) -> Number:
        """Bytes of all parts."""
        return reduce(np.maximum, [size for name, size in self.moments.items() if name != BETWEEN_PASSES])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """The answer to a training scenario."""

    scenario: Scenario
    source: str
    """predicted or measured."""
    step_time_s: Number
    phases: Mapping[str, Number]
    memory_bytes: Mapping[str, Number]
    """The fullest device by part, with ``total``."""
    fits: Any
    """True where the fullest device's total is within its memory."""
    model_flops: Number
    """FLOPs of the model in one step over all devices, without recomputation (attention counted unmasked)."""
    hardware_flops: Number
    """The same with recomputed FLOPs."""
    limits: Mapping[str, Number]
    """Seconds of the step by what bounds them (``BOUNDS``); they sum to the step."""
    energy_per_step_j: Number
    rows: Sequence[Row] = ()
    stages: Sequence[StageMemory] = ()
    stage_times: Mapping[str, tuple[Number, Number, Number]] = field(default_factory=dict)
    """Seconds of a micro-batch by stage as in ``stages``: its forward pass, its backward pass (with recomputation), and
    the weight gradients in the latter."""
    forward_pass_s: Number = 0.0
    """Seconds of a micro-batch's forward pass on the first stage, with the host's time per micro-batch."""
    advice: Sequence[str] = ()
    """When it does not fit: what would (sentences)."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Where the constants come from, by kind: calibrated (this device and framework were measured), extrapolated (a
    relative was), datasheet, estimated (nobody was), or given by the caller."""
    interval: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    """80 % intervals by result key, where the residuals behind them are known."""
    measurement: Mapping[str, Any] = field(default_factory=dict)
    """How it was measured: repeats, spread, losses, peak memory, overhead of telling modules apart; empty for a
    prediction."""
    warnings: Sequence[str] = ()

    @property
    def tokens_per_s(self) -> Number:
        """Tokens trained per second on the whole cluster."""
        return self.scenario.workload.tokens_per_step / self.step_time_s

    @property
    def tokens_per_s_per_device(self) -> Number:
        """Tokens trained per second and device."""
        return self.tokens_per_s / self.scenario.cluster.devices

    @property
    def model_flops_per_s_per_device(self) -> Number:
        """FLOP/s per device that serve the model, recomputation not counted."""
        return self.model_flops / self.step_time_s / self.scenario.cluster.devices

    @property
    def peak_flops(self) -> Number:
        """Dense peak FLOP/s of a device in the plan's compute dtype."""
        return self.scenario.cluster.device.peak_flops[rate_dtype(self.scenario.plan.dtype)]

    @property
    def mfu(self) -> Number:
        """Model FLOPs utilization."""
        return self.model_flops_per_s_per_device / self.peak_flops

    @property
    def hfu(self) -> Number:
        """Hardware FLOPs utilization: like ``mfu`` with recomputation counted."""
        return self.hardware_flops / self.step_time_s / self.scenario.cluster.devices / self.peak_flops

    @property
    def bottleneck(self) -> Any:
        """What bounds the largest part of the step; an array of names for many plans."""
        if all(np.ndim(self.limits[b]) == 0 for b in BOUNDS):
            return max(BOUNDS, key=lambda b: float(self.limits[b]))
        seconds = np.stack(np.broadcast_arrays(*(self.limits[b] for b in BOUNDS)))
        return np.array(BOUNDS)[seconds.argmax(axis=0)]

    @property
    def steps(self) -> Number | None:
        """Optimizer steps of the whole run, when ``total_tokens`` is given."""
        total = self.scenario.workload.total_tokens
        return None if total is None else total / self.scenario.workload.tokens_per_step

    @property
    def run_time_s(self) -> Number | None:
        """Seconds of the whole run, when ``total_tokens`` is given."""
        return None if self.steps is None else self.steps * self.step_time_s

    @property
    def energy_j(self) -> Number | None:
        """Joules of the whole run on all devices, when ``total_tokens`` is given."""
        return None if self.steps is None else self.steps * self.energy_per_step_j

    @property
    def cost_usd(self) -> Number | None:
        """Rent of the whole run, when ``total_tokens`` is given and the device has a price."""
        price = self.scenario.cluster.device.usd_per_hour
        if self.run_time_s is None or price is None:
            return None
        return self.run_time_s / 3600 * self.scenario.cluster.devices * price

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame (one plan only)."""
        return row_table(self.rows)

    @property
    def memory_peak(self) -> str:
        """The moment of a step at which the fullest stage's device is fullest (one plan only); empty if unknown."""
        fullest = max(self.stages, key=lambda stage: float(stage.total), default=None)
        moments = {} if fullest is None else {n: b for n, b in fullest.moments.items() if n != BETWEEN_PASSES}
        return max(moments, key=lambda name: float(moments[name]), default="")

    def __getitem__(self, index: Any) -> "Profile":
        """The profile of one plan of an array-valued profile, by its index in the broadcast shape."""
        price = self.scenario.cluster.device.usd_per_hour
        shape = np.broadcast_shapes(*map(np.shape, (self.step_time_s, self.fits, self.energy_per_step_j, price)))
        one: Profile = picked(self, shape, index)
        there = [s for s in one.stages if np.ndim(s.parts["weights"]) or s.parts["weights"] > 0]
        return replace(one, stages=there)


def row_table(rows: Sequence[Row]) -> "polars.DataFrame":
    """Return rows as a data frame."""
    import polars

    return polars.DataFrame({n: [getattr(r, n) for r in rows] for n in Row.__dataclass_fields__})


def picked(profile: Any, shape: tuple[int, ...], index: Any) -> Any:
    """Return an array-valued profile with one plan's value of every number, by its index in the plans' ``shape``.

    Numbers of the answer broadcast to ``shape`` first; those of the scenario too, where they are arrays.
    """

    def pick(value: Any) -> Any:
        chosen = np.broadcast_to(value, shape)[index]
        return chosen.item() if np.ndim(chosen) == 0 else chosen

    def of(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {k: of(v) for k, v in value.items()}
        if isinstance(value, tuple | list):
            return type(value)(of(v) for v in value)
        if isinstance(value, np.ndarray):
            return pick(value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{f.name: of(getattr(value, f.name)) for f in fields(value)})
        return value

    return of(profile)
