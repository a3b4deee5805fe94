"""Predict published times of Llama 2 on A100 and H100 with GenZ, and compare with what was measured.

    git clone https://github.com/abhibambhaniya/GenZ-LLM-Analyzer && git -C GenZ-LLM-Analyzer checkout 091bdd0
    python -m venv genz-env && genz-env/bin/pip install -r GenZ-LLM-Analyzer/requirements.txt
    sightline validate splitwise-decode --data DIR --cases --json > cases.json
    PYTHONPATH=GenZ-LLM-Analyzer genz-env/bin/python benchmarks/peers/genz_generation.py cases.json tpot [EFFICIENCY]

Quantities are ttft, tpot, or latency of prompt and answer. Only rows that Sightline's constants were not fitted to (the
part test) count. GenZ takes one efficiency for compute and memory, 1 by default, and knows no engine.
"""

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from typing import Any

from comparison import Compared, cases_of, report
from GenZ import decode_moddeling, prefill_moddeling

SYSTEMS = {"a100-sxm-80gb": "A100_80GB_GPU", "h100-sxm-80gb": "H100_GPU"}
MODELS = {"llama-2-7b": "llama2_7b", "llama-2-13b": "llama2_13b", "llama-2-70b": "llama2_70b"}


def main(cases: str, quantity: str, efficiency: str = "1") -> None:
    """Predict every case and print both errors."""
    warnings.simplefilter("ignore")
    predict, share = QUANTITIES[quantity], float(efficiency)
    known = [case for case in cases_of(cases, "test") if case["scenario"]["model"] in MODELS]
    report("GenZ", cases, [Compared.timed(case, predict, case["scenario"], share) for case in known])


def ttft(scenario: dict[str, Any], efficiency: float) -> float:
    """Return GenZ's seconds of a pass over the prompts."""
    asked = {**_asked(scenario, efficiency), "batch_size": scenario["workload"]["batch"]}
    with contextlib.redirect_stdout(io.StringIO()):
        return float(prefill_moddeling(input_tokens=scenario["workload"]["prompt_tokens"], **asked)["Latency"]) / 1e3


def tpot(scenario: dict[str, Any], efficiency: float) -> float:
    """Return GenZ's seconds of a further token, halfway through the answer."""
    work = scenario["workload"]
    asked = {**_asked(scenario, efficiency), "batch_size": work["batch"], "Bb": 1}
    tokens = {"input_tokens": work["prompt_tokens"], "output_tokens": work["output_tokens"] // 2}
    with contextlib.redirect_stdout(io.StringIO()):
        return float(decode_moddeling(**tokens, **asked)["Latency"]) / 1e3


def latency(scenario: dict[str, Any], efficiency: float) -> float:
    """Return GenZ's seconds from the prompts to the last token."""
    further = int(scenario["workload"]["output_tokens"]) - 1
    return ttft(scenario, efficiency) + further * tpot(scenario, efficiency)


QUANTITIES: dict[str, Callable[[dict[str, Any], float], float]] = {"ttft": ttft, "tpot": tpot, "latency": latency}


def _asked(scenario: dict[str, Any], efficiency: float) -> dict[str, Any]:
    _, _, device = scenario["cluster"]["devices"].partition("x ")
    degree = scenario["plan"]["tensor_parallel"]
    return {
        "model": MODELS[scenario["model"]],
        "system_name": SYSTEMS[device],
        "system_eff": efficiency,
        "bits": "bf16",
        "tensor_parallel": degree,
        "parallelism_hierarchy": f"TP{{{degree}}}_EP{{1}}_PP{{1}}",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
