"""What independent runs of generation saw, as the profile that a prediction has."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sightline.measurement.machine.timing import median_of_runs, spread_of_samples
from sightline.measurement.processes.results import (
    held_bytes,
    limits_of,
    memory_by_part,
    remarks_on_times,
)
from sightline.profile import BOUNDS
from sightline.scenario import GenerationScenario

Runs = Sequence[Mapping[str, Any]]
"""What `case.measure_run` returned, a mapping per run."""


def result_of(scenario: GenerationScenario, runs: Runs) -> dict[str, Any]:
    """Return the result keys that a measurement has of its own, and ``rows`` with the 80 % interval of their seconds."""
    times = _times(runs)
    (ttft_s, ttft_ends), (tpot_s, tpot_ends), (latency_s, ends) = (median_of_runs(t) for t in times.values())
    # Whatever is derived from both medians, as everywhere.
    whole_s = ttft_s + (float(scenario.workload.output_tokens) - 1.0) * tpot_s
    tokens = float(scenario.workload.batch * scenario.workload.output_tokens)
    low, high = (whole_s * end / latency_s for end in ends)
    rows = _rows(runs)
    intervals = {
        "ttft_s": ttft_ends,
        "tpot_s": tpot_ends,
        "latency_s": (low, high),
        "output_tokens_per_s": (tokens / high, tokens / low),
    }
    return {
        "source": "measured",
        "fits": True,
        "ttft_s": ttft_s,
        "tpot_s": tpot_s,
        "latency_s": whole_s,
        "output_tokens_per_s": tokens / whole_s,
        "phases": {
            "prefill": ttft_s,
            "decode": whole_s - ttft_s,
            "communication": 0.0,
            "transfer": 0.0,
            "host": 0.0,
        },
        "memory_bytes": _memory([run["memory"] for run in runs]),
        "energy_j": _mean([run["energy_j"] for run in runs]),
        "limits": _limits(rows, ttft_s, whole_s),
        "interval": {key: list(ends) for key, ends in intervals.items() if ends[0] > 0},
        "evidence": {"framework": "measured"},
        "measurement": _measurement(runs, times),
        "warnings": [
            *remarks_on_times(*ends, latency_s, stable=all(run["stable"] for run in runs)),
            *_differences(scenario),
        ],
        "rows": rows,
    }


def _times(runs: Runs) -> dict[str, list[list[float]]]:
    """Seconds to the first token, per further token and in all, of every answer of every run; 0 per token without any."""
    answers = [[np.asarray(passes) for passes in run["passes_s"]] for run in runs]
    return {
        "ttft_s": [[float(passes[0]) for passes in run] for run in answers],
        "tpot_s": [[float(passes[1:].mean()) if len(passes) > 1 else 0.0 for passes in run] for run in answers],
        "latency_s": [[float(passes.sum()) for passes in run] for run in answers],
    }


def _rows(runs: Runs) -> list[dict[str, Any]]:
    """Rows with the mean over all recorded answers, and an interval as wide as that of their median."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in (row for run in runs for row in run.get("rows", ())):
        found.setdefault((row["phase"], row["block"], row["module"], row["operator"]), []).append(row)
    return [_row(same) for same in found.values()]


def _row(same: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    samples = [row["samples_s"] for row in same]
    mean_s = float(np.mean(np.concatenate(samples)))
    ends = {}
    if min(min(s) for s in samples) > 0:
        median_s, (low, high) = median_of_runs(samples)
        ends = {"low_s": mean_s * low / median_s, "high_s": mean_s * high / median_s}
    about = {key: value for key, value in same[0].items() if key != "samples_s"}
    return {**about, "time_s": mean_s, "exposed_s": mean_s, **ends}


def _memory(runs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Bytes by part of the run that held most."""
    most = max(runs, key=held_bytes)
    return memory_by_part(most, {part: most[part] for part in ("weights", "kv_cache")})


def _limits(rows: Sequence[Mapping[str, Any]], ttft_s: float, whole_s: float) -> dict[str, float]:
    """The latency by what bounds it: as the rows have it; without any, arithmetic in prefill and memory in decode."""
    if rows:
        return limits_of(rows, whole_s)
    return {**dict.fromkeys(BOUNDS, 0.0), "compute": ttft_s, "memory": whole_s - ttft_s}


def _measurement(runs: Runs, times: Mapping[str, list[list[float]]]) -> dict[str, Any]:
    overheads = [run["overhead"] for run in runs if "overhead" in run]
    return {
        **runs[0]["record"],
        "runs": len(runs),
        "repeats": [len(run["passes_s"]) for run in runs],
        "warm_up": [run["warm_up"] for run in runs],
        "stable": all(run["stable"] for run in runs),
        "spread_s": {key.removesuffix("_s"): spread_of_samples(samples) for key, samples in times.items()},
        "peak_memory_bytes": {key: max(run["memory"][key] for run in runs) for key in runs[0]["memory"]},
        **({"instrumentation_overhead": float(np.median(overheads))} if overheads else {}),
    }


def _differences(scenario: GenerationScenario) -> list[str]:
    """How transformers generates otherwise than a prediction takes it to."""
    if scenario.model.latent is None:
        return []
    return [
        "transformers expands the latents of all tokens anew for each token; predicted are products with the latents"
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None
