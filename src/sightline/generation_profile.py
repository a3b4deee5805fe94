"""The answer to generation: time to first token, time per further token, and where both go."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.profile import BOUNDS, Row, picked, row_table
from sightline.quantities import Number
from sightline.scenario import Generate, GenerationScenario

if TYPE_CHECKING:
    import polars

PHASES = ("prefill", "decode", "communication", "transfer", "host")
"""Parts of a batch's latency, in seconds; they sum to it. Prefill and decode are device work; ``transfer`` moves keys and
values between disaggregated workers and activations between pipeline stages."""


def latency_s(work: Generate, ttft_s: Number, tpot_s: Number) -> Number:
    """Return seconds from arrival to the last token."""
    return ttft_s + (work.output_tokens - 1.0) * tpot_s


def output_tokens_per_s(work: Generate, ttft_s: Number, tpot_s: Number) -> Number:
    """Return tokens generated per second: those of all sequences over the latency of one.

    In a steady loop too: while a sequence lives, as many tokens are made as all sequences in flight will make.
    """
    return work.batch * work.output_tokens / latency_s(work, ttft_s, tpot_s)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationProfile:
    """The answer to a generation scenario."""

    scenario: GenerationScenario
    source: str
    """predicted or measured."""
    ttft_s: Number
    """From the batch's arrival to the first token of all its sequences."""
    tpot_s: Number
    """Mean time per further token of a sequence."""
    phases: Mapping[str, Number]
    """Seconds of the batch's latency by phase (``PHASES``)."""
    memory_bytes: Mapping[str, Number]
    """The fullest device by part, with ``total``."""
    fits: Any
    limits: Mapping[str, Number]
    """Seconds of the latency by what bounds them (``BOUNDS``)."""
    energy_j: Number
    """Of all devices, for the whole batch."""
    rows: Sequence[Row] = ()
    """Device work of the whole batch by operator address, on one device."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    interval: Mapping[str, tuple[Number, Number]] = field(default_factory=dict)
    """80 % intervals by result key, where the residuals behind them are known."""
    advice: Sequence[str] = ()
    """When it does not fit: what would (sentences)."""
    measurement: Mapping[str, Any] = field(default_factory=dict)
    """How it was measured: repeats, spread, peak memory, library, overhead of telling modules apart; empty for a
    prediction."""
    warnings: Sequence[str] = ()

    @property
    def latency_s(self) -> Number:
        """From arrival to the last token."""
        return latency_s(self.scenario.workload, self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s(self) -> Number:
        """Tokens generated per second on the whole cluster."""
        return output_tokens_per_s(self.scenario.workload, self.ttft_s, self.tpot_s)

    @property
    def output_tokens_per_s_per_device(self) -> Number:
        """The same per device."""
        return self.output_tokens_per_s / self.scenario.cluster.devices

    @property
    def bottleneck(self) -> Any:
        """What bounds the largest part of the latency; an array of names for many plans."""
        if all(np.ndim(self.limits[b]) == 0 for b in BOUNDS):
            return max(BOUNDS, key=lambda b: float(self.limits[b]))
        seconds = np.stack(np.broadcast_arrays(*(self.limits[b] for b in BOUNDS)))
        return np.array(BOUNDS)[seconds.argmax(axis=0)]

    @property
    def cost_usd(self) -> Number | None:
        """Rent for the batch's latency (of its share of a steady loop), where the device has a price."""
        price = self.scenario.cluster.device.usd_per_hour
        if price is None:
            return None
        work = self.scenario.workload
        seconds = work.batch * work.output_tokens / self.output_tokens_per_s
        return seconds / 3600 * self.scenario.cluster.devices * price

    @property
    def cost_usd_per_million_tokens(self) -> Number | None:
        """Rent per million generated tokens."""
        work = self.scenario.workload
        return None if self.cost_usd is None else self.cost_usd / (work.batch * work.output_tokens) * 1e6

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame (one plan only)."""
        return row_table(self.rows)

    def __getitem__(self, index: Any) -> "GenerationProfile":
        """The profile of one plan of an array-valued profile, by its index in the broadcast shape."""
        shape = np.broadcast_shapes(*map(np.shape, (self.ttft_s, self.tpot_s, self.fits, self.energy_j)))
        one: GenerationProfile = picked(self, shape, index)
        return one
