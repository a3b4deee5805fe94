"""Runs of real vLLM servers under load: logs of requests, stated figures, saturated servers."""

import json
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from sightline.quantities import GIB
from sightline.simulation.load import Floats, Requests
from sightline.validation.serving import RATE, Log, MeasuredRun, answered_per_s, measured_figure
from sightline.validation.tables import Line, catalog_name, lines_of

FOLDER = "vllm_serving"
DEVICES = {"H100-SXM-80GB": "h100-sxm-80gb", "A100-80GB": "a100-sxm-80gb"}
MODELS = {"llama-2-7b-hf": "llama-2-7b", "llama-2-70b-hf": "llama-2-70b", "codellama-34b-instruct-hf": "codellama-34b"}
LOGGED = (
    *("arrival_s", "prompt_tokens", "output_tokens", "prefix_id", "prefix_tokens"),
    *("first_token_s", "last_token_s", "ok"),
)
"""Columns of a log that are read."""
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


def _experiments(folder: Path) -> list[Line]:
    table = folder / "experiments.csv"
    return list(lines_of(table)) if table.is_file() else []


def rows_of_logs(folder: Path, *regimes: str) -> list[Mapping[str, str]]:
    """Return one row per log of a run in these regimes, in the order of the source."""
    rows = [row for row in _experiments(folder) if row["regime"].startswith(regimes)]
    by_log = {row["requests_csv"]: row for row in reversed(rows) if row["requests_csv"]}
    return [row for log, row in sorted(by_log.items()) if (folder / log).is_file()]


