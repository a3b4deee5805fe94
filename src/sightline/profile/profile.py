"""The answer to a scenario of any task: metrics, phases, memory, rows, and what they rest on.

Predicted and measured profiles hold the same figures under the same names, in SI units. A number may be an array when
the scenario holds arrays; ``profile[i]`` is the profile of one of its plans.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial, reduce
from math import erf, isnan, log, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.content import record
from sightline.profile.metrics import BOUNDS, LEVELS, TRAINING, Task, task_of
from sightline.quantities import FOUR_IN_FIVE, Number, as_json, as_python, larger

if TYPE_CHECKING:
    import polars

MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "buffers", "framework")
"""Parts of the fullest device's memory, in bytes; they sum to ``total``."""

REFERENCE = "reference"
"""Phase, and part of memory, of a reference model in preference training; others have neither."""
COMMUNICATION = ("communication_exposed", "communication")
"""The phases of communication, of training and of generation."""

BETWEEN_PASSES = "between passes"
"""The moment of a step at which only persistent memory is allocated, gradients included."""


@record
class Row:
    """One operator address: what it does on one device, in a step (of the slowest stage) or in a batch."""

    phase: str
    block: str
    module: str
    operator: str
    count: Number = 1.0
    flops: Number = 0.0
    bytes: Number = 0.0
    """Bytes to and from device memory."""
    network_bytes: Number = 0.0
    time_s: Number
    """Seconds that the operator runs, overlapped with others or not; of idle phases the seconds the device waits."""
    exposed_s: Number
    """Seconds that it adds to the step or batch; they sum to the phases."""
    bound: str
    bound_level: str = ""
    """The level of the machine that binds it (``LEVELS``); empty where nobody predicted it, as in older runs."""

    @classmethod
    def from_mapping(cls, row: Mapping[str, Any]) -> "Row":
        """Return a stored row; without ``exposed_s`` all its seconds are exposed."""
        known = {f.name: row[f.name] for f in fields(cls) if f.name in row}
        return cls(**{"exposed_s": row["time_s"], **known})

    def lasting(self, time_s: Number) -> "Row":
        """Return the row with other seconds, all of them exposed."""
        return replace(self, time_s=time_s, exposed_s=time_s)


def exposed(rows: Iterable[Row], whole_s: Number) -> list[Row]:
    """Return rows of which each adds to ``whole_s`` in proportion to the seconds it runs."""
    found = list(rows)
    run_s = sum(float(row.time_s) for row in found)
    return [replace(row, exposed_s=float(row.time_s * whole_s / run_s)) for row in found] if run_s else found


_ROUNDING = 1e-12
"""Of seconds that are added up in another order, as a share of them."""


def overlapped_s(rows: Iterable[Row]) -> float:
    """Return the seconds of communication that run behind compute, as far as rows tell them."""
    sent = [(float(row.time_s), float(row.exposed_s)) for row in rows if row.phase in COMMUNICATION]
    # Seconds that are all exposed may differ from them by a rounding.
    return sum((run - exposed for run, exposed in sent if run - exposed > _ROUNDING * run), 0.0)


def row_table(rows: Sequence[Row]) -> "polars.DataFrame":
    """Return rows as a data frame."""
    import polars

    return polars.DataFrame({f.name: [getattr(row, f.name) for row in rows] for f in fields(Row)})


class NumbersOnDemand(Mapping[str, Number]):
    """Named numbers, some given as functions that run when the number is first read.

    Where names alone are given, the function ``of_name`` returns the number of each.
    """

    def __init__(
        self,
        numbers: Mapping[str, Number | Callable[[], Number]] | Sequence[str],
        of_name: Callable[[str], Number] | None = None,
    ) -> None:
        given: Any = numbers
        self._numbers: dict[str, Any] = dict(given) if of_name is None else dict.fromkeys(given, of_name)
        self._of_name = of_name

    def __getitem__(self, name: str) -> Number:
        number = self._numbers[name]
        if callable(number):
            self._numbers[name] = number = number() if self._of_name is None else number(name)
        plain: Number = as_python(number)
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle with every number computed."""
        return NumbersOnDemand, (dict(self),)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


IN_HOST_MEMORY = "in the host's memory"
"""The line of a stage's ledger with what it keeps there, per device."""


