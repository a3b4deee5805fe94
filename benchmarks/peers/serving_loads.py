"""Ask BLIS or inference-lab for published loads of vLLM servers, and compare with what was measured.

    sightline validate LOADS/*.yaml --cases --json > unseen-loads.json
    go build -o blis .                                       # in a clone of inference-sim/inference-sim at f90a1e3
    python benchmarks/peers/serving_loads.py unseen-loads.json blis CLONE MODEL_CONFIGS
    npm install @doublewordai/inference-lab@0.2.1            # in a folder of its own
    python benchmarks/peers/serving_loads.py unseen-loads.json inference-lab FOLDER MODEL_CONFIGS

MODEL_CONFIGS holds config.json files of Hugging Face by name. Each peer is asked for the loads of models and devices
that it knows, with vLLM's limits for the device; BLIS has one H100, and means only of the gaps between tokens.
"""

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from comparison import Compared, cases_of, report

CONFIGS = {
    "qwen3-14b": "qwen3-14b.json",
    "qwen3-30b-a3b": "qwen3-30b-a3b.json",
    "qwen3-235b-a22b": "Qwen--Qwen3-235B-A22B.json",
    "llama-3.1-70b": "llama-3.1-70b-instruct.json",
    "gpt-oss-20b": "openai--gpt-oss-20b.json",
    "gpt-oss-120b": "openai--gpt-oss-120b.json",
}
DEVICES = {"h100": "H100", "a100": "A100-80", "b200": "B200"}
PARAMETERS = {"qwen3-14b": (14_768_307_200, 14_768_307_200), "qwen3-30b-a3b": (30_532_122_624, 3_340_000_000)}
"""All and active parameters, for inference-lab."""
BATCHED_TOKENS = {"a100": (2048, 256)}
"""Tokens and sequences of an iteration by device; the others take 8,192 and 1,024 (vLLM's `get_batch_defaults`)."""
QUANTITIES = {
    "requests_per_s": ("responses_per_sec", "requests_per_sec", 1.0),
    "ttft_s.mean": ("ttft_mean_ms", "ttft_mean", 1e-3),
    "tpot_s.mean": ("itl_mean_ms", "per_token_mean", 1e-3),
    "itl_s.p50": ("", "per_token_p50", 1e-3),
    "output_tokens_per_s": ("tokens_per_sec", "output_tokens_per_sec", 1.0),
}
"""A quantity's names in BLIS and in inference-lab, empty where it has none, and the factor to our unit."""
NODE = """
import fs from 'node:fs'; import init, { run_simulation } from '@doublewordai/inference-lab';
const at = 'node_modules/@doublewordai/inference-lab/inference_lab_bg.wasm';
await init({ module_or_path: fs.readFileSync(at) });
console.log(JSON.stringify(run_simulation(fs.readFileSync(0, 'utf8')).metrics));
"""
Load = Mapping[str, Any]


def main(cases: str, tool: str, place: str, configs: str) -> None:
    """Simulate every load of vLLM, and print both errors by quantity."""
    simulate = {"blis": blis, "inference-lab": inference_lab}[tool]
    found: dict[str, Load | Exception] = {}
    for quantity, (of_blis, of_lab, unit) in QUANTITIES.items():
        name = {"blis": of_blis, "inference-lab": of_lab}[tool]
        if not name:
            continue
        chosen = [
            case for case in cases_of(cases, quantity=quantity) if case["scenario"]["plan"]["framework"] == "vllm"
        ]

        def value(scenario: Load, name: str = name, unit: float = unit) -> float:
            key = scenario["name"]
            if key not in found:
                try:
                    found[key] = simulate(load_of(scenario), Path(place), Path(configs))
                except Exception as error:  # noqa: BLE001 - whatever a peer raises is its refusal
                    found[key] = error
            metrics = found[key]
            if isinstance(metrics, Exception):
                raise metrics
            return unit * float(metrics[name])

        rows = [Compared.timed(case, value, case["scenario"]) for case in chosen]
        if any(row.peers is not None for row in rows):
            report({"blis": "BLIS"}.get(tool, tool), quantity.replace(".", " "), rows)


