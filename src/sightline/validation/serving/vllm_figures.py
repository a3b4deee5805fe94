"""Runs of real vLLM servers under load of which the source has no log, only figures and the load's description."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sightline.simulation.requests import Floats, Requests
from sightline.validation.cells import lines_of
from sightline.validation.serving.logs import Log, MeasuredRun
from sightline.validation.serving.vllm_logs import DEVICES, FOLDER, scenario_of

FIGURES = {
    "ttft_s.mean": "ttft_mean_ms",
    "tpot_s.mean": "tpot_mean_ms",
    "latency_s.mean": "e2e_mean_ms",
    "ttft_s.p90": "ttft_p90_ms",
    "latency_s.p90": "e2e_p90_ms",
}
"""Columns of the source, by figure."""
DISTINCT = 100
"""Prompts that the load generator repeats in turn, as the logs of other runs of it show."""
SEED = 15
DECISIONS = (
    "Runs without a log that do not saturate the server, all stages of a run together.",
    (
        "Gaps between requests are exponential, scaled so that each stage has exactly rate times duration requests. The"
        " gaps themselves are unknown, and drawn."
    ),
    (
        "Prompts are as long as stated and 100 different ones come in turn, as in the logs of the same load generator."
        " The first of each, which no cache has, count as they do in the source's means."
    ),
    (
        "The cache has the stated blocks, or what is left of the device's memory where the source states none. The"
        " processor's memory as a second tier of the cache, which 5 of the 25 runs have, is left out."
    ),
    "No constant is fitted to these runs. That vLLM hides the host's time was chosen with them in view.",
)


def vllm_figures(data: Path) -> Log:
    """Return the runs of a data folder."""
    rows = _rows(data / FOLDER)
    return Log(
        name="serving-vllm-figures",
        source="inference-sim/training and sim-to-real-accuracy-validation, figures of vLLM 0.15.1 (2026)",
        decisions=DECISIONS,
        figures=tuple(FIGURES),
        goals={"ttft_s.mean": "median 15 %", "tpot_s.mean": "median 8 %", "latency_s.mean": "median 8 %"},
        devices=[DEVICES[row["hardware"]] for row in rows],
        read=lambda: [_run(row) for row in rows],
    )


def _rows(folder: Path) -> list[Mapping[str, str]]:
    """One row per run: that of all its stages."""
    table = folder / "experiments.csv"
    if not table.is_file():
        return []
    return [row for row in lines_of(table) if _is_whole(row) and not row["requests_csv"] and row["ttft_mean_ms"]]


def _is_whole(row: Mapping[str, str]) -> bool:
    return row["regime"].startswith("sub-saturated") and row.get("window") == "full" and row.get("stage") == "all"


def _run(row: Mapping[str, str]) -> MeasuredRun:
    arrival_s = _arrivals(row)
    count = arrival_s.size
    prompt = np.full(count, int(row["prompt_tokens_nominal"]), np.int64)
    blocks = row["kv_blocks_gpu"]
    return MeasuredRun(
        name=row["experiment"],
        scenario=scenario_of(row),
        kv_tokens=int(blocks) * int(row["block_size"]) if blocks else None,
        requests=Requests(
            arrival_s=arrival_s,
            prompt_tokens=prompt,
            output_tokens=np.full(count, int(row["output_tokens_forced"]), np.int64),
            prefix_id=np.arange(count) % DISTINCT,
            prefix_tokens=prompt,
        ),
        stated={figure: float(row[column]) / 1e3 for figure, column in FIGURES.items()},
        counted=np.ones(count, np.bool_),
    )


def _arrivals(row: Mapping[str, str]) -> Floats:
    """Seconds at which requests are sent, stage after stage."""
    rates = [float(rate) for rate in row["rate_per_s"].split("+")]
    stage_s, random = float(row["duration_s"]) / len(rates), np.random.default_rng(SEED)
    stages = []
    for number, rate in enumerate(rates):
        gaps = random.exponential(size=round(rate * stage_s) + 1)
        stages.append((number + np.cumsum(gaps)[:-1] / gaps.sum()) * stage_s)
    return np.concatenate(stages)
