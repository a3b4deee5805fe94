"""A measured load simulated again: the same requests at the same times, request by request beside what was measured."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sightline.simulation.outcome import Outcome
from sightline.simulation.requests import Floats
from sightline.simulation.results.intervals import PERCENTILES
from sightline.simulation.results.percentiles import of_values
from sightline.simulation.results.request_times import times_of

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