def load_of(scenario: Load) -> Load:
    """Return what a peer is told of a load."""
    model, plan, work = scenario["model"], scenario["plan"], scenario["workload"]
    stated = scenario["cluster"]["device"]
    device = stated["name"].split("-")[0]
    tokens, sequences = BATCHED_TOKENS.get(device, (8192, 1024))
    name = model if isinstance(model, str) else model["name"]
    output = work["requests"]["output_tokens"]
    mean, deviation = (output["mean"], output["deviation"]) if isinstance(output, dict) else (output, 0.0)
    return {
        "model": name,
        "config": CONFIGS.get(name, ""),
        "device": DEVICES[device],
        "figures": {
            "name": stated["name"],
            "compute_flops": stated["peak_flops"]["bf16"],
            "memory_bandwidth": stated["memory_bandwidth"],
            "memory_capacity": int(stated["memory"]),
            "gpu_memory_utilization": plan["memory_fraction"],
            "bytes_per_param": 2,
        },
        "tensor_parallel": plan["tensor_parallel"],
        "expert_parallel": plan["expert_parallel"] > 1,
        "sequences": plan.get("max_sequences", sequences),
        "tokens": plan.get("max_batched_tokens", tokens),
        "requests": work["requests"]["count"],
        "prompt": work["requests"]["prompt_tokens"],
        "output": mean,
        "cv": deviation / mean,
        "concurrency": work["arrival"].get("concurrency"),
    }


def blis(load: Load, clone: Path, configs: Path) -> Load:
    """Return BLIS's metrics."""
    spread = int(load["cv"] * load["output"])
    most = int(load["output"] + 4 * spread)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text((configs / load["config"]).read_text("utf-8"), encoding="utf-8")
        options = {
            "model": load["model"],
            "model-config-folder": folder,
            "hardware": load["device"],
            "tp": load["tensor_parallel"],
            "max-num-seqs": load["sequences"],
            "max-num-batched-tokens": load["tokens"],
            "num-requests": load["requests"],
            "timeout": -1,
            **{f"prompt-tokens{end}": load["prompt"] for end in ("", "-min", "-max")},
            "prompt-tokens-stdev": 0,
            "output-tokens": int(load["output"]),
            "output-tokens-stdev": spread,
            "output-tokens-min": 2 if spread else int(load["output"]),
            "output-tokens-max": most,
        }
        options |= {"concurrency": load["concurrency"]} if load["concurrency"] else {"rate": 100_000}
        flags = [f"--{name}={value}" for name, value in options.items()]
        flags += ["--enable-expert-parallel"] if load["expert_parallel"] else []
        done = subprocess.run(
            [clone / "blis", "run", *flags], cwd=clone, check=True, capture_output=True, text=True, timeout=60
        )
    printed = done.stdout
    metrics: Load = json.JSONDecoder().raw_decode(printed[printed.index("{") :])[0]
    return metrics


def inference_lab(load: Load, folder: Path, configs: Path) -> Load:
    """Return inference-lab's metrics, whose package runs in Node.js and knows one device of 16 bits."""
    if load["tensor_parallel"] > 1 or load["model"] not in PARAMETERS:
        raise ValueError("one device, and a model in 16 bits")
    arrival = {"arrival_pattern": "batched", "arrival_rate": 1.0}
    if load["concurrency"]:
        arrival = {"arrival_pattern": "closed_loop", "num_concurrent_users": load["concurrency"]}
    sd = math.sqrt(math.log1p(load["cv"] ** 2))
    mean = math.log(load["output"]) - sd**2 / 2
    output = (
        {"type": "lognormal", "mean": mean, "std_dev": sd} if sd else {"type": "fixed", "value": int(load["output"])}
    )
    of = json.loads((configs / load["config"]).read_text("utf-8"))
    parameters, active = PARAMETERS[load["model"]]
    told = {
        "hardware": load["figures"],
        "model": {
            "name": load["model"],
            "num_parameters": parameters,
            "num_active_parameters": active,
            "num_layers": of["num_hidden_layers"],
            "hidden_dim": of["hidden_size"],
            "num_heads": of["num_attention_heads"],
            "num_kv_heads": of["num_key_value_heads"],
            "max_seq_len": of["max_position_embeddings"],
        },
        "scheduler": {
            "max_num_batched_tokens": load["tokens"],
            "max_num_seqs": load["sequences"],
            "policy": "fcfs",
            "enable_chunked_prefill": True,
            "block_size": 16,
        },
        "workload": {
            **arrival,
            "num_requests": load["requests"],
            "seed": 42,
            "input_len_dist": {"type": "fixed", "value": load["prompt"]},
            "output_len_dist": output,
        },
        "simulation": {"log_interval": 1000},
    }
    done = subprocess.run(
        ["node", "--input-type=module", "-e", NODE],
        cwd=folder,
        input=json.dumps(told),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    metrics: Load = json.loads(done.stdout)
    return metrics


if __name__ == "__main__":
    main(*sys.argv[1:])
