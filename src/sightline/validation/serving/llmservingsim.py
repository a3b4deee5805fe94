"""The log of vLLM 0.19 on a GeForce RTX 4090 that LLMServingSim was validated against: 300 requests, Llama-3.1-8B."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sightline.quantities import GIB
from sightline.simulation.requests import Requests
from sightline.validation.cells import lines_of
from sightline.validation.serving.logs import Log, MeasuredRun

LOG = Path("llmservingsim") / "RTX4090_Llama-3.1-8B_vllm_requests.csv"
DEVICE = "rtx-4090"
SETTINGS = Path("llmservingsim") / "RTX4090_Llama-3.1-8B_config.json"
WEIGHT_BYTES = 16.06e9
"""Of 8.03 billion parameters in 16 bits."""
TOKEN_BYTES = 131072.0
"""Keys and values of a token: 32 layers, 8 heads of 128 elements, 16 bits."""
DECISIONS = (
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
        decisions=DECISIONS,
        figures=tuple(f"{time}.{figure}" for figure in ("mean", "p90") for time in times),
        goals={f"{time}.{name}": goal for name, goal in (("mean", "8 %"), ("p90", "10 %")) for time in times},
        devices=[DEVICE] if (data / LOG).is_file() and (data / SETTINGS).is_file() else [],
        read=lambda: [_run(data)],
    )


def _run(data: Path) -> MeasuredRun:
    rows = sorted(lines_of(data / LOG), key=lambda row: row.number("queued_s"))
    columns = {name: np.array([row.number(name) for row in rows]) for name in rows[0] if name != "request_id"}
    requests = Requests(
        arrival_s=columns["queued_s"],
        prompt_tokens=columns["input_tokens"].astype(np.int64),
        output_tokens=columns["output_tokens"].astype(np.int64),
    )
    settings = json.loads((data / SETTINGS).read_text(encoding="utf-8"))
    return MeasuredRun(
        name="rtx-4090 llama-3.1-8b vllm 0.19",
        scenario=_scenario(requests),
        kv_tokens=_kv_tokens(settings),
        requests=requests,
        first_token_s=columns["first_token_s"],
        last_token_s=columns["last_token_s"],
        counted=np.ones(len(requests), np.bool_),
    )


def _kv_tokens(settings: Mapping[str, Any]) -> int:
    (instance,) = settings["nodes"][0]["instances"]
    memory = instance["npu_mem"]
    return int((memory["mem_size"] * GIB * memory["mem_util"] - WEIGHT_BYTES) // TOKEN_BYTES)


def _scenario(requests: Requests) -> dict[str, Any]:
    lengths = {"prompt_tokens": int(requests.prompt_tokens.mean()), "output_tokens": int(requests.output_tokens.mean())}
    return {
        "model": "llama-3.1-8b",
        "cluster": {"devices": f"1x {DEVICE}"},
        "workload": {"task": "serve", "requests": {"count": len(requests), **lengths}},
        "plan": {
            "framework": "vllm",
            "framework_version": "0.19",
            "max_batched_tokens": 2048,
        },
    }
