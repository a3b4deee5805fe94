"""The requests of an outcome as a data frame, a row each."""

from typing import TYPE_CHECKING

import numpy as np

from sightline.simulation.outcome import COMPLETED, REFUSALS, Outcome
from sightline.simulation.requests import Integers
from sightline.simulation.results.request_times import times_of

if TYPE_CHECKING:
    import polars

FAILED = "failed"


def request_table(outcome: Outcome, numbers: Integers | None = None) -> "polars.DataFrame":
    """Return what became of each request: the load's columns, its times, and its status in words.

    Times are seconds; those that a request does not have are null. ``numbers`` are those of the requests in their load,
    where the outcome is a piece of it. Where other replicas decode than process prompts, the latter, and when keys and
    values were sent and came, are columns too.
    """
    import polars

    requests = outcome.requests
    done = outcome.status == COMPLETED
    times = {
        "scheduled_s": outcome.scheduled_s,
        "first_token_s": outcome.first_token_s,
        "last_token_s": outcome.last_token_s,
        "queue_s": outcome.scheduled_s - requests.arrival_s,
        **times_of(outcome),
    }
    moved = outcome.transfers
    between = (
        {}
        if moved is None
        else {"prefill_replica": moved.replica, "prefilled_s": moved.prefilled_s, "ready_s": moved.ready_s}
    )
    words = {COMPLETED: "completed", **REFUSALS}
    return polars.DataFrame(
        {
            "request": np.arange(len(requests)) if numbers is None else numbers,
            "status": [words.get(int(status), FAILED) for status in outcome.status],
            "arrival_s": requests.arrival_s,
            "prompt_tokens": requests.prompt_tokens,
            "output_tokens": requests.output_tokens,
            **{name: np.where(done, seconds, np.nan) for name, seconds in times.items()},
            **{name: getattr(outcome, name) for name in ("cached_tokens", "preemptions", "replica")},
            **between,
            **{name: getattr(requests, name) for name in ("prefix_id", "prefix_tokens", "session_id", "priority")},
            "adapter": requests.adapter,
        }
    ).with_columns(polars.selectors.float().fill_nan(None))
