"""How fast Sightline explores hardware on this machine: ``python benchmarks/bench_explore.py [--json]``.

A study of a million points: logic nodes x memories x splits of the die x networks x plans. CPU-seconds in process from the
question to the answer, in both views of devices, and points per CPU-second over those of bare NumPy in the same run.
"""

import argparse
import json
import os
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from bench_plan import BARE_PLANS, RECOMPUTE, bare_mesh
from bench_speed import judge, least_cpu

TECHNOLOGY = "cluster.device.technology"
MILLION: dict[str, Any] = {
    "base": {
        "model": "gpt-3-175b",
        "cluster": "1024x h100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 1536},
        "plan": {"framework": "megatron", "recompute": "selective", "sequence_parallel": True},
    },
    "axes": {
        f"{TECHNOLOGY}.node": ["12nm", "10nm", "7nm", "5nm", "4nm", "3nm", "2nm", "1nm"],
        f"{TECHNOLOGY}.memory": ["hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4", "gddr6", "gddr7", "lpddr5"],
        f"{TECHNOLOGY}.split.compute": {"from": 0.3, "to": 0.6, "steps": 32},
        "cluster.network.bandwidth_per_node": {"from": "100 GB/s", "to": "1.6 TB/s", "steps": 16},
        "plan.tensor_parallel": [1, 2, 4, 8],
        "plan.pipeline_parallel": [2, 4, 8, 16],
        "plan.micro_batch": [1, 2],
    },
}
"""1,048,576 points, some of them devices that cannot be built and plans that do not fit."""
TARGET_S = 2.0
"""CPU-seconds that a million points may take."""
VIEWS = ("ideal", "calibrated")


def main() -> None:
    """Measure, print, and fail where something is far too slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    as_json = parser.parse_args().json
    figures = measured()
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:<28} {value:.6g}")
    judge({f"a million points, {view} view": (figures[f"{view}_cpu_s"], TARGET_S) for view in VIEWS})


def measured() -> dict[str, float]:
    """Return points, CPU-seconds of each view, and points per CPU-second over bare NumPy's of a mesh of plans."""
    from sightline.exploration.run import explore

    bare_s = least_cpu(lambda: [bare_mesh() for _ in RECOMPUTE])
    found: dict[str, float] = {"bare_points_per_cpu_s": BARE_PLANS / bare_s}
    for view in VIEWS:
        asked = partial(explore, {**MILLION, "view": view})
        points, seconds = asked().summary["points"], least_cpu(asked)
        found |= {
            "points": points,
            f"{view}_cpu_s": seconds,
            f"{view}_points_per_cpu_s": points / seconds,
            f"{view}_over_bare": points / seconds / (BARE_PLANS / bare_s),
        }
    return found


if __name__ == "__main__":
    main()
