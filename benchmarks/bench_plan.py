"""How fast Sightline searches plans on this machine: ``python benchmarks/bench_plan.py [--json]``.

CPU-seconds in process, the least of a few runs, and how often a fixed work of small arrays fits into them: what counts
are ratios within one run, in which a machine's speed cancels out.
"""

import argparse
import json
import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench_speed import least_cpu, pace

SERVING: dict[str, Any] = {
    "model": "qwen3-32b-fp8",
    "cluster": "32x h200-sxm-141gb",
    "workload": {
        "task": "generate",
        "batch": {"from": 1, "to": 512},
        "prompt_tokens": 4000,
        "output_tokens": 500,
        "continuous": True,
    },
    "plan": {
        "framework": "tensorrt-llm",
        "quantization": "fp8-block",
        "max_batched_tokens": 8192,
        "chunked_prefill": False,
    },
}
"""One engine and the checkpoint's formats; layouts, disaggregated ones too, batches and prefill batches are free."""
SERVING_FREE: dict[str, Any] = {**SERVING, "plan": {}}
"""Engines, formats and chunk sizes are free too."""
SERVING_LIMITS = {"ttft": "300 ms", "tpot": "10 ms"}
SERVING_POINTS = 25_000
"""Points that others are known to take 9 CPU-seconds for."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    figures = {"pace_s": pace()} | serving()
    figures["pace_s"] = min(figures["pace_s"], pace())
    figures["serving_ratio"] = figures["serving_25k_cpu_s"] / figures["pace_s"]
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:<28} {value:.6g}")


def serving() -> dict[str, float]:
    """Return distinct valid points and CPU-seconds of the search of a serving plan, with and without an engine named.

    ``serving_25k_cpu_s`` is for as many points as `SERVING_POINTS`, all of the first search where it has fewer.
    """
    from sightline.planning.search import plan

    found: dict[str, float] = {}
    for name, asked in (("serving", SERVING), ("serving_free", SERVING_FREE)):
        points = plan(asked, **SERVING_LIMITS).evaluated
        seconds = least_cpu(lambda asked=asked: plan(asked, **SERVING_LIMITS))  # type: ignore[misc]
        found |= {f"{name}_points": points, f"{name}_cpu_s": seconds, f"{name}_points_per_cpu_s": points / seconds}
    found["serving_25k_cpu_s"] = found["serving_cpu_s"] * min(1.0, SERVING_POINTS / found["serving_points"])
    return found


if __name__ == "__main__":
    main()
