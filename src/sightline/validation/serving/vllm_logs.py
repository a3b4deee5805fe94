"""Runs of real vLLM servers under load (releases 0.15 and 0.23), one log per run, as in folder ``vllm_serving``."""

from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from sightline.simulation.requests import Requests
from sightline.validation.cells import catalog_name, lines_of
from sightline.validation.serving.logs import Log, MeasuredRun

FOLDER = "vllm_serving"
DEVICES = {"H100-SXM-80GB": "h100-sxm-80gb", "A100-80GB": "a100-sxm-80gb"}
MODELS = {"llama-2-7b-hf": "llama-2-7b", "llama-2-70b-hf": "llama-2-70b", "codellama-34b-instruct-hf": "codellama-34b"}
COLD_REQUESTS = 200
"""Requests that a server needs to have every prompt in its cache: twice as many as there are distinct ones."""
DECISIONS = (
    "Runs with a log per request that do not saturate the server; requests are replayed at their arrivals.",
    (
        "Requests whose prompts come again and again count from the 200th on: the source sends 100 distinct prompts,"
        " which the prefix cache then has. Where every prompt is another one, all requests count."
    ),
    (
        "Limits of the scheduler and the blocks of the KV cache are the stated ones. The processor's memory as a second"
        " tier of the cache, which the runs of 0.15.1 have, is left out."
    ),
    (
        "Servers count as the release they are of: seven runs are of a fork of 0.15.1 with tracing on, seven of 0.23.0"
        " as released, two of 0.23.0 with a patch that by its authors costs about 1 % end to end."
    ),
    "No constant is fitted to these runs. That vLLM hides the host's time was chosen with them in view.",
)


def vllm_logs(data: Path) -> Log:
    """Return the runs of a data folder."""
    rows = rows_of_logs(data / FOLDER, "sub-saturated")
    return Log(
        name="serving-vllm",
        source="inference-sim/training and inference-sim/residency-vllm, logs of vLLM 0.15.1 and 0.23.0 (2026)",
        decisions=DECISIONS,
        figures=("ttft_s.p50", "tpot_s.p50", "latency_s.p50", "ttft_s.p90", "tpot_s.p90", "latency_s.p90"),
        goals={"ttft_s.p50": "median 15 %", "tpot_s.p50": "median 8 %", "latency_s.p50": "median 8 %"},
        devices=[DEVICES[row["hardware"]] for row in rows],
        read=lambda: [run_of(row, data / FOLDER) for row in rows],
    )


def rows_of_logs(folder: Path, *regimes: str) -> list[Mapping[str, str]]:
    """Return one row per log of a run in these regimes, in the order of the source."""
    table = folder / "experiments.csv"
    if not table.is_file():
        return []
    rows = [row for row in lines_of(table) if row["regime"].startswith(regimes)]
    by_log = {row["requests_csv"]: row for row in reversed(rows) if row["requests_csv"]}
    return [row for log, row in sorted(by_log.items()) if (folder / log).is_file()]


def run_of(row: Mapping[str, str], folder: Path) -> MeasuredRun:
    """Return the run of a log. Requests that failed have the length that was asked for."""
    log = folder / row["requests_csv"]
    columns = _columns(list(lines_of(log)))
    requests = Requests(
        arrival_s=columns["arrival_s"],
        prompt_tokens=columns["prompt_tokens"].astype(np.int64),
        output_tokens=np.nan_to_num(columns["output_tokens"], nan=float(row["output_tokens_forced"])).astype(np.int64),
        prefix_id=columns["prefix_id"].astype(np.int64),
        prefix_tokens=columns["prefix_tokens"].astype(np.int64),
    )
    answered = columns["ok"] == 1
    cold = COLD_REQUESTS if requests.prefix_tokens.any() else 0
    return MeasuredRun(
        name=log.stem,
        scenario=scenario_of(row),
        kv_tokens=int(row["kv_blocks_gpu"]) * int(row["block_size"]),
        requests=requests,
        first_token_s=np.where(answered, columns["first_token_s"], np.nan),
        last_token_s=np.where(answered, columns["last_token_s"], np.nan),
        counted=(np.arange(len(requests)) >= cold) & answered,
        until_s=float(columns["last_token_s"][~answered].min(initial=inf)),
    )


def _columns(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    names = ("arrival_s", "prompt_tokens", "output_tokens", "prefix_id", "prefix_tokens")
    times = ("first_token_s", "last_token_s", "ok")
    return {name: np.array([float(row[name] or "nan") for row in rows]) for name in (*names, *times)}


def scenario_of(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the run's question, under our keys."""
    model = catalog_name(row["model"])
    plan = {
        "framework": "vllm",
        "framework_version": ".".join(row["vllm_version"].split()[0].split(".")[:2]),
        "tensor_parallel": int(row["tp"]),
        "max_batched_tokens": int(row["max_num_batched_tokens"]),
        "max_sequences": int(row["max_num_seqs"].split()[0]),
        **({"memory_fraction": float(row["gpu_mem_util"])} if row["gpu_mem_util"] else {}),
        **({"expert_parallel": int(row["ep"].split()[0])} if row["ep"][:1].isdigit() else {}),
        **({"quantization": "fp8"} if row["precision"] == "FP8" else {}),
    }
    lengths = {"prompt_tokens": int(row["prompt_tokens_nominal"]), "output_tokens": int(row["output_tokens_forced"])}
    return {
        "model": MODELS.get(model, model),
        "cluster": {"devices": f"{row['n_gpus']}x {DEVICES[row['hardware']]}"},
        "workload": {"task": "serve", "requests": {"count": int(row["n_requests"]), **lengths}},
        "plan": plan,
    }
