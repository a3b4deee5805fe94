"""How fast Sightline is on this machine: ``python benchmarks/bench_speed.py [--json]``.

Cold start of the command, one prediction in process, and plans per CPU-second of an open mesh of GPT-3 175B on 1,024
A100s, with the same mesh's main terms in bare NumPy in the same run for scale. Limits are asserted with room for a slow
machine; the figures printed are what counts.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

EXAMPLE = Path(__file__).parents[1] / "examples" / "llama-2-7b-zero2-8xa800.yaml"
FORBIDDEN = ("torch", "scipy", "altair", "polars", "pandas")
SLOW_MACHINE = 2.5
"""Factor by which an unknown machine may miss the targets before the benchmark fails."""
COLD_START_S, PREDICTION_S = 0.7, 0.003


def main() -> None:
    """Measure, print, and fail where something is far too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    figures = {"cold_start_s": cold_start(), "prediction_s": prediction()}
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<20} {value:.6g}")
    assert figures["cold_start_s"] < COLD_START_S * SLOW_MACHINE, "the command starts slowly"
    assert figures["prediction_s"] < PREDICTION_S * SLOW_MACHINE, "a prediction is slow"


def cold_start() -> float:
    """Return the least seconds of ``sightline predict`` as a process, which must not import what is heavy."""
    code = "import sys; from sightline.cli.main import run; run(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "predict", str(EXAMPLE), "--json"]
    modules = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
    assert not set(FORBIDDEN) & set(modules), f"imported: {set(FORBIDDEN) & set(modules)}"
    command = [sys.executable, "-m", "sightline", "predict", str(EXAMPLE)]
    return least(lambda: subprocess.run(command, check=True, capture_output=True), repeats=5)


def prediction() -> float:
    """Return the least seconds of one prediction in process."""
    from sightline import load, predict

    scenario: Any = load(EXAMPLE)
    predict(scenario)
    return least(lambda: predict(scenario), repeats=30)


def least(work: Callable[[], object], repeats: int) -> float:
    """Return the least wall-clock seconds of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.min(times))


if __name__ == "__main__":
    main()
