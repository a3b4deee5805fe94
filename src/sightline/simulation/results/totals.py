"""What a run's requests add up to: sums over them, which add up piece by piece."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from sightline.simulation.outcome import COMPLETED, Outcome
from sightline.simulation.requests import Floats, Integers
from sightline.simulation.results.request_times import request_times

if TYPE_CHECKING:
    from sightline.scenario import Slo

ROUNDING = 1e-12
"""Of a share that is compared with a percentile."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answered:
    """The completed requests of an outcome: seconds of each, in the order of the requests."""

    arrival_s: Floats
    ttft_s: Floats
    latency_s: Floats
    queue_s: Floats
    """NaN where nobody saw the queue, as outside of an engine that is measured."""
    transfer_s: Floats
    """Between replicas, of requests that are decoded by another than processed their prompt; NaN of the others."""
    decode_queue_s: Floats
    """From then to the first token; NaN of the others."""
    decode_s: Floats
    """From the first token to the last."""
    tpot_s: Floats
    """NaN for answers of one token."""
    output_tokens: Integers


def answered(outcome: Outcome) -> Answered:
    """Return the times of the completed requests."""
    done = outcome.status == COMPLETED
    arrival_s, output = outcome.requests.arrival_s[done], outcome.requests.output_tokens[done]
    first_s, last_s = outcome.first_token_s[done], outcome.last_token_s[done]
    none = np.full(output.size, np.nan)
    moved = outcome.transfers
    return Answered(
        arrival_s=arrival_s,
        **request_times(arrival_s, first_s, last_s, output),
        queue_s=outcome.scheduled_s[done] - arrival_s,
        transfer_s=none if moved is None else (moved.ready_s - moved.prefilled_s)[done],
        decode_queue_s=none if moved is None else first_s - moved.ready_s[done],
        decode_s=last_s - first_s,
        output_tokens=output,
    )


def good_requests(found: Answered, slo: "Slo") -> int:
    """Return how many requests kept every limit."""
    return int(kept(found, slo).sum())


def kept(found: Answered, slo: "Slo") -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Return which requests kept every limit; a time that an answer of one token does not have keeps its own."""
    good = np.ones(found.ttft_s.size, np.bool_)
    for key in ("ttft_s", "tpot_s", "latency_s"):
        limit = getattr(slo, key)
        if limit is not None:
            # Not `<=`: a NaN breaks no limit.
            good &= ~(getattr(found, key) > limit)
    return good


def meets(good_share: float | None, slo: "Slo") -> bool:
    """Return whether as large a share of all requests kept every limit as the objective asks; of no load it did not."""
    return good_share is not None and good_share >= slo.percentile / 100.0 * (1.0 - ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over requests; times and tokens are those of completed ones."""

    by_status: Counter[int] = field(default_factory=Counter)
    """Requests by what became of them."""
    good: int = 0
    """That kept every limit of the objective."""
    preemptions: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    ttft_s: float = 0.0
    decode_s: float = 0.0
    queue_s: float = 0.0
    queues: int = 0
    """Requests whose queue somebody saw."""
    transfer_s: float = 0.0
    decode_queue_s: float = 0.0
    transfers: int = 0
    """Requests that another replica decodes than processed their prompt."""
    first_arrival_s: float = np.inf
    """Of all requests."""
    last_token_s: float = -np.inf

    @property
    def requests(self) -> int:
        """All of them."""
        return self.by_status.total()

    @property
    def completed(self) -> int:
        """Those that were answered."""
        return self.by_status[COMPLETED]

    @property
    def duration_s(self) -> float:
        """Seconds from the first arrival to the last token; 0 where nothing completed."""
        return self.last_token_s - self.first_arrival_s if self.completed else 0.0

    @property
    def mean_queue_s(self) -> float | None:
        """The mean of those that somebody saw."""
        return self.queue_s / self.queues if self.queues else None

    def __add__(self, other: "Totals") -> "Totals":
        """The sums of both."""
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(Totals)}
        sums["first_arrival_s"] = min(self.first_arrival_s, other.first_arrival_s)
        sums["last_token_s"] = max(self.last_token_s, other.last_token_s)
        return Totals(**sums)


def totals_of(outcome: Outcome, found: Answered, slo: "Slo | None" = None) -> Totals:
    """Return what the requests of an outcome add up to; ``found`` has the times of those that completed."""
    done = outcome.status == COMPLETED
    queued = found.queue_s[~np.isnan(found.queue_s)]
    return Totals(
        by_status=Counter(outcome.status.tolist()),
        good=0 if slo is None else good_requests(found, slo),
        preemptions=int(outcome.preemptions.sum()),
        prompt_tokens=int(outcome.requests.prompt_tokens[done].sum()),
        cached_tokens=int(outcome.cached_tokens[done].sum()),
        output_tokens=int(found.output_tokens.sum()),
        ttft_s=float(found.ttft_s.sum()),
        decode_s=float(found.decode_s.sum()),
        queue_s=float(queued.sum()),
        queues=queued.size,
        transfer_s=float(np.nansum(found.transfer_s)),
        decode_queue_s=float(np.nansum(found.decode_queue_s)),
        transfers=int((~np.isnan(found.transfer_s)).sum()),
        first_arrival_s=float(outcome.requests.arrival_s.min(initial=np.inf)),
        last_token_s=float(outcome.last_token_s[done].max(initial=-np.inf)),
    )
