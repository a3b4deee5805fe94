"""Predict SimuMax's published B200 steps with SimuMax itself, and compare with what was measured.

    git clone https://github.com/MooreThreads/SimuMax && git -C SimuMax checkout 4dcaae5
    python -m venv simumax-env && simumax-env/bin/pip install -r SimuMax/requirements.txt
    sightline validate simumax-b200-time --data DIR --left-out --cases --json > cases.json
    PYTHONPATH=SimuMax simumax-env/bin/python benchmarks/peers/simumax_steps.py cases.json SimuMax

Settings are those of its tools/b200, which made its published table.
"""

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

from comparison import Compared, cases_of, report
from simumax.core.perf_llm import PerfLLM

MODELS = {
    ("llama", 8192): "llama3-70b",
    ("llama", 16384): "llama3-405b_padding_128",
    ("deepseek_v2", 5120): "deepseekv2",
    ("deepseek_v3", 7168): "deepseekv3",
}
"""Its files of the models, by kind and width."""
EXPERTS = {"moe_pad_expert_input_to_capacity": True, "capacity": 1}


def main(cases: str, root: str) -> None:
    """Predict every case and print both errors."""
    configs = Path(root) / "configs"
    report(
        "SimuMax",
        cases,
        [Compared.timed(case, step_seconds, case["scenario"], configs) for case in cases_of(cases)],
    )


def step_seconds(scenario: dict[str, Any], configs: Path) -> float:
    """Return SimuMax's time of a step."""
    model, plan, work = scenario["model"], scenario["plan"], scenario["workload"]
    name = MODELS[model["model_type"], model["hidden_size"]]
    with contextlib.redirect_stdout(io.StringIO()):
        perf = PerfLLM()
        perf.configure(
            strategy_config=str(configs / "strategy" / "tp1_pp2_dp4_mbs1.json"),
            model_config=str(configs / "models" / f"{name}.json"),
            system_config=str(configs / "system" / "b200_bf16_ceperm.json"),
            debug_points=[],
        )
        for key, value in strategy(plan, work, experts="n_routed_experts" in model).items():
            setattr(perf.strategy, key, value)
        for key, value in changed(model).items():
            setattr(perf.model_config, key, value)
        perf.run_estimate()
        return milliseconds(perf.analysis_cost().data["duration_time_per_iter"]) / 1e3


def strategy(plan: dict[str, Any], work: dict[str, Any], *, experts: bool) -> dict[str, Any]:
    """Return the plan as SimuMax describes it: all overlap off, fused cross-entropy, no recomputation."""
    return {
        "seq_len": work["sequence_length"],
        "world_size": 8,
        "tp_size": plan["tensor_parallel"],
        "pp_size": plan["pipeline_parallel"],
        "cp_size": plan["context_parallel"],
        "ep_size": plan["expert_parallel"],
        "micro_batch_size": 1,
        "micro_batch_num": work["global_batch"] // plan["data_parallel"],
        "pp_comm_async": False,
        "te_version": "2.11.0",
        "cross_entropy_loss_fusion": True,
        "enable_straggler_model": False,
        **({"dispatch_probs": True} if experts else {}),
    }


def changed(model: dict[str, Any]) -> dict[str, Any]:
    """Return what its file of the model does not say."""
    experts = {**EXPERTS, "dense_layers": model["first_k_dense_replace"]} if "n_routed_experts" in model else {}
    padded = {"padded_vocab_size": True, "make_vocab_size_divisible_by": 128}
    return {"layer_num": model["num_hidden_layers"], **padded, **experts}


def milliseconds(text: str | float) -> float:
    """Return a time that SimuMax prints as a number or with its unit."""
    number, _, unit = str(text).strip().partition(" ")
    return float(number) * {"s": 1e3, "ms": 1.0, "us": 1e-3, "": 1.0}[unit]


if __name__ == "__main__":
    main(*sys.argv[1:])
