"""The times of requests, from when each arrived and when its tokens came."""

import numpy as np

from sightline.simulation.outcome import COMPLETED, Outcome
from sightline.simulation.requests import Floats, Integers


def request_times(
    arrival_s: Floats, first_token_s: Floats, last_token_s: Floats, output_tokens: Integers
) -> dict[str, Floats]:
    """Return ``ttft_s``, ``tpot_s`` and ``latency_s`` of each request; TPOT is NaN for answers of one token."""
    further = output_tokens - 1
    further_s = (last_token_s - first_token_s) / np.maximum(further, 1)
    return {
        "ttft_s": first_token_s - arrival_s,
        "tpot_s": np.where(further > 0, further_s, np.nan),
        "latency_s": last_token_s - arrival_s,
    }


def times_of(outcome: Outcome) -> dict[str, Floats]:
    """Return the times of every request; NaN where it was not completed, or has no further token."""
    requests, done = outcome.requests, outcome.status == COMPLETED
    found = request_times(requests.arrival_s, outcome.first_token_s, outcome.last_token_s, requests.output_tokens)
    return {key: np.where(done, seconds, np.nan) for key, seconds in found.items()}
