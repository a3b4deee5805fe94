"""Cases of generation: independent runs, each in a process of its own, told as the profile of a prediction."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.errors import InputError
from sightline.loading import generation_from_mapping
from sightline.loading.clusters.this_machine import processor
from sightline.measurement.generation.loop import way_of
from sightline.measurement.generation.run import RUN, Asked, measure_generation_run
from sightline.measurement.machine.record import require
from sightline.measurement.machine.timing import median_of_runs, spread_of_samples
from sightline.measurement.models.build import check_checkpoint
from sightline.measurement.processes.case import Emit, UnsupportedCaseError
from sightline.measurement.processes.ranks import Ranks, run_ranks
from sightline.measurement.processes.results import (
    held_bytes,
    limits_of,
    memory_by_part,
    profile_of,
    remarks_on_times,
    why_too_large,
)
from sightline.measurement.processes.suite import Case, Settings, case_of
from sightline.prediction.generation.predict import predict_generation
from sightline.profile import BOUNDS, Profile
from sightline.scenario import GenerationScenario

CASE = f"{__name__}:measure_case"
RUNS = 3
"""Independent runs: another process finds other memory, another clock, another order of everything."""


def measure_case(arguments: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Measure a scenario; ``arguments`` are those of a run, and ``threads`` of each."""
    own = {key: value for key, value in arguments.items() if key != "threads"}
    runs = []
    for number in range(1 if arguments["quick"] else RUNS):

        def send(sample: Mapping[str, Any], run: int = number) -> None:
            emit({"run": run, **sample})

        runs += run_ranks(RUN, own, Ranks(here=1, threads=arguments["threads"]), send)
    return result_of(generation_from_mapping(arguments["scenario"]), runs)


LONGEST_S = 3600.0
"""A case may take so long."""


def cases_of(scenarios: Sequence[GenerationScenario], settings: Settings) -> list[Case]:
    """Return a case for each scenario.

    Raises:
        InputError: A package is missing, the machine cannot do what a scenario asks, or a model does not fit into it.
    """
    asked: dict[str, Any] = {"quick": settings.quick, "weights": settings.weights, "threads": processor().cores}
    ways = _checked(scenarios, settings)
    return [case_of(s, CASE, LONGEST_S, way=way, **asked) for s, way in zip(scenarios, ways, strict=True)]


def measure_generation(scenario: GenerationScenario, settings: Settings) -> Profile:
    """Measure one scenario in this process: a single run, of which nothing is stored.

    Raises:
        InputError: A package is missing, the machine cannot do what is asked, or the model does not fit into it.
        WorkError: Memory ran out.
    """
    (way,) = _checked([scenario], settings)
    asked = Asked(way=way, quick=settings.quick, weights=settings.weights)
    try:
        run = measure_generation_run(scenario, asked, lambda _: None)
    except UnsupportedCaseError as error:
        raise InputError(str(error)) from error
    result = result_of(scenario, [run])
    return profile_of(scenario, result, result["rows"])


def _checked(scenarios: Sequence[GenerationScenario], settings: Settings) -> list[str]:
    """Each scenario's way; everything that keeps one from being measured is a problem of its own."""
    require("torch", "transformers")
    ways, problems = [], []
    for scenario in scenarios:
        try:
            ways.append(way_of(scenario, settings.implementation))
            if settings.weights is not None:
                check_checkpoint(scenario.model, Path(settings.weights))
        except (UnsupportedCaseError, InputError) as error:
            problems += str(error).splitlines()
            continue
        if not settings.force and (too_large := why_too_large(predict_generation(scenario))):
            problems.append(too_large)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return ways


Runs = Sequence[Mapping[str, Any]]
"""What `run.measure_run` returned, a mapping per run."""


def result_of(scenario: GenerationScenario, runs: Runs) -> dict[str, Any]:
    """Return a measurement's own result keys, and ``rows`` with the 80 % interval of their seconds."""
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
    """Seconds to the first token, per further token and in all, of every answer of every run.

    Without further tokens they take 0.
    """
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
