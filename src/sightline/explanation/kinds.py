"""Kinds of answers that can be compared with each other, and the figures each is asked for first."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of answer, under the names of the result keys."""

    name: str
    tasks: tuple[str, ...]
    headline: str
    """The time whose uncertainty stands for that of all parts that have none of their own."""
    rates: tuple[str, ...]
    """Figures of which more is faster."""
    times: tuple[str, ...]
    shares: tuple[str, ...] = ()
    """Rates that are shares of a device's; more is not always better."""
    headline_of_phase: Mapping[str, str] = field(default_factory=dict)
    """Phases that another time stands for."""

    @property
    def figures(self) -> tuple[str, ...]:
        """All figures, in the order they are shown."""
        return (*self.times, *self.rates)


KINDS = (
    Kind(
        name="training",
        tasks=("pretrain", "finetune"),
        headline="step_time_s",
        times=("step_time_s",),
        rates=("tokens_per_s", "mfu", "hfu"),
        shares=("mfu", "hfu"),
    ),
    Kind(
        name="generation",
        tasks=("generate",),
        headline="latency_s",
        times=("ttft_s", "tpot_s", "latency_s"),
        rates=("output_tokens_per_s",),
        headline_of_phase={"prefill": "ttft_s", "decode": "tpot_s"},
    ),
    Kind(
        name="operator",
        tasks=("operator",),
        headline="time_s",
        times=("time_s",),
        rates=("flops_per_s", "bytes_per_s"),
    ),
)


def kind_of(task: str) -> Kind | None:
    """Return the kind that a task is answered by; None for one that nobody compares yet."""
    return next((kind for kind in KINDS if task in kind.tasks), None)