@record
class StageMemory:
    """One pipeline stage's memory ledger: bytes by part (``MEMORY_PARTS``) and the named items inside them."""

    stage: str
    """first, middle (the heaviest of them) or last; a single stage is the first. On unlike devices also what it runs
    on."""
    parts: Mapping[str, Number]
    items: Mapping[str, Number]
    """Finer lines, such as ``layer activations``, ``logits``, ``recomputation working set``."""
    moments: Mapping[str, Number]
    """Bytes of all parts at each moment of a step that may be the fullest; the parts are those of the fullest."""

    @property
    def total(self) -> Number:
        """Bytes of all parts."""
        return reduce(larger, [self.moments[name] for name in self.moments if name != BETWEEN_PASSES])

    @property
    def peak(self) -> str:
        """The moment of a step at which the stage's device is fullest (one plan only)."""
        passes = (name for name in self.moments if name != BETWEEN_PASSES)
        return max(passes, key=lambda name: float(self.moments[name]))


def _usable_bytes(profile: "Profile") -> Number:
    """All of a device's memory, or the share that an engine takes."""
    usable: Number = profile.scenario.cluster.device.memory_bytes * getattr(
        profile.scenario.plan, "memory_fraction", 1.0
    )
    return usable


def _micro_batches(profile: "Profile") -> Number | None:
    """Those of a step on each replica; None where they are not known, or of other tasks."""
    plan = profile.scenario.plan if profile.task is TRAINING else None
    micro_batches: Number | None = None
    if plan is not None and plan.micro_batch is not None:
        micro_batches = profile.scenario.micro_batches
    return micro_batches


_DEFAULTS: Mapping[str, Any] = {
    "fits": None,
    "host_fits": True,
    "phases": {},
    "limits": {},
    "levels": {},
    "levels_by_phase": {},
    "memory_bytes": {},
    "usable_bytes": _usable_bytes,
    "rows": (),
    "stages": (),
    "stage_times": {},
    "micro_batches": _micro_batches,
    "interval": {},
    "evidence": {},
    "missing": {},
    "advice": (),
    "anchor": (),
    "measurement": {},
    "outcome": None,
    "summary": None,
    "limited_by": "",
    "curve": (),
    "warnings": (),
}


def _likely_within(deviations: float) -> float:
    """Probability of less than the mean and so many standard deviations."""
    return 0.5 + 0.5 * erf(deviations / sqrt(2.0))


SURE = round(_likely_within(FOUR_IN_FIVE), 9)
"""Probability from which on a plan surely fits, or does not: at an end of the interval, and as good as there."""


