"""How fast loads are served in simulation: ``python benchmarks/bench_serving.py [--json] [--long]``.

Llama-2-7B on an A100, Poisson arrivals at 65 % of the saturated rate, lognormal lengths of 1,165 and 220 tokens, 512
tokens per iteration, prefix hashing on, through the command and with its start: 100,000 requests with intervals and
without, on four replicas behind a weighted router with a table of their results, a few requests for the start alone,
and with ``--long`` 10 million requests of which no rows are kept. What counts are ratios to fixed work within the run,
in which a machine's speed cancels out.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench_speed import children_s, judge, pace

SHARE = 0.65
"""Of the rate at which requests are answered when all come at once."""
TARGETS = {"one replica, with intervals": 0.0208, "one replica": 0.0125, "four replicas, with a table": 0.0208}
"""Most of the fixed work's seconds that a request takes: 60,000, 100,000 and 60,000 per CPU-second at 0.8 ms."""
START, KEPT_BYTES = 750.0, 3.0e8
"""Most of the start alone: times of the fixed work, 0.6 s at 0.8 ms; and most memory of 100,000 requests."""
MOST_S, MOST_BYTES = 375_000.0, 1.0e9
"""Of 10 million requests: times of the fixed work, five minutes where it takes 0.8 ms, and memory."""


def main() -> None:
    """Measure, print, and fail where something is far too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--long", action="store_true", help="also 10 million requests, which takes minutes")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measured(Path(folder), long=asked.long)
    ratios = ratios_of(figures)
    if asked.json:
        print(json.dumps(figures | {"ratios": ratios}, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<36} {value:.6g}")
        print(f"\n{'ratio within this run':<36} {'now':>8} {'target':>8}")
        for name, (value, target) in ratios.items():
            print(f"{name:<36} {value:8.3g} {target:8.3g}")
    judge(ratios)


def ratios_of(figures: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Return what a machine's speed cancels out of, each with its target."""
    pace_s = figures["pace_s"]
    found = {name: (1.0 / figures[name] / pace_s, target) for name, target in TARGETS.items()}
    found["start, CPU s"] = figures["start, CPU s"] / pace_s, START
    found["one replica, most bytes"] = figures["one replica, most bytes"], KEPT_BYTES
    if "10 million, CPU s" in figures:
        found["10 million, CPU s"] = figures["10 million, CPU s"] / pace_s, MOST_S
        found["10 million, most bytes"] = figures["10 million, most bytes"], MOST_BYTES
    return found


def measured(folder: Path, *, long: bool) -> dict[str, float]:
    """Return requests per CPU-second of each run, the command's start included, and the pace of the machine."""
    figures = {"pace_s": pace()}
    burst = served(folder, 5_000, {"process": "all_at_once"}, 1, "--no-intervals")
    rate = SHARE * float(burst["requests_per_s"])
    arrival = {"process": "poisson", "rate": rate}
    table = ["--requests", str(folder / "requests.parquet")]
    runs = zip(TARGETS, (1, 1, 4), ([], ["--no-intervals"], ["--no-intervals", *table]), strict=True)
    for name, replicas, options in runs:
        found = served(folder, 100_000, arrival | {"rate": rate * replicas}, replicas, *options)
        figures[name] = found["completed"] / found["cpu_s"]
        figures.setdefault("one replica, most bytes", found["most_bytes"])
    figures["start, CPU s"] = min(served(folder, 10, arrival, 1, "--no-intervals")["cpu_s"] for _ in range(3))
    if long:
        found = served(folder, 10_000_000, arrival, 1, "--no-intervals")
        figures |= {"10 million, CPU s": found["cpu_s"], "10 million, most bytes": found["most_bytes"]}
    return figures | {"pace_s": min(figures["pace_s"], pace())}


def served(folder: Path, count: int, arrival: dict[str, Any], replicas: int, *options: str) -> dict[str, Any]:
    """Return what the command answers, its CPU-seconds and its most memory."""
    lengths = {"distribution": "lognormal", "cv": 1.0, "max": 2000}
    scenario = {
        "model": "llama-2-7b",
        "cluster": f"{replicas}x a100-sxm-80gb",
        "workload": {
            "task": "serve",
            "requests": {
                "count": count,
                "prompt_tokens": lengths | {"mean": 1165},
                "output_tokens": lengths | {"mean": 220},
            },
            "arrival": arrival,
        },
        "plan": {
            "framework": "vllm",
            "replicas": replicas,
            "router": "weighted",
            "max_batched_tokens": 512,
            "prefix_cache": True,
        },
    }
    path = folder / "scenario.yaml"
    # JSON is YAML.
    path.write_text(json.dumps(scenario))
    command = [sys.executable, "-m", "sightline", "simulate", str(path), "--json", *options]
    before = children_s()
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    most_bytes = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    found: dict[str, Any] = json.loads(answer)
    return found | {"cpu_s": children_s() - before, "most_bytes": most_bytes}


if __name__ == "__main__":
    main()
