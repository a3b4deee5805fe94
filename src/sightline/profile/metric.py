"""How a profile of a task is declared: its metrics with unit, meaning and formula, its phases, its short tables."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from sightline.profile.profile import Profile

Unit: TypeAlias = Literal[
    "s", "tokens/s", "requests/s", "tokens", "FLOP", "FLOP/s", "B", "B/s", "J", "USD", "share", "count", "word"
]
STATISTICS = ("mean", "p50", "p90", "p99")
"""What a result says of a time that many requests have: their mean, and percentiles."""


Formula: TypeAlias = "Callable[[Profile], Any]"


def _always(_: "Profile") -> bool:
    return True


class Metric(NamedTuple):
    """One figure of a profile; its key in the task's ``metrics`` is its result key."""

    unit: Unit
    label: str
    """A short name for tables and charts."""
    meaning: str
    formula: "Formula | None" = None
    """How it follows from the other metrics; None for one that a prediction or measurement states."""
    applies: "Callable[[Profile], bool]" = _always
    """Whether a scenario has this metric at all; one that applies and is unknown is None."""
    parts: tuple[str, ...] = ()
    """Of a metric that is a mapping: its keys, such as ``mean`` and ``p90``. The part's own key is ``ttft_s.p90``."""

    def of_part(self, part: str) -> "Metric":
        """Return the declaration of one part."""
        named = f"mean {self.label}" if part == "mean" else f"{self.label} {part}"
        return self._replace(label=named, parts=())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What a profile of one task declares."""

    name: str
    """training, generation, serving or operator."""
    workloads: tuple[str, ...]
    """Values of ``workload.task``."""
    metrics: Mapping[str, Metric]
    whole: str
    """The time that phases and limits sum to. Parts without an interval of their own take its interval."""
    headline: tuple[str, ...]
    """Metrics of the short table."""
    details: tuple[str, ...] = ()
    """Further metrics of a report."""
    totals: tuple[str, ...] = ()
    """Amounts of the whole run or batch."""
    compared: tuple[str, ...]
    """Columns of a table with one line per scenario: metrics, ``memory``, ``fits``, ``bottleneck``, ``evidence``."""
    best: str
    """The metric of which more is better when scenarios are compared."""
    phases: tuple[str, ...] = ()
    """Parts of ``whole``, in seconds; they sum to it."""
    phase_times: Mapping[str, str] = field(default_factory=dict)
    """Metrics whose interval a phase takes."""

    @property
    def figures(self) -> Mapping[str, Metric]:
        """The metrics under the keys of single figures: those that are mappings part by part, ``ttft_s.p90``."""
        return _figures(self)

    def declared(self, key: str) -> Metric:
        """Return the declaration of a single figure, of any percentile too: ``ttft_s.p95``."""
        name, _, part = key.partition(".")
        return self.figures[key] if key in self.figures else self.metrics[name].of_part(part)

    @property
    def times(self) -> tuple[str, ...]:
        """The times among the headline's figures."""
        return tuple(key for key in self.headline if self.figures[key].unit == "s")

    @property
    def rates(self) -> tuple[str, ...]:
        """The headline's figures of which more is faster."""
        return tuple(key for key in self.headline if self.figures[key].unit != "s")

    @property
    def shares(self) -> tuple[str, ...]:
        """Rates that are shares of a device's; more is not always better."""
        return tuple(key for key in self.headline if self.figures[key].unit == "share")


@cache
def _figures(task: Task) -> Mapping[str, Metric]:
    """What `Task.figures` returns; tables of many profiles ask for it again and again."""
    return {
        f"{key}.{part}" if part else key: metric.of_part(part) if part else metric
        for key, metric in task.metrics.items()
        for part in metric.parts or ("",)
    }