class Profile:
    """What a prediction or a measurement says; every metric that its task declares is an attribute.

    A figure may be given as a function of the profile, which runs when the figure is first read: most callers read few
    of them.
    """

    __slots__ = ("_given", "task")

    task: Task
    """The declaration of its metrics and phases."""
    scenario: Any
    """The fully resolved question."""
    source: str
    """predicted or measured."""
    fits: bool | Any
    """Whether the fullest device's total is within its memory, and ``host_fits``; None for a single operator."""
    host_fits: bool | Any
    """Whether a host's memory holds what is offloaded to it."""
    phases: Mapping[str, Number]
    """Seconds by phase; they sum to the task's whole."""
    limits: Mapping[str, Number]
    """The same seconds by what bounds them (``BOUNDS``)."""
    levels: Mapping[str, Number]
    """The same seconds by the level of the machine that binds (``LEVELS``); waiting for other devices is split in
    proportion to the pass that it waits for. Empty where it is not predicted."""
    levels_by_phase: Mapping[str, Mapping[str, Number]]
    """Of generation: those of ``prefill`` and of ``decode``, which sum to ``levels``."""
    memory_bytes: Mapping[str, Number]
    """The fullest device by part (``MEMORY_PARTS``), with ``total``."""
    usable_bytes: Number
    """Bytes of that device that may be filled: all of its memory, or the share that an engine takes."""
    rows: Sequence[Row]
    """What each operator address does on one device."""
    stages: Sequence[StageMemory]
    """Of training: the memory ledger of the first, the heaviest middle and the last pipeline stage; on unlike devices,
    or where the plan states the stages' layers, of every stage."""
    stage_times: Mapping[str, tuple[Number, Number, Number]]
    """Of training: seconds of a micro-batch by stage: its forward pass (with data and loss), its backward pass (with
    recomputation), and the weight gradients in the latter."""
    micro_batches: Number | None
    """Of training: micro-batches of a step on each replica; of unlike ones on those that set the pace."""
    missing: Mapping[str, str]
    """What would have to be measured for a part of the evidence to be calibrated, where that is known."""
    interval: Mapping[str, tuple[Number, Number | None]]
    """80 % intervals by result key, where the residuals behind them are known."""
    evidence: Any
    """Where the constants come from, by kind (of a single operator a word): calibrated, extrapolated, datasheet,
    estimated, or given by the caller."""
    advice: Sequence[str]
    """When it does not fit: changes that would fit, as sentences."""
    anchor: Sequence[Mapping[str, Any]]
    """Own runs that the prediction was corrected with: from, learned, unused, sentence."""
    measurement: Mapping[str, Any]
    """How it was measured: repeats, spread, library, overhead; empty for a prediction."""
    outcome: Any
    """Of serving: what became of each request (`sightline.simulation.outcome`); None where it was not kept."""
    summary: Any
    """Of serving without rows: what they came to (`sightline.simulation.results.summary`)."""
    limited_by: str
    """Of serving: what kept the engine from answering faster, in words; empty where that is not known."""
    curve: Sequence[Mapping[str, Any]]
    """Of serving: what was found at other rates of arrivals, where the highest was searched for."""
    warnings: Sequence[str]

    def __init__(self, *, scenario: Any, source: str, **given: Any) -> None:
        task = task_of(scenario.workload.task)
        if task is None:
            raise TypeError(f"no profile for task {scenario.workload.task}")
        if unknown := given.keys() - _DEFAULTS.keys() - task.metrics.keys():
            raise TypeError(f"a {task.name} profile has no {', '.join(sorted(unknown))}")
        values = {key: value if callable(value) else _plain(value) for key, value in given.items()}
        object.__setattr__(self, "task", task)
        object.__setattr__(self, "_given", {"scenario": scenario, "source": source, **_DEFAULTS, **values})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a profile is immutable; use replace({name}=...) for a changed copy")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        given = self._given
        if name in given:
            value = given[name]
            if callable(value):
                given[name] = value = _plain(value(self))
            return value
        metric = self.task.metrics.get(name)
        if metric is None:
            raise AttributeError(f"a {self.task.name} profile has no {name}")
        return None if metric.formula is None else _plain(metric.formula(self))

    def __reduce__(self) -> Any:
        """Copy and pickle with every figure computed."""
        return partial(Profile, **{key: getattr(self, key) for key in self._given}), ()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._given, *self.task.metrics})

    @property
    def stated(self) -> tuple[str, ...]:
        """The figures that were given, not derived."""
        return tuple(self._given)

    def replace(self, **changes: Any) -> "Profile":
        """Return the profile with other values of some figures."""
        return Profile(**{**self._given, **changes})

    def __getitem__(self, index: Any) -> "Profile":
        """The profile of one plan of an array-valued profile, by its index in the broadcast shape."""
        pick = partial(picked, shape=self._shape(), index=index)
        chosen = {key: _later(pick, value) if callable(value) else pick(value) for key, value in self._given.items()}
        stages = chosen["stages"]
        return Profile(**{**chosen, "stages": _later(held, stages) if callable(stages) else held(stages)})

    def _shape(self) -> tuple[int, ...]:
        """The shape of the plans: that of times, memory, energy and price together."""
        joules = (key for key in ("energy_per_step_j", "energy_j") if key in self._given)
        figures = [self.figure(key) for key in (*self.task.times, "fits", *joules)]
        return np.broadcast_shapes(*map(np.shape, (*figures, self.scenario.cluster.device.usd_per_hour)))

    @property
    def whole_s(self) -> Number:
        """Seconds that the phases sum to: of a step, a batch or an operator."""
        whole: Number = self.figure(self.task.whole)
        return whole

    def figure(self, key: str) -> Any:
        """Return the figure of a result key; a dotted one is a part of a metric, as in ``ttft_s.p90``.

        None where the metric or its part is not known.
        """
        name, _, part = key.partition(".")
        value = getattr(self, name)
        return value.get(part) if part and value is not None else value

    @property
    def bottleneck(self) -> Any:
        """What bounds the largest part of the time; an array of names for many plans, None where it is not known."""
        if not self.limits:
            return self.bound if "bound" in self.task.metrics else None
        return longest(BOUNDS, self.limits)

    @property
    def bound_level(self) -> Any:
        """The level of the machine that binds most of the time; an array of names for many plans, None if unknown."""
        return longest(LEVELS, self.levels) if self.levels else None

    @property
    def fits_probability(self) -> float:
        """Probability that memory is enough (one plan only): by the interval of what a device needs, else by ``fits``.

        What is needed is log-normal; a host that is too small for what is offloaded to it decides alone.
        """
        low, high = (float(end or 0.0) for end in self.interval.get("memory_bytes.total", (0.0, 0.0)))
        if low == high or not self.host_fits:
            return float(bool(self.fits))
        beyond = log(float(self.usable_bytes) / sqrt(low * high)) / (log(high / low) / 2.0)
        return _likely_within(FOUR_IN_FIVE * beyond)

    @property
    def fit(self) -> str:
        """Whether memory is enough (one plan only): yes or no beyond the ends of the 80 % interval, else tight.

        Empty where nothing says whether it is.
        """
        if self.fits is None:
            return ""
        probability = self.fits_probability
        return "yes" if probability > SURE else "no" if probability < 1.0 - SURE else "tight"

    @property
    def tight(self) -> bool:
        """Whether the memory that a device has is inside of the interval of what is needed (one plan only)."""
        return self.fit == "tight"

    @property
    def memory_peak(self) -> str:
        """The moment of a step at which the fullest stage's device is fullest (one plan only); empty if unknown."""
        fullest = max(self.stages, key=lambda stage: float(stage.total), default=None)
        return "" if fullest is None else fullest.peak

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame (one plan only)."""
        return row_table(self.rows)

    def to_dict(self, *, tables: bool = False) -> dict[str, Any]:
        """Return the documented result keys of one plan, in SI units and plain Python numbers.

        With ``tables`` also its ``rows`` and, of training, the memory of its ``stages``.
        """
        from sightline.loading import to_mapping
        from sightline.profile.results import answer_to_dict, stamped, tables_to_dict

        about = stamped({"scenario": to_mapping(self.scenario), "source": self.source})
        return {**as_json(about), **answer_to_dict(self), **(tables_to_dict(self) if tables else {})}

    def _headline(self) -> dict[str, Any]:
        """The headline's metrics by key, and whether it fits."""
        found = {key: self.figure(key) for key in self.task.headline}
        found["fits"] = self.fits
        return {key: value for key, value in found.items() if value is not None}

    def __repr__(self) -> str:
        figures = ", ".join(f"{key}={_shown(value)}" for key, value in self._headline().items())
        return f"<{self.source} {self.task.name} profile: {figures}>"

    def _repr_html_(self) -> str:
        """A small table for notebooks."""
        from html import escape

        title = escape(str(self.scenario.name or f"{self.task.name}, {self.source}"))
        rows = "".join(f"<tr><td>{key}</td><td>{_shown(value)}</td></tr>" for key, value in self._headline().items())
        return f"<table><caption>{title}</caption>{rows}</table>"


