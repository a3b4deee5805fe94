"""Compares a measured load with its simulation, request by request."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sightline.simulation.engine.records import gap_edges_s
from sightline.simulation.load import Floats, Integers, Requests
from sightline.simulation.outcome import COMPLETED, REFUSALS, TIMED_OUT, Outcome
from sightline.simulation.results.times import PERCENTILES, of_values, times_of

if TYPE_CHECKING:
    import polars

TIMES = ("ttft_s", "tpot_s", "latency_s")


def compared_requests(measured: Outcome, simulated: Outcome) -> "polars.DataFrame":
    """Return one row per request with its lengths and its measured and simulated times."""
    import polars

    requests, times = measured.requests, {"measured": times_of(measured), "simulated": times_of(simulated)}
    columns = {f"{name}_{key}": of[key] for key in TIMES for name, of in times.items()}
    return polars.DataFrame(
        {
            "request": np.arange(len(requests)),
            **{name: getattr(requests, name) for name in ("arrival_s", "prompt_tokens", "output_tokens")},
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
            row = {"time": key, "statistic": name, "measured": of_measured, "simulated": of_simulated}
            rows.append(row | {"error": of_simulated / of_measured - 1.0})
    return rows


def _percentile(share: float, seconds: Floats) -> float:
    return of_values(np.sort(seconds), share)


STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda seconds: float(seconds.mean()),
    **{name: partial(_percentile, share) for name, share in PERCENTILES.items()},
}


FAILED: Final = -1
"""Status of a request that ended in an error; its reason is in its record."""
GAP_EDGES_S: Final[Floats] = gap_edges_s()
_STATUS: Final = {"": COMPLETED, REFUSALS[TIMED_OUT]: TIMED_OUT}
KEPT = ("think_s", "prompt_tokens", "prefix_id", "prefix_tokens", "session_id", "priority", "adapter")
Records = Sequence[Mapping[str, Any]]


def outcome_of(records: Records) -> Outcome:
    """Return the outcome of measured requests; latencies start at the time a request was due to be sent.

    Nobody saw the engine's queue, preemptions or cache: these are NaN, 0 and empty.
    """
    rows = sorted(records, key=lambda record: record["number"])
    requests = Requests(
        arrival_s=_column(rows, "intended_s"),
        output_tokens=np.array([_answered(row) for row in rows], np.int64),
        **{name: _column(rows, name) for name in KEPT},
        slo_class=np.array([row.get("slo_class", 0) for row in rows], np.int64),
    )
    nothing: Any = np.zeros(len(rows), np.int64)
    return Outcome(
        requests=requests,
        scheduled_s=np.full(len(rows), np.nan),
        first_token_s=np.array([row["chunk_s"][0] if row["chunk_s"] else np.nan for row in rows]),
        last_token_s=np.array([row["chunk_s"][-1] if row["chunk_s"] else np.nan for row in rows]),
        cached_tokens=_column(rows, "server_cached_tokens"),
        preemptions=nothing,
        replica=nothing,
        status=np.array([_STATUS.get(row["failure"], FAILED) for row in rows], np.int64),
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


def _column(rows: Records, name: str) -> Any:
    return np.array([row[name] for row in rows], np.float64 if name.endswith("_s") else np.int64)
