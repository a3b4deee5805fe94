"""Predict published Megatron steps with Calculon, and compare with what was measured.

    git clone https://github.com/calculon-ai/calculon && git -C calculon checkout caa4b11
    python -m venv calculon-env && calculon-env/bin/pip install numpy pandas psutil
    sightline validate korthikanti-2022-table5 --left-out --cases --json > cases.json
    PYTHONPATH=calculon calculon-env/bin/python benchmarks/peers/calculon_steps.py cases.json calculon/systems/a100_80e.json

Each case runs as Megatron-LM ran it: no optimizer sharding, gradients summed after the backward pass, tensor parallelism
inside a node. Calculon has one size of system file per device; the one named is what its own validation uses.
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from calculon.llm import Llm
from calculon.system import System
from comparison import Compared, cases_of, report


def main(cases: str, system: str) -> None:
    """Predict every case and print both errors."""
    machine = System(json.loads(Path(system).read_text(encoding="utf-8")))
    report(
        "Calculon",
        cases,
        [Compared.timed(case, step_seconds, case["scenario"], machine) for case in cases_of(cases)],
    )


def step_seconds(scenario: dict[str, Any], machine: Any) -> float:
    """Return Calculon's time of a step."""
    model = Llm(Llm.Application(application(scenario)), logging.getLogger())
    model.compile(machine, Llm.Execution.from_json(execution(scenario)))
    model.run(machine)
    return float(model.get_stats_json(False)["total_time"])


def application(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the model as Calculon describes it; it leaves out embedding and head."""
    model = scenario["model"]
    hidden, heads = model["hidden_size"], model["num_attention_heads"]
    return {
        "name": "published",
        "hidden": hidden,
        "feedforward": 4 * hidden,
        "seq_size": scenario["workload"]["sequence_length"],
        "attn_heads": heads,
        "attn_size": hidden // heads,
        "num_blocks": model["num_hidden_layers"],
    }


def execution(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the plan as Calculon describes it."""
    plan, work = scenario["plan"], scenario["workload"]
    sequences = bool(plan.get("sequence_parallel"))
    ranks = {name: plan.get(f"{name}_parallel", 1) for name in ("tensor", "pipeline", "data")}
    return {
        "num_procs": ranks["tensor"] * ranks["pipeline"] * ranks["data"],
        "tensor_par": ranks["tensor"],
        "pipeline_par": ranks["pipeline"],
        "data_par": ranks["data"],
        "tensor_par_net": 0,
        "pipeline_par_net": 1,
        "data_par_net": 1,
        "batch_size": work["global_batch"],
        "microbatch_size": plan.get("micro_batch", 1),
        "datatype": "float16",
        "fused_activation": False,
        "attention_type": "multihead",
        "activation_recompute": "full" if plan["recompute"] == "full" else "attn_only",
        "pipeline_interleaving": plan.get("virtual_stages", 1),
        "optimizer_sharding": False,
        "tensor_par_comm_type": "rs_ag" if sequences else "ar",
        "tensor_par_overlap": "none",
        "seq_par_ag_redo": sequences,
        "data_par_overlap": False,
        "weight_offload": False,
        "activations_offload": False,
        "optimizer_offload": False,
        "training": True,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