LONGEST_SAMPLE, SAMPLES = "longest_sample", "samples"
"""The limit of ranks that wait for the one with the longest samples, and the module of the row that says so."""


def seconds_by_limit(profile: Profile) -> dict[str, Number]:
    """Return the seconds by limit, with those that ranks wait for the longest samples apart from the network's."""
    limits = dict(profile.limits)
    if "network" in limits and getattr(profile.scenario.workload, "lengths", None) is not None:
        waits_s = sum(row.time_s for row in profile.rows if row.module == SAMPLES)
        if waits_s > 0:
            limits |= {"network": max(limits["network"] - waits_s, 0.0), LONGEST_SAMPLE: waits_s}
    return limits


def longest(names: Sequence[str], seconds: Mapping[str, Number]) -> Any:
    """Return the name of most seconds, the first of equal ones; an array of names where seconds are arrays."""
    if not any(isinstance(seconds[name], np.ndarray) for name in names):
        return max(names, key=lambda name: float(seconds[name]))
    stacked = np.stack(np.broadcast_arrays(*(seconds[name] for name in names)))
    return np.array(names)[stacked.argmax(axis=0)]


def _shown(value: Any) -> str:
    """A figure in four digits; of many plans the range."""
    if np.ndim(value):
        return f"{_shown(np.min(value).item())} to {_shown(np.max(value).item())}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return a figure with Python's own numbers where it holds scalars of NumPy, and None for one that is none."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    value = as_python(value)
    return None if isinstance(value, float) and isnan(value) else value


def held(stages: Sequence[StageMemory]) -> list[StageMemory]:
    """Return the stages that one plan's pipeline has; weights may lie in the host's memory."""

    def holds(stage: StageMemory) -> bool:
        weights = stage.parts["weights"]
        return bool(np.ndim(weights) or weights > 0 or stage.items.get(IN_HOST_MEMORY, 0.0) > 0)

    return [stage for stage in stages if holds(stage)]


def _later(pick: Any, value: Any) -> Any:
    """Return the function of a picked profile that reads the whole profile's function and picks from it."""
    return lambda profile: pick(value(profile))


def picked(value: Any, shape: tuple[int, ...], index: Any) -> Any:
    """Return one plan's value of every array in ``value``, after broadcasting it to the plans' ``shape``."""
    pick = partial(picked, shape=shape, index=index)
    if isinstance(value, Mapping):
        return {key: pick(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(pick, value))
    if isinstance(value, np.ndarray):
        return as_python((value if value.shape == shape else np.broadcast_to(value, shape))[index])
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: pick(getattr(value, f.name)) for f in fields(value)})
    return value
