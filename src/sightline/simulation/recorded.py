"""Records of a measured load as the outcome that simulations have."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from sightline.simulation.outcome import COMPLETED, Iterations, Outcome
from sightline.simulation.requests import Floats, Integers, Requests

FAILED: Final = -1
"""Status of a request that ended in an error; its reason is in its record."""
# As `engine.records.gap_edges_s`, which measuring would have to import the compiler for.
GAP_EDGES_S: Final[Floats] = 1e-6 * 1.001 ** np.arange(23_101.0)
"""Bins of times between tokens: from 1 us to about three hours, 0.1 % wide."""
KEPT = ("prompt_tokens", "prefix_id", "prefix_tokens", "session_id", "priority", "adapter")
Records = Sequence[Mapping[str, Any]]


def outcome_of(records: Records) -> Outcome:
    """Return what became of the requests, in their order; latencies count from when a request was to be sent.

    Nobody saw the engine's queue, preemptions or cache: these are NaN, 0 and empty.
    """
    rows = sorted(records, key=lambda record: record["number"])
    done = np.array([not row["failure"] for row in rows], bool)
    columns = {name: _integers(rows, name) for name in KEPT}
    requests = Requests(
        arrival_s=_floats(rows, "intended_s"),
        output_tokens=np.array([_answered(row) for row in rows], np.int64),
        think_s=_floats(rows, "think_s"),
        **columns,
    )
    nothing = np.zeros(len(rows), np.int64)
    return Outcome(
        requests=requests,
        scheduled_s=np.full(len(rows), np.nan),
        first_token_s=np.array([row["chunk_s"][0] if row["chunk_s"] else np.nan for row in rows]),
        last_token_s=np.array([row["chunk_s"][-1] if row["chunk_s"] else np.nan for row in rows]),
        cached_tokens=_integers(rows, "server_cached_tokens"),
        preemptions=nothing,
        replica=nothing,
        status=np.where(done, COMPLETED, FAILED),
        iterations=_unseen(),
        gap_counts=_gap_counts([row for row in rows if not row["failure"]]),
        gap_edges_s=GAP_EDGES_S,
    )


def _answered(row: Mapping[str, Any]) -> int:
    """Tokens of an answer, as the server counts them; those that were asked for where it failed."""
    return int(row["output_tokens"] if row["failure"] else row["server_output_tokens"])


def _gap_counts(rows: Records) -> Integers:
    """How many times between tokens lie in each bin; tokens of one chunk come together."""
    gaps = [np.diff(row["chunk_s"]) for row in rows if row["chunk_s"]]
    seconds = np.concatenate(gaps) if gaps else np.zeros(0)
    bins = np.clip(np.searchsorted(GAP_EDGES_S, seconds, side="right") - 1, 0, GAP_EDGES_S.size - 2)
    counts = np.bincount(bins, minlength=GAP_EDGES_S.size - 1).astype(np.int64)
    counts[0] += sum(max(_answered(row) - len(row["chunk_s"]), 0) for row in rows)
    return counts


def _unseen() -> Iterations:
    times, counts = np.zeros(0), np.zeros(0, np.int64)
    return Iterations(
        start_s=times,
        end_s=times,
        replica=counts,
        prompt_tokens=counts,
        decodes=counts,
        running=counts,
        waiting=counts,
        kv_tokens=counts,
    )


def _floats(rows: Records, name: str) -> Floats:
    return np.array([row[name] for row in rows], np.float64)


def _integers(rows: Records, name: str) -> Integers:
    return np.array([row[name] for row in rows], np.int64)
