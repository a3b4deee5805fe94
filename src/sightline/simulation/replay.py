"""A measured load simulated again: the same requests at the same times, request by request beside what was measured."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sightline.simulation.load import Floats, Integers, Requests
from sightline.simulation.outcome import COMPLETED, Iterations, Outcome
from sightline.simulation.results.times import PERCENTILES, of_values, times_of

if TYPE_CHECKING:
    import polars

TIMES = ("ttft_s", "tpot_s", "latency_s")


def compared_requests(measured: Outcome, simulated: Outcome) -> "polars.DataFrame":
    """Return a row for each request: its lengths, and every time as measured and as simulated."""
    import polars

    requests, columns = measured.requests, {}
    for key in TIMES:
        for name, of in (("measured", measured), ("simulated", simulated)):
            columns[f"{name}_{key}"] = times_of(of)[key]
    return polars.DataFrame(
        {
            "request": np.arange(len(requests)),
            "arrival_s": requests.arrival_s,
            "prompt_tokens": requests.prompt_tokens,
            "output_tokens": requests.output_tokens,
            **columns,
        }
    ).with_columns(polars.selectors.float().fill_nan(None))


def compared_statistics(measured: Outcome, simulated: Outcome) -> list[dict[str, Any]]:
    """Return mean and percentiles of every time, measured and simulated, over the requests that both completed."""
    here, there = times_of(measured), times_of(simulated)
    rows = []
    for key in TIMES:
        both = ~np.isnan(here[key]) & ~np.isnan(there[key])
        if not both.any():
            continue
        for name, statistic in STATISTICS.items():
            of_measured, of_simulated = statistic(here[key][both]), statistic(there[key][both])
            rows.append(
                {
                    "time": key,
                    "statistic": name,
                    "measured": of_measured,
                    "simulated": of_simulated,
                    "error": of_simulated / of_measured - 1.0,
                }
            )
    return rows


def _percentile(share: float) -> Callable[[Floats], float]:
    return lambda seconds: of_values(np.sort(seconds), share)


STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda seconds: float(seconds.mean()),
    **{name: _percentile(share) for name, share in PERCENTILES.items()},
}


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