def run_of(row: Mapping[str, str], folder: Path) -> MeasuredRun:
    """Return the run of a log. Requests that failed have the length that was asked for."""
    log = folder / row["requests_csv"]
    lines = list(lines_of(log))
    columns: dict[str, Any] = {name: np.array([float(line[name] or "nan") for line in lines]) for name in LOGGED}
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
DECISIONS_ON_FIGURES = (
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
    # One row per run: that of all its stages.
    whole = [row for row in _experiments(data / FOLDER) if row.get("window") == "full" and row.get("stage") == "all"]
    rows = [row for row in whole if row["regime"].startswith("sub-saturated") and not row["requests_csv"]]
    rows = [row for row in rows if row["ttft_mean_ms"]]
    return Log(
        name="serving-vllm-figures",
        source="inference-sim/training and sim-to-real-accuracy-validation, figures of vLLM 0.15.1 (2026)",
        decisions=DECISIONS_ON_FIGURES,
        figures=tuple(FIGURES),
        goals={"ttft_s.mean": "median 15 %", "tpot_s.mean": "median 8 %", "latency_s.mean": "median 8 %"},
        devices=[DEVICES[row["hardware"]] for row in rows],
        read=lambda: [_run_of_figures(row) for row in rows],
    )


def _run_of_figures(row: Mapping[str, str]) -> MeasuredRun:
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


CAPPED, OVERLOADED = "saturated (client-capped)", "overload"
CLIENTS = 256
"""Requests that the client of the residency runs has in flight at most."""
TIMES = ("ttft_s.mean", "tpot_s.mean", "latency_s.mean")
DECISIONS_ON_SATURATION = (
    "Runs with a log per request whose queue grows without end, or would if the client had no limit.",
    (
        f"Where the client holds requests back, {CLIENTS} of them are always under way: clients in a closed loop, who"
        " all begin at once. Elsewhere requests are replayed at their arrivals."
    ),
    (
        "A client gives up after 300 s, which frees its place in the server. The simulation knows no clients that give"
        " up, so that both count the requests that were answered before the first one did."
    ),
    (
        "Limits of the scheduler and the blocks of the KV cache are the stated ones. The processor's memory as a second"
        " tier of the cache, which the two runs of 0.15.1 have, is left out."
    ),
    (
        "Servers count as the release they are of: two runs are of a fork of 0.15.1 with tracing on, two of 0.23.0 with"
        " a patch that by its authors costs about 1 % end to end."
    ),
    "No constant is fitted to these runs. That vLLM hides the host's time was chosen with them in view.",
)


def vllm_saturated(data: Path) -> Log:
    """Return the runs of a data folder."""
    rows = rows_of_logs(data / FOLDER, CAPPED, OVERLOADED)
    return Log(
        name="serving-vllm-saturated",
        source="inference-sim/training and inference-sim/residency-vllm, logs of vLLM 0.15.1 and 0.23.0 (2026)",
        decisions=DECISIONS_ON_SATURATION,
        figures=(RATE,),
        goals={RATE: "10 %"},
        devices=[DEVICES[row["hardware"]] for row in rows],
        read=lambda: [_saturated_run(row, data / FOLDER) for row in rows],
    )


def _saturated_run(row: Mapping[str, str], folder: Path) -> MeasuredRun:
    """The run of a log; where the client holds requests back, that of clients who send one after each answer."""
    run = run_of(row, folder)
    if row["regime"] != CAPPED:
        return run
    load = {**run.scenario["workload"], "arrival": {"process": "closed", "concurrency": CLIENTS}}
    return replace(
        run,
        scenario={**run.scenario, "workload": load},
        requests=replace(run.requests, arrival_s=np.zeros(len(run.requests))),
        stated={RATE: answered_per_s(run.last_token_s)} | {name: measured_figure(name, run) for name in TIMES},
    )


LOG = Path("llmservingsim") / "RTX4090_Llama-3.1-8B_vllm_requests.csv"
DEVICE = "rtx-4090"
SETTINGS = Path("llmservingsim") / "RTX4090_Llama-3.1-8B_config.json"
WEIGHT_BYTES = 16.06e9
"""Of 8.03 billion parameters in 16 bits."""
TOKEN_BYTES = 131072.0
"""Keys and values of a token: 32 layers, 8 heads of 128 elements, 16 bits."""
DECISIONS_ON_LLMSERVINGSIM = (
    "Requests arrive when the engine queued them. Their prompts share nothing.",
    (
        "The settings state the share of the memory that weights and cache take together, from which the cache's"
        " capacity follows; the log's own share of the cache in use agrees with it."
    ),
    (
        "The device's operators are calibrated by tables of the same project; the engine's constants are those of other"
        " devices. Nothing is fitted to the log."
    ),
)


def llmservingsim_log(data: Path) -> Log:
    """Return the run of a data folder."""
    times = ("ttft_s", "tpot_s", "latency_s")
    return Log(
        name="serving-rtx4090",
        source="casys-kaist/LLMServingSim, its evaluation's log of vLLM 0.19.0",
        decisions=DECISIONS_ON_LLMSERVINGSIM,
        figures=tuple(f"{time}.{figure}" for figure in ("mean", "p90") for time in times),
        goals={f"{time}.{name}": goal for name, goal in (("mean", "8 %"), ("p90", "10 %")) for time in times},
        devices=[DEVICE] if (data / LOG).is_file() and (data / SETTINGS).is_file() else [],
        read=lambda: [_llmservingsim_run(data)],
    )


def _llmservingsim_run(data: Path) -> MeasuredRun:
    rows = sorted(lines_of(data / LOG), key=lambda row: row.number("queued_s"))
    columns = {name: np.array([row.number(name) for row in rows]) for name in rows[0] if name != "request_id"}
    requests = Requests(
        arrival_s=columns["queued_s"],
        prompt_tokens=columns["input_tokens"].astype(np.int64),
        output_tokens=columns["output_tokens"].astype(np.int64),
    )
    (instance,) = json.loads((data / SETTINGS).read_text(encoding="utf-8"))["nodes"][0]["instances"]
    memory = instance["npu_mem"]
    lengths = {name: int(getattr(requests, name).mean()) for name in ("prompt_tokens", "output_tokens")}
    return MeasuredRun(
        name="rtx-4090 llama-3.1-8b vllm 0.19",
        scenario={
            "model": "llama-3.1-8b",
            "cluster": {"devices": f"1x {DEVICE}"},
            "workload": {"task": "serve", "requests": {"count": len(requests), **lengths}},
            "plan": {"framework": "vllm", "framework_version": "0.19", "max_batched_tokens": 2048},
        },
        kv_tokens=int((memory["mem_size"] * GIB * memory["mem_util"] - WEIGHT_BYTES) // TOKEN_BYTES),
        requests=requests,
        first_token_s=columns["first_token_s"],
        last_token_s=columns["last_token_s"],
        counted=np.ones(len(requests), np.bool_),
    )
